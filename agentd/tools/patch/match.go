package patch

import (
	"fmt"
	"slices"
	"strings"
)

// fileText is a file as lines.
type fileText struct {
	bom   bool                  // the file starts with a byte order mark, which lines leaves out
	raw   []string              // lines with their endings
	lines [len(levels)][]string // lines without \n, for a comparison at each level; nil until one is needed
	eol   string                // the ending of most lines
}

// levels are the ways to compare lines, from the strictest on.
var levels = [...]struct {
	kind, message string
	relax         func(string) string
}{
	{relax: func(l string) string { return l }},
	{"trailing_space", "spaces or line endings at line ends differ", func(l string) string {
		return strings.TrimRight(l, " \t\r")
	}},
	{"punctuation", "quotation marks, dashes or spaces differ", func(l string) string {
		return plainText.Replace(strings.TrimRight(l, " \t\r"))
	}},
	indented: {"indentation", "the indentation differs; added lines got that of the file",
		strings.TrimSpace},
}

// indented is the level at which a hunk may be indented otherwise than the file, by the same on every line.
const indented = 3

// plainText replaces typographic punctuation by that of ASCII.
var plainText = strings.NewReplacer("‐", "-", "‑", "-", "‒", "-", "–", "-", "—", "-", "―", "-", "−", "-",
	"‘", "'", "’", "'", "‚", "'", "‛", "'", "“", `"`, "”", `"`, "„", `"`, "‟", `"`,
	"\u00a0", " ", "\u2002", " ", "\u2003", " ", "\u2009", " ", "\u202f", " ", "\u3000", " ")

func newFileText(s string) *fileText {
	t := &fileText{eol: "\n"}
	s, t.bom = strings.CutPrefix(s, bom)
	if t.raw = strings.SplitAfter(s, "\n"); t.raw[len(t.raw)-1] == "" {
		t.raw = t.raw[:len(t.raw)-1]
	}
	if 2*strings.Count(s, "\r\n") > strings.Count(s, "\n") {
		t.eol = "\r\n"
	}
	return t
}

// at returns the file's lines as they are compared at a level.
func (t *fileText) at(level int) []string {
	if t.lines[level] == nil {
		lines := make([]string, len(t.raw))
		for i, l := range t.raw {
			lines[i] = levels[level].relax(strings.TrimSuffix(l, "\n"))
		}
		t.lines[level] = lines
	}
	return t.lines[level]
}

// relaxed returns lines of a patch as they are compared at a level.
func relaxed(lines []string, level int) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = levels[level].relax(strings.TrimPrefix(l, bom))
	}
	return out
}

