package runner

import (
	"regexp"
	"strings"
	"unicode"
)

// escapes are whole terminal sequences: CSI, strings such as a window title or a
// link, and the short ones. What has no end within bounds is no sequence: text
// must not hide behind it.
var escapes = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]{0,64}[ -/]{0,8}[@-~]|(?:\x1b[\]PX^_]|[\x{9d}\x{90}\x{98}\x{9e}\x{9f}])[^\x07\x1b\x{9c}\n]{0,512}(?:\x07|\x1b\\|\x{9c})|\x1b[ -/]{0,8}[0-~]`)

// Printable makes text of a model, a container or a repository fit for a terminal
// and a log: terminal sequences, control characters and characters that reorder
// or hide text are dropped, line ends and tabs kept, and what is no UTF-8 becomes
// U+FFFD.
func Printable(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsAny(s, "\x1b\u009b\u009d\u0090\u0098\u009e\u009f") {
		s = escapes.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && hidden(r) {
			return -1
		}
		return r
	}, s)
}

// hidden reports characters that can't be seen, or change how others are: controls,
// line and paragraph separators, and format characters but for the joiners that
// scripts and emoji need and the signs that are seen.
func hidden(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' '
	case r == '\u200c' || r == '\u200d' || unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

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
	}, Printable(strings.ToValidUTF8(s, "")))
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
