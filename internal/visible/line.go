package visible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine makes text from anywhere fit to be printed: one line, printable, at most
// limit bytes. Bytes that are not UTF-8 are dropped.
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

// WithRemedy joins what went wrong and the remedy, "" for none. A sentence of someone else's loses its full stop.
func WithRemedy(message, remedy string) string {
	if remedy == "" {
		return message
	}
	if rest, ok := strings.CutSuffix(message, "."); ok && !strings.HasSuffix(rest, ".") {
		message = rest
	}
	return message + "; " + remedy
}

// Name is the name of a file as it is, or Quoted where not all of it could be seen: no two names look the same.
func Name(s string) string {
	if quoted := Quoted(s); quoted != `"`+s+`"` || strings.TrimSpace(s) != s {
		return quoted
	}
	return s
}

// Quoted is the name of a file as git quotes it, as a string of C, so that what reads names of git reads it. Unlike git
// by default, it leaves letters that are not ASCII.
func Quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for at, r := range s {
		_, size := utf8.DecodeRuneInString(s[at:])
		switch char := s[at : at+size]; {
		case r == '"' || r == '\\':
			b.WriteString(`\` + char)
		case escaped[r] != "":
			b.WriteString(escaped[r])
		case r == unicode.ReplacementChar, !strconv.IsPrint(r): // the first is a byte that is not UTF-8, or was none
			for i := range len(char) {
				fmt.Fprintf(&b, `\%03o`, char[i])
			}
		default:
			b.WriteString(char)
		}
	}
	return b.String() + `"`
}

// Code is a text of which every character that could not be seen is written as in Quoted: what is reviewed hides
// nothing. Line ends and tabs are kept; backslashes and quotes stay as they are.
func Code(s string) string {
	var b strings.Builder
	for at, r := range s {
		_, size := utf8.DecodeRuneInString(s[at:])
		switch char := s[at : at+size]; {
		case r == '\n' || r == '\t' || strconv.IsPrint(r) && r != unicode.ReplacementChar:
			b.WriteString(char)
		case escaped[r] != "":
			b.WriteString(escaped[r])
		default:
			for i := range len(char) {
				fmt.Fprintf(&b, `\%03o`, char[i])
			}
		}
	}
	return b.String()
}

// escaped are the control characters that have an escape of their own in C.
var escaped = map[rune]string{'\a': `\a`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\v': `\v`, '\f': `\f`, '\r': `\r`}

// Clip shortens text to limit bytes of whole characters, and shows that it did.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
