package shell

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"holon/agentd/process"
	"holon/agentd/tools"
)

// minPreview is the smallest useful budget, in bytes; the notice of a cut alone
// takes about a hundred.
const minPreview = 400

func previewBytes(tokens int) int { return max(tokens*tools.BytesPerToken, minPreview) }

// text is a captured stream made readable. gap says that bytes are missing
// between head and tail; otherwise everything is in head.
type text struct {
	head, tail string
	gap        bool
	bytes      int64
	lines      int64
}

func newText(c process.Capture) text {
	t := text{bytes: c.Total, lines: c.Lines, gap: c.Omitted() > 0}
	if !t.gap {
		t.head = readable(append(append([]byte{}, c.Head...), c.Tail...))
		return t
	}
	// The gap may have cut characters in two; that is not the command's fault.
	t.head, t.tail = readable(trimPartialEnd(c.Head)), readable(trimPartialStart(c.Tail))
	return t
}

func (t text) size() int { return len(t.head) + len(t.tail) }

// preview returns at most about budget bytes of the stream, cut in the middle
// where it is longer, or nil where nothing was printed.
func (t text) preview(budget int) (_ *string, truncated bool) {
	if t.bytes == 0 {
		return nil, false
	}
	budget = max(budget, minPreview)
	if !t.gap && len(t.head) <= budget {
		return &t.head, false
	}
	head, tail := t.head, t.tail
	if !t.gap {
		tail = t.head
	}
	half := budget / 2
	head, headWhole := firstBytes(head, half)
	tail, tailWhole := lastBytes(tail, half)
	var notice string
	if headWhole && tailWhole {
		notice = fmt.Sprintf("[output truncated: showing first %d and last %d lines of %d, %d bytes in all]",
			strings.Count(head, "\n"), countLines(tail), t.lineCount(tail), t.bytes)
	} else {
		notice = fmt.Sprintf("[output truncated: showing first %d and last %d characters of %d bytes in all]",
			utf8.RuneCountInString(head), utf8.RuneCountInString(tail), t.bytes)
	}
	s := head
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	s += "...\n" + notice + "\n...\n" + tail
	return &s, true
}

// lineCount includes a last line without newline.
func (t text) lineCount(tail string) int64 {
	if strings.HasSuffix(tail, "\n") {
		return t.lines
	}
	return t.lines + 1
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// firstBytes returns at most n bytes of the beginning, whole lines if that does
// not cost more than half of them.
func firstBytes(s string, n int) (_ string, wholeLines bool) {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if i := strings.LastIndexByte(s, '\n'); i >= len(s)/2 {
		return s[:i+1], true
	}
	return s, false
}

// lastBytes is firstBytes for the end.
func lastBytes(s string, n int) (_ string, wholeLines bool) {
	if len(s) > n {
		i := len(s) - n
		for i < len(s) && !utf8.RuneStart(s[i]) {
			i++
		}
		s = s[i:]
	}
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)/2 {
		return s[i+1:], true
	}
	return s, false
}

func trimPartialEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

func trimPartialStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

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
		i := 2
		for i < len(b) && b[i] >= 0x20 && b[i] <= 0x3f {
			i++
		}
		if i < len(b) && b[i] >= 0x40 && b[i] <= 0x7e && i < maxEscape {
			return i + 1
		}
		return 0
	case ']', 'P', 'X', '^', '_':
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
	i := 1
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f && i < maxEscape {
		i++
	}
	if i < len(b) && b[i] >= 0x30 && b[i] <= 0x7e {
		return i + 1
	}
	return 0
}
