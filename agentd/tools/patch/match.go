package patch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// fileText is a file as lines. A line keeps its \r; the last one may lack the
// newline.
type fileText struct {
	lines   []string
	final   bool // the last line has a newline; true for an empty file
	crlf    int  // lines that end in \r
	relaxed [levels][]string
	spent   *spent
}

// The levels at which lines are compared, strictest first.
const (
	exact = iota
	anySpace
	anyEnding
	levels
)

func newFileText(s string, used *spent) *fileText {
	t := &fileText{spent: used, final: s == "" || strings.HasSuffix(s, "\n")}
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

func (t *fileText) at(level int) []string {
	if level == exact {
		return t.lines
	}
	if t.relaxed[level] == nil {
		t.relaxed[level] = relax(t.lines, level)
	}
	return t.relaxed[level]
}

func relax(lines []string, level int) []string {
	if level == exact {
		return lines
	}
	cut := " \t"
	if level == anyEnding {
		cut = " \t\r"
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(l, cut)
	}
	return out
}

// maxFailedHunks ends the search for the places of one file's hunks.
const maxFailedHunks = 20

// placed is a hunk with its place in the file.
type placed struct {
	hunkLines []hunkLine
	pos       int // index of the first line concerned
	old       int // how many lines it replaces or keeps
	level     int
}

// mismatch says why a hunk has no place.
type mismatch struct {
	hunk       int // from 1
	line       int // of the patch
	reason     string
	candidates []int // line numbers where it would fit
	nearest    []string
	applied    int // line number where its result already stands, or 0
}

// place finds where each hunk belongs, all in the file as it is now.
func (t *fileText) place(hunks []hunk) (list []placed, notes []Diagnostic, bad []mismatch) {
	end := 0
	for i := range hunks {
		h := &hunks[i]
		if len(h.lines) == 0 {
			continue
		}
		p, failed := t.locate(h, list, end)
		if failed != nil {
			t.explain(h, failed)
			failed.hunk, failed.line = i+1, h.line
			if bad = append(bad, *failed); len(bad) == maxFailedHunks {
				break // enough to see that the model has another file in mind
			}
			continue
		}
		list = append(list, p)
		end = p.pos + p.old
		notes = append(notes, p.notes(h, i+1)...)
	}
	slices.SortStableFunc(list, func(a, b placed) int { return cmp.Compare(a.pos, b.pos) })
	return list, notes, bad
}

// locate finds the one place of a hunk, trying its readings from the most to
// the least literal.
func (t *fileText) locate(h *hunk, taken []placed, end int) (placed, *mismatch) {
	if len(h.old(h.lines)) == 0 {
		return t.locateInsertion(h, end)
	}
	var ambiguous *mismatch
	for _, lines := range h.readings() {
		old := h.old(lines)
		if len(old) == 0 {
			continue
		}
		for level := range levels {
			if !t.afford(len(t.lines) + len(old)) {
				return placed{}, &mismatch{reason: "cannot be looked for: the patch and its files are too large together"}
			}
			found := search(t.at(level), relax(old, level))
			if !t.afford(len(found) * (8 + len(taken))) {
				return placed{}, &mismatch{reason: fmt.Sprintf("fits in %d places", len(found)), candidates: lineNumbers(found)}
			}
			found = slices.DeleteFunc(found, func(pos int) bool { return overlaps(taken, pos, len(old)) })
			if len(found) == 0 {
				continue
			}
			if pos, ok := t.choose(h, found, len(old), end); ok {
				return placed{hunkLines: lines, pos: pos, old: len(old), level: level}, nil
			}
			if ambiguous == nil {
				ambiguous = &mismatch{reason: fmt.Sprintf("fits in %d places", len(found)), candidates: lineNumbers(found)}
			}
			break
		}
		if ambiguous != nil {
			return placed{}, ambiguous
		}
	}
	return placed{}, &mismatch{}
}

// afford counts work and reports whether there is any left to do.
func (t *fileText) afford(n int) bool {
	t.spent.work += n
	return t.spent.work <= maxWork
}

// locateInsertion places a hunk of added lines only, which needs another sign of
// where it belongs.
func (t *fileText) locateInsertion(h *hunk, end int) (placed, *mismatch) {
	p := placed{hunkLines: h.lines, level: exact}
	if t.crlf > 0 {
		p.level = anyEnding // nothing in the hunk shows the file's line endings
	}
	above, anchored := t.anchored(h)
	switch {
	case len(t.lines) == 0:
	case h.atEnd:
		p.pos = len(t.lines)
	case h.insertAt && h.start <= len(t.lines) && h.start >= end:
		p.pos = h.start
	case anchored:
		p.pos = above + 1
	default:
		return placed{}, &mismatch{reason: "has only added lines, so its place is unknown", nearest: t.excerpt(max(0, h.start-1), 3)}
	}
	return p, nil
}

// choose picks one of several places, if there is proof for it.
func (t *fileText) choose(h *hunk, found []int, n, end int) (int, bool) {
	if len(found) == 1 {
		return found[0], true
	}
	if h.start > 0 && slices.Contains(found, h.start-1) {
		return h.start - 1, true
	}
	if last := found[len(found)-1]; h.atEnd && last+n == len(t.lines) {
		return last, true
	}
	if above, ok := t.anchored(h); ok {
		for _, pos := range found {
			if pos > above {
				return pos, true
			}
		}
	}
	if end > 0 {
		// Hunks come in the order of the file.
		after := slices.DeleteFunc(slices.Clone(found), func(pos int) bool { return pos < end })
		if len(after) == 1 {
			return after[0], true
		}
	}
	return 0, false
}

// anchored returns the index of the line that the hunk is said to stand below.
func (t *fileText) anchored(h *hunk) (int, bool) {
	at := -1
	if !t.afford(len(h.anchors) * len(t.lines)) {
		return 0, false
	}
	for _, a := range h.anchors {
		var hits []int
		for i := at + 1; i < len(t.lines); i++ {
			if l := strings.TrimSpace(t.lines[i]); l == a || len(a) >= 20 && strings.HasPrefix(l, a) { // git cuts long ones
				hits = append(hits, i)
			}
		}
		if len(hits) == 0 || len(hits) > 1 && at < 0 {
			return 0, false
		}
		at = hits[0]
	}
	return at, at >= 0
}

// readings are the ways to understand a hunk: as it stands, without empty lines
// that may only separate it from what follows, and with context whose first
// character is text because all leading spaces were forgotten.
func (h *hunk) readings() [][]hunkLine {
	list := [][]hunkLine{h.lines}
	if h.blanks > 0 {
		list = append(list, h.lines[:len(h.lines)-h.blanks])
	}
	for _, lines := range list {
		var restored []hunkLine
		changed := false
		for _, l := range lines {
			if l.op == ' ' && !l.raw {
				l.text, changed = " "+l.text, true
			}
			restored = append(restored, l)
		}
		if changed {
			list = append(list, restored)
		}
	}
	return list
}

// old is what the hunk expects to find.
func (h *hunk) old(lines []hunkLine) []string { return side(lines, '+') }

// side returns the texts of the lines that are not of kind without.
func side(lines []hunkLine, without byte) []string {
	var texts []string
	for _, l := range lines {
		if l.op != without {
			texts = append(texts, l.text)
		}
	}
	return texts
}

func overlaps(taken []placed, pos, n int) bool {
	return slices.ContainsFunc(taken, func(p placed) bool { return pos < p.pos+p.old && p.pos < pos+n })
}

// search returns every index of lines at which want stands, in linear time
// (Knuth, Morris and Pratt), because both come from strangers.
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

func lineNumbers(found []int) []int {
	numbers := make([]int, 0, 10)
	for _, pos := range found[:min(len(found), 10)] {
		numbers = append(numbers, pos+1)
	}
	return numbers
}

// notes tells what was tolerated to place a hunk.
func (p placed) notes(h *hunk, n int) (notes []Diagnostic) {
	add := func(kind, format string, args ...any) {
		notes = append(notes, Diagnostic{Kind: kind, Message: fmt.Sprintf("hunk %d: ", n) + fmt.Sprintf(format, args...)})
	}
	switch p.level {
	case anySpace:
		add("trailing_space", "spaces at line ends differ")
	case anyEnding:
		add("line_endings", "line endings differ; the file keeps its own")
	}
	if h.start > 0 && p.old > 0 && h.start != p.pos+1 {
		add("wrong_line_number", "found at line %d, not %d", p.pos+1, h.start)
	}
	if slices.ContainsFunc(p.hunkLines, func(l hunkLine) bool { return l.raw && strings.TrimSpace(l.text) != "" }) || len(p.hunkLines) > 0 && !sameText(p.hunkLines, h.lines) {
		add("context_prefix", "context lines had no leading space")
	}
	return notes
}

// sameText reports whether b begins with the lines of a.
func sameText(a, b []hunkLine) bool {
	return len(a) <= len(b) && slices.Equal(a, b[:len(a)])
}
