package postgres

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// PostgreSQL has no NUL in its strings and nothing that is not UTF-8. Both are written as mark and two hexadecimal
// digits, as the mark itself is. JSON has none of them.
const mark = '\x01'

func escape(s string) string {
	if !strings.ContainsAny(s, "\x00\x01") && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		if r, size = utf8.DecodeRuneInString(s[i:]); r > mark && (r != utf8.RuneError || size > 1) {
			b.WriteString(s[i : i+size])
			continue
		}
		b.WriteByte(mark)
		b.WriteString(strconv.FormatUint(0x100|uint64(s[i]), 16)[1:])
	}
	return b.String()
}

func unescape(s string) string {
	if strings.IndexByte(s, mark) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == mark && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
