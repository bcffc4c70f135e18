// Package visible makes text of models, containers, repositories and providers fit
// to be shown: one rule for terminals, logs and records says which characters can't
// be seen or change how others are.
package visible

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
)

// escapes are whole terminal sequences: CSI, strings such as a window title or a
// link, and the short ones. A sequence without an end within bounds counts as text,
// which must not hide behind it.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]{0,64}[ -/]{0,8}[@-~]|(?:\x1b[\]PX^_]|[\x{9d}\x{90}\x{98}` +
		`\x{9e}\x{9f}])[^\x07\x1b\x{9c}\n]{0,512}(?:\x07|\x1b\\|\x{9c})|\x1b[ -/]{0,8}[0-~]`)
})

// Text drops terminal sequences, control characters and characters that reorder or
// hide text. Line ends and tabs are kept, and what is not UTF-8 becomes U+FFFD.
func Text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsAny(s, "\x1b\u009b\u009d\u0090\u0098\u009e\u009f") {
		s = escapes().ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && Hidden(r) {
			return -1
		}
		return r
	}, s)
}

// Hidden reports characters that can't be seen, or change how others are: controls,
// line and paragraph separators, and format characters but for the joiners that
// scripts and emoji need and the signs that are seen.
func Hidden(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' '
	case r == '\u200c' || r == '\u200d' || unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

var unseen = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\x{7f}-\x{9f}\p{Cf}\p{Zl}\p{Zp}]`)
})

// JSON writes what can't be seen in JSON as escapes, joiners included, without
// changing what it says. What is not UTF-8 becomes U+FFFD.
func JSON(data []byte) []byte {
	return unseen().ReplaceAllFunc(bytes.ToValidUTF8(data, []byte("\uFFFD")), func(found []byte) []byte {
		var b []byte
		for _, unit := range utf16.Encode([]rune(string(found))) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		return b
	})
}
