package patch

import "strings"

// fileText is a file as lines. A line keeps its \r; the last one may lack the newline.
type fileText struct {
	lines   []string
	final   bool     // the last line has a newline; true for an empty file
	bom     bool     // the first line starts with a byte order mark
	crlf    int      // lines that end in \r
	relaxed []string // see loosely; nil until it is needed
}

func newFileText(s string) *fileText {
	t := &fileText{final: s == "" || strings.HasSuffix(s, "\n"), bom: strings.HasPrefix(s, bom)}
	if s != "" {
		t.lines = strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	}
	for _, l := range t.lines {
		if strings.HasSuffix(l, "\r") {
			t.crlf++
		}
	}
	return t
}

// loosely returns the file's lines for a comparison that is not exact.
func (t *fileText) loosely() []string {
	if t.relaxed == nil {
		t.relaxed = relax(t.lines)
	}
	return t.relaxed
}

// relax leaves out spaces and line endings at the ends of lines, and a byte order mark.
func relax(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(l, " \t\r")
	}
	if len(out) > 0 {
		out[0] = strings.TrimPrefix(out[0], bom)
	}
	return out
}

// search returns every index of lines at which want stands, in linear time (Knuth, Morris and Pratt), because neither
// input is trusted.
func search(lines, want []string) (found []int) {
	if len(want) == 0 || len(want) > len(lines) {
		return nil
	}
	fail := make([]int, len(want))
	for i, k := 1, 0; i < len(want); i++ {
		for k > 0 && want[i] != want[k] {
			k = fail[k-1]
		}
		if want[i] == want[k] {
			k++
		}
		fail[i] = k
	}
	for i, k := 0, 0; i < len(lines); i++ {
		for k > 0 && lines[i] != want[k] {
			k = fail[k-1]
		}
		if lines[i] == want[k] {
			k++
		}
		if k == len(want) {
			found = append(found, i-k+1)
			k = fail[k-1]
		}
	}
	return found
}
