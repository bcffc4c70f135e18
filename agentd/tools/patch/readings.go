package patch

import (
	"fmt"
	"slices"
	"strings"
)

// reading is a way to understand a hunk. Its note is the kind of the diagnostic that says so, "" for the literal one.
type reading struct {
	lines []hunkLine
	note  string
}

// readings lists how a hunk may be understood: as it stands; without empty lines at its end, which may only separate it
// from the next part; with empty lines between added ones that lost their +; with context that lost its leading space.
func (h *hunk) readings() []reading {
	list := []reading{{lines: h.lines}}
	if h.blanks > 0 {
		list = append(list, reading{lines: h.content()})
	}
	if lines, ok := h.blanksAdded(); ok {
		list = append(list, reading{lines, "missing_prefix"})
	}
	for _, r := range list {
		restored, changed := slices.Clone(r.lines), false
		for i, l := range restored {
			if l.op == ' ' && !l.raw {
				restored[i].text, changed = " "+l.text, true
			}
		}
		if changed {
			list = append(list, reading{restored, "context_prefix"})
		}
	}
	return list
}

// content is the hunk without empty lines that may only separate it from the next part.
func (h *hunk) content() []hunkLine { return h.lines[:len(h.lines)-h.blanks] }

// otherMeaning returns the reading that would change the file in another way than r does. It must not fit too.
func (h *hunk) otherMeaning(r reading) (reading, bool) {
	if r.note != "" {
		return reading{}, false
	}
	lines, ok := h.blanksAdded()
	return reading{lines, "missing_prefix"}, ok
}

// blanksAdded takes empty lines without prefix between added lines for added ones.
func (h *hunk) blanksAdded() (lines []hunkLine, changed bool) {
	if h.counted {
		return nil, false
	}
	lines = slices.Clone(h.content())
	for i := 1; i < len(lines); i++ {
		end := i
		for end < len(lines) && lines[end].soft() {
			end++
		}
		if end > i && end < len(lines) && lines[i-1].op == '+' && lines[end].op == '+' {
			for j := i; j < end; j++ {
				lines[j].op, changed = '+', true
			}
		}
		i = end
	}
	return lines, changed
}

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

// notes lists what was tolerated to place a hunk.
func (t *fileText) notes(h *hunk, p placed) (notes []diagnostic) {
	add := func(kind, format string, args ...any) {
		notes = append(notes, diagnostic{Kind: kind,
			Message: fmt.Sprintf("hunk %d: ", p.hunk) + fmt.Sprintf(format, args...)})
	}
	if p.space {
		add("trailing_space", "spaces at line ends differ")
	}
	if p.endings && (p.old > 0 || slices.ContainsFunc(p.lines, func(l hunkLine) bool {
		return t.ending(l.text, true) != l.text
	})) {
		add("line_endings", "line endings differ; the file keeps its own")
	}
	if t.marked(p) {
		add("byte_order_mark", "the file keeps its byte order mark")
	}
	if h.start > 0 && p.old > 0 && h.start != p.pos+1 {
		if h.start < farAway {
			add("wrong_line_number", "found at line %d, not %d", p.pos+1, h.start)
		} else {
			add("wrong_line_number", "found at line %d; the stated number is too large", p.pos+1)
		}
	}
	if p.note == "context_prefix" || slices.ContainsFunc(p.lines, func(l hunkLine) bool {
		return l.raw && strings.TrimSpace(l.text) != ""
	}) {
		add("context_prefix", "context lines had no leading space")
	}
	if p.note == "missing_prefix" {
		add(p.note, "empty lines between added ones had no +")
	}
	return notes
}

// differences compares lines that are alike more strictly than they were searched.
func differences(is, says []string) (space, endings bool) {
	for i := range is {
		a, cutA := strings.CutSuffix(is[i], "\r")
		b, cutB := strings.CutSuffix(says[i], "\r")
		endings = endings || cutA != cutB
		space = space || strings.TrimPrefix(a, bom) != strings.TrimPrefix(b, bom)
	}
	return space, endings
}

// marked reports whether a hunk concerns the first line of a file that starts
// with a byte order mark, and does not mention it.
func (t *fileText) marked(p placed) bool {
	if !t.bom || p.pos > 0 {
		return false
	}
	for _, l := range p.lines {
		if l.op != '+' {
			return !strings.HasPrefix(l.text, bom)
		}
	}
	return true
}
