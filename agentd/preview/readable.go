package preview

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// readable makes printable UTF-8 of what a command printed: terminal sequences
// are taken out, line ends become \n, and everything else that a reader could
// not see is made visible, long runs of it by their number.
func readable(b []byte) string {
	var out strings.Builder
	out.Grow(len(b))
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case c == '\n' || c == '\t' || c >= 0x20 && c < 0x7f:
			out.WriteByte(c)
			i++
		case c == '\r':
			i += countReturns(b[i:])
			out.WriteByte('\n')
		case c == 0x1b:
			if n := escapeLen(b[i:]); n > 0 {
				i += n
				continue
			}
			out.WriteString("^[")
			i++
		case c < 0x20 || c == 0x7f:
			n := runLen(b[i:], c)
			writeRun(&out, "^"+string(rune(c^0x40)), n)
			i += n
		default:
			i += writeRune(&out, b[i:])
		}
	}
	return out.String()
}

// countReturns returns the length of "\r…\r\n", or of one "\r", with which a
// progress display begins its line again.
func countReturns(b []byte) int {
	n := runLen(b, '\r')
	if n < len(b) && b[n] == '\n' {
		return n + 1
	}
	return 1
}

func runLen(b []byte, c byte) int {
	n := 1
	for n < len(b) && b[n] == c {
		n++
	}
	return n
}

// maxRun is how many equal invisible characters are shown one by one.
const maxRun = 8

func writeRun(out *strings.Builder, shown string, n int) {
	if n > maxRun {
		out.WriteString("[" + shown + " ×" + strconv.Itoa(n) + "]")
		return
	}
	for range n {
		out.WriteString(shown)
	}
}

// writeRune writes the character at the start of b and returns its length.
func writeRune(out *strings.Builder, b []byte) int {
	r, n := utf8.DecodeRune(b)
	switch {
	case r == utf8.RuneError && n <= 1:
		bad := 0
		for bad < len(b) && b[bad] >= utf8.RuneSelf {
			if r, n := utf8.DecodeRune(b[bad:]); r != utf8.RuneError || n > 1 {
				break
			}
			bad++
		}
		writeRun(out, "\ufffd", bad)
		return bad
	case invisible(r):
		fmt.Fprintf(out, "<U+%04X>", r)
	default:
		out.Write(b[:n])
	}
	return n
}

// invisible reports control characters beyond ASCII and those that reorder or
// hide text.
func invisible(r rune) bool {
	return r >= 0x80 && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e ||
		r >= 0x2060 && r <= 0x2069 || r == 0xfeff
}

// maxEscape bounds a terminal string such as a window title. A longer one, or
// one with a line break, is not taken out: output must not hide behind it.
const maxEscape = 4096

// escapeLen returns the length of the terminal sequence at the start of b,
// which begins with ESC, or 0 if it is not one.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '[':
		return sequenceLen(b, 2, 0x3f, 0x40)
	case ']', 'P', 'X', '^', '_':
		return stringLen(b)
	}
	return sequenceLen(b, 1, 0x2f, 0x30)
}

// sequenceLen returns the length of a sequence of bytes from 0x20 to lastParam, starting at index i, and one from
// firstFinal to 0x7e, or 0.
func sequenceLen(b []byte, i int, lastParam, firstFinal byte) int {
	for i < len(b) && b[i] >= 0x20 && b[i] <= lastParam {
		i++
	}
	if i < len(b) && b[i] >= firstFinal && b[i] <= 0x7e && i < maxEscape {
		return i + 1
	}
	return 0
}

// stringLen returns the length of a terminal string, which ends with BEL or ESC \, or 0.
func stringLen(b []byte) int {
	for i := 2; i < len(b) && i < maxEscape && b[i] != '\n'; i++ {
		if b[i] == 0x07 {
			return i + 1
		}
		if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
			return i + 2
		}
	}
	return 0
}