// placed is a hunk with its place in the file.
type placed struct {
	lines []hunkLine
	pos   int // index of the first line concerned
	old   int // how many lines it replaces or keeps
	level int
	exact bool // the lines of the hunk end as those of the file do

	indent, outdent string // what lines of the hunk lack, and what they have too much, at their beginning
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

// maxFailedHunks ends the search for the places of one file's hunks.
const maxFailedHunks = 20

// place finds where each hunk belongs. Hunks come in the order of the file and do not overlap. Of the hunks that have
// no place, as many as explanations says are explained with lines of the file.
func (t *fileText) place(hunks []hunk, explanations *int) (list []placed, notes []diagnostic, bad []mismatch) {
	next := 0
	for i := range hunks {
		h := &hunks[i]
		p, failed := t.locate(h, list, next)
		if failed != nil {
			t.explain(h, failed, explanations)
			failed.hunk, failed.line = i+1, h.line
			if bad = append(bad, *failed); len(bad) == maxFailedHunks {
				break // enough to show that the model has another file in mind
			}
			continue
		}
		list = append(list, p)
		next = p.pos + p.old
		if l := levels[p.level]; l.kind != "" {
			notes = append(notes, diagnostic{Kind: l.kind, Message: fmt.Sprintf("hunk %d: %s", i+1, l.message)})
		}
	}
	return list, notes, bad
}

// locate finds the one place of a hunk below the hunk before: where it stands exactly or, if that is nowhere, at the
// first level at which it stands at all. A mismatch without a reason means that there is no place.
func (t *fileText) locate(h *hunk, list []placed, next int) (placed, *mismatch) {
	old := h.side('+')
	if len(old) == 0 {
		return t.locateInsertion(h, list, next)
	}
	if at := h.start - 1; at >= 0 && stands(t.at(0), relaxed(old, 0), at) {
		if at < next {
			return placed{}, &mismatch{reason: outOfOrder(at)}
		}
		return placed{lines: h.lines, pos: at, old: len(old), exact: true}, nil
	}
	for level := range levels {
		found := search(t.at(level), relaxed(old, level))
		found = slices.DeleteFunc(found, func(pos int) bool {
			if level == indented {
				if _, _, ok := h.shift(t.at(1)[pos:]); !ok {
					return true
				}
			}
			return pos < next
		})
		if len(found) == 0 {
			continue
		}
		pos, failed := t.choose(h, found, len(old))
		if failed != nil {
			return placed{}, failed
		}
		p := placed{lines: h.lines, pos: pos, old: len(old), level: level, exact: sameEndings(t.at(0)[pos:], old)}
		if level == indented {
			p.indent, p.outdent, _ = h.shift(t.at(1)[pos:])
		}
		return p, nil
	}
	return placed{}, &mismatch{}
}

// shift returns the spaces before the lines of a file that those of the hunk lack, or that they have too much. Removed
// lines decide, if there are any. A single space is the prefix that context came without.
func (h *hunk) shift(is []string) (lacks, extra string, ok bool) {
	removes := len(h.side('-')) < len(h.lines)
	i, first := -1, true
	for _, l := range h.lines {
		if l.op == '+' {
			continue
		}
		i++
		text := levels[1].relax(l.text)
		if text == "" || removes && l.op == ' ' {
			continue
		}
		less, isLess := strings.CutSuffix(is[i], text)
		more, isMore := strings.CutSuffix(text, is[i])
		switch {
		case isLess:
			more = ""
		case isMore:
			less = ""
		default:
			return "", "", false
		}
		if !first && (less != lacks || more != extra) {
			return "", "", false
		}
		lacks, extra, first = less, more, false
	}
	if lacks == " " {
		lacks = ""
	}
	return lacks, extra, true
}

// locateInsertion places a hunk of added lines only, which needs another sign of where it belongs.
func (t *fileText) locateInsertion(h *hunk, list []placed, next int) (placed, *mismatch) {
	p := placed{lines: h.lines, exact: len(t.raw) == 0}
	above, anchored := t.anchored(h)
	switch {
	case len(t.raw) == 0:
	case h.atEnd:
		p.pos = len(t.raw)
	case h.inserts && h.start <= len(t.raw) && h.start >= next:
		p.pos = h.start
	case anchored && above+1 >= next:
		p.pos = above + 1
	default:
		return placed{}, &mismatch{reason: "has only added lines, so its place is unknown",
			nearest: t.excerpt(max(0, h.start-1), 3)}
	}
	if n := len(list); n > 0 && list[n-1].old == 0 && list[n-1].pos == p.pos {
		return placed{}, &mismatch{reason: "adds lines at the same place as the hunk before it; merge the two"}
	}
	return p, nil
}

// choose picks one of several places if something in the hunk decides: the end of the file or a line above it.
func (t *fileText) choose(h *hunk, found []int, n int) (int, *mismatch) {
	if last := found[len(found)-1]; h.atEnd && last+n == len(t.raw) {
		return last, nil
	}
	if above, ok := t.anchored(h); ok {
		if i := slices.IndexFunc(found, func(pos int) bool { return pos+n > above }); i >= 0 {
			return found[i], nil
		}
		if h.start < 0 {
			last := found[len(found)-1]
			return 0, &mismatch{nearest: t.excerpt(last, n), reason: fmt.Sprintf(
				"fits at line %d only, which is above line %d that its header names", last+1, above+1)}
		}
	}
	if len(found) > 1 {
		numbers := make([]int, 0, 10)
		for _, pos := range found[:min(len(found), 10)] {
			numbers = append(numbers, pos+1)
		}
		return 0, &mismatch{reason: fmt.Sprintf("fits in %d places", len(found)), candidates: numbers}
	}
	return found[0], nil
}

// anchored returns the index of the line that the hunk's header names: of several, the outermost must stand once in the
// file, and each other one below the one before.
func (t *fileText) anchored(h *hunk) (int, bool) {
	at := -1
	for _, a := range h.anchors {
		var hits []int
		for i := at + 1; i < len(t.raw); i++ {
			// git cuts long ones
			if l := strings.TrimSpace(t.raw[i]); l == a || len(a) >= 20 && strings.HasPrefix(l, a) {
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

// sameEndings reports whether lines of a patch end in \r where those of the file do.
func sameEndings(is, says []string) bool {
	for i, l := range says {
		if strings.HasSuffix(l, "\r") != strings.HasSuffix(is[i], "\r") {
			return false
		}
	}
	return true
}

func outOfOrder(at int) string {
	return fmt.Sprintf("fits at line %d, which is above or in the hunk before it; give hunks in the order of the file "+
		"and merge those that share lines", at+1)
}

// stands reports whether lines stand at an index of the file.
func stands(lines, want []string, at int) bool {
	return at+len(want) <= len(lines) && slices.Equal(lines[at:at+len(want)], want)
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

// build returns the text with the placed hunks, which are in order and do not overlap. Context keeps what the file has.
func (t *fileText) build(list []placed) string {
	var out []string
	next := 0
	for _, p := range list {
		out = append(out, t.raw[next:p.pos]...)
		next = p.pos
		for _, l := range p.lines {
			switch {
			case l.op == ' ':
				out = append(out, t.raw[next])
				next++
			case l.op == '-':
				next++
			case l.noEOL:
				out = append(out, strings.TrimSuffix(l.text, "\r"))
			default:
				out = append(out, t.added(p, l.text))
			}
		}
	}
	out = append(out, t.raw[next:]...)
	for i, l := range out {
		if i < len(out)-1 && !strings.HasSuffix(l, "\n") { // was the last line, without newline
			out[i] += t.eol
		}
	}
	data := strings.Join(out, "")
	if t.bom && data != "" {
		return bom + data
	}
	return data
}

// added returns an added line with its ending: the file's, if the hunk does not show which one it has.
func (t *fileText) added(p placed, text string) string {
	if t.bom {
		text = strings.TrimPrefix(text, bom)
	}
	if p.exact {
		text += "\n"
	} else {
		text = strings.TrimSuffix(text, "\r") + t.eol
	}
	if text = strings.TrimPrefix(text, p.outdent); strings.TrimSpace(text) != "" {
		text = p.indent + text
	}
	return text
}
