package visible

import (
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

// Clip shortens text to limit bytes of whole characters, and shows that it did.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
