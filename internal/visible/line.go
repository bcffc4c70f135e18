package visible

import (
	"strconv"
	"strings"
	"unicode"
)

// OneLine makes text from anywhere fit to be printed: one line, printable, at most
// limit bytes. What is no UTF-8 is dropped.
func OneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\t':
			return ' '
		case unicode.ReplacementChar:
			return -1
		}
		return r
	}, Text(strings.ToValidUTF8(s, "")))
	s = strings.TrimSpace(s)
	return Clip(s, limit)
}

// Name is the name of a file as it is, or quoted as in Go where not all of it could be seen: no two names look the
// same.
func Name(s string) string {
	if strings.ContainsRune(s, unicode.ReplacementChar) { // of a name that went through JSON
		return strconv.QuoteToASCII(s)
	}
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` || strings.TrimSpace(s) != s {
		return quoted
	}
	return s
}

// Clip shortens text to limit bytes of whole characters, and shows that it did.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
