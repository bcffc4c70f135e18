package preview

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"holon/agentd/process"
)

func TestReadable(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"a\r\nb\r\r\nc\rd", "a\nb\nc\nd"},
		{"\x1b[1;31mred\x1b[0m \x1b[2K\x1b[?25l", "red "},
		{"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b(B", "xlink"},
		{"\x1b]0;never ends\nnext", "^[]0;never ends\nnext"},
		{"\x1b", "^["},
		{"\x1b[", "^[["},
		{"a\x00b\x07\x7f", "a^@b^G^?"},
		{strings.Repeat("\x00", 5000), "[^@ ×5000]"},
		{"\xff\xfe ok \xe2\x82", "\ufffd\ufffd ok \ufffd\ufffd"},
		{strings.Repeat("\xff", 100) + "é", "[\ufffd ×100]é"},
		{"\u009b31m \u202ereversed\u2066 zero\u200bwidth", "<U+009B>31m <U+202E>reversed<U+2066> zero<U+200B>width"},
		{"real \ufffd stays", "real \ufffd stays"},
	}
	for _, tt := range tests {
		if got := readable([]byte(tt.in)); got != tt.want {
			t.Errorf("%.60q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPreviewCuts(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := map[string]struct{ in, contains string }{
		"one line": {long, "showing first 200 and last 200 characters of 100000 bytes"},
		"lines": {strings.Repeat("line\n", 1000),
			"showing first 40 and last 39 lines of 1000, 5000 bytes in all"},
		"no newline at the end": {strings.Repeat("line\n", 1000) + "end", "lines of 1001, 5003 bytes in all"},
		"umlauts":               {strings.Repeat("ä", 1000), "showing first 100 and last 100 characters of 2000 bytes"},
	}
	for name, tt := range tests {
		for _, keep := range []int{400, 1 << 20} { // with and without a gap in the capture
			c := capture([]byte(tt.in), keep)
			got, cut := Of(c).Cut(400)
			switch {
			case !cut:
				t.Errorf("%s: cut = false, want true", name)
			case !strings.Contains(*got, tt.contains):
				t.Errorf("%s: *got = %q, want it to contain %q", name, *got, tt.contains)
			case !utf8.ValidString(*got):
				t.Errorf("%s: utf8.ValidString(*got) = false, want true", name)
			case strings.Contains(*got, "\ufffd"):
				t.Errorf(`%s: *got = %q, want it without "�"`, name, *got)
			}
		}
	}
}

// However a character is cut by the moment of a look, it is not shown in part:
// neither at the end of what has arrived nor where head and tail meet.
func TestPreviewWhileOpen(t *testing.T) {
	const text = "aä€😀"
	for n := range len(text) + 1 {
		for keep := range n + 1 {
			c := process.Capture{Head: []byte(text[:keep]), Tail: []byte(text[keep:n]), Total: int64(n), Open: true}
			got := ""
			if p, cut := Of(c).Cut(400); cut {
				t.Errorf("%q is cut", text[:n])
			} else if p != nil {
				got = *p
			}
			if !strings.HasPrefix(text, got) || len(text[:n])-len(got) >= utf8.UTFMax {
				t.Errorf("%q: %q", text[:n], got)
			}
			c.Open = false
			if p, _ := Of(c).Cut(400); n > 0 && strings.Contains(*p, "\ufffd") == utf8.ValidString(text[:n]) {
				t.Errorf("%q, which is all there is: %q", text[:n], *p)
			}
		}
	}
	long := []byte(strings.Repeat("😀", 1000))
	for n := range 4 {
		end := len(long) - n
		c := process.Capture{Head: long[:401], Tail: long[end-402 : end], Total: int64(end), Open: true}
		switch p, cut := Of(c).Cut(400); {
		case !cut:
			t.Errorf("%d: cut = false, want true", n)
		case strings.Contains(*p, "\ufffd"):
			t.Errorf(`%d: *p = %q, want it without "�"`, n, *p)
		case !utf8.ValidString(*p):
			t.Errorf("%d: utf8.ValidString(*p) = false, want true", n)
		}
	}
}

func capture(data []byte, keep int) process.Capture {
	c := process.Capture{Head: data, Total: int64(len(data)), Lines: int64(bytes.Count(data, []byte("\n")))}
	if len(data) > 2*keep {
		c.Head, c.Tail = data[:keep], data[len(data)-keep:]
	}
	return c
}

// A preview is valid, bounded, free of anything a terminal obeys, and whole when
// it says so.
func FuzzPreview(f *testing.F) {
	f.Add([]byte("hello\nworld\n"), 400)
	f.Add(bytes.Repeat([]byte("\x1b[31mä\xff\r\n"), 500), 500)
	f.Add([]byte("\x1b]0;"), 1)
	f.Fuzz(func(t *testing.T, data []byte, keep int) {
		keep = 400 + max(0, keep%4096)
		p, cut := Of(capture(data, keep)).Cut(keep)
		if (p == nil) != (len(data) == 0) {
			t.Fatal("a preview must be null exactly when nothing was printed")
		}
		if p == nil {
			return
		}
		if !utf8.ValidString(*p) || len(*p) > keep+200 {
			t.Fatalf("%d bytes, valid %v", len(*p), utf8.ValidString(*p))
		}
		if i := strings.IndexFunc(*p, func(r rune) bool {
			return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || invisible(r)
		}); i >= 0 {
			t.Fatalf("%q at %d", (*p)[i], i)
		}
		if !cut && *p != readable(data) {
			t.Fatal("not cut, yet not whole")
		}
	})
}
