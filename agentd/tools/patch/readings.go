package patch

import (
	"fmt"
	"slices"
	"strings"
)

// reading is a way to understand a hunk. Its note is the kind of diagnostic that
// says so, "" for what the hunk says to the letter.
type reading struct {
	lines []hunkLine
	note  string
}

// readings are the ways to understand a hunk: as it stands, without empty lines
// that may only separate it from what follows, with empty lines between added
// ones that lost their +, and with context whose first character is text because
// all leading spaces were forgotten.
func (h *hunk) readings() []reading {
	list := []reading{{lines: h.lines}}
	if h.blanks > 0 {
		list = append(list, reading{lines: h.lines[:len(h.lines)-h.blanks]})
	}
	if lines, ok := h.blanksAdded(list[len(list)-1].lines); ok {
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

// otherMeaning returns the reading that would change the file in another way
// than r does, so that it must not fit too.
func (h *hunk) otherMeaning(r reading) (reading, bool) {
	if r.note != "" {
		return reading{}, false
	}
	lines, ok := h.blanksAdded(h.lines[:len(h.lines)-h.blanks])
	return reading{lines, "missing_prefix"}, ok
}

// blanksAdded takes empty lines without prefix between added lines as added.
func (h *hunk) blanksAdded(lines []hunkLine) ([]hunkLine, bool) {
	if h.counted {
		return nil, false
	}
	out, changed := slices.Clone(lines), false
	for i := 0; i < len(out); i++ {
		if !out[i].soft() || i == 0 || out[i-1].op != '+' {
			continue
		}
		end := i
		for end < len(out) && out[end].soft() {
			end++
		}
		if end < len(out) && out[end].op == '+' {
			for ; i < end; i++ {
				out[i].op, changed = '+', true
			}
		}
		i = end - 1
	}
	return out, changed
}

// elision is a line that stands for lines left out, as a comment or bare.
var elision = lazy(`^(?:#|//|--|;|%|/\*|<!--|\{/\*)?\s*(?:\.\.\.|…)(?:.{0,80}(?:\.\.\.|…))?\s*(?:\*/\}?|-->)?$`)

// parts splits a hunk at context lines that stand for lines left out; it returns
// nothing if there is none. The stated line number is that of the first part.
func (h *hunk) parts() []hunk {
	lines := h.lines[:len(h.lines)-h.blanks]
	var parts []hunk
	whole := len(lines)
	add := func(end int) {
		if end > 0 {
			parts = append(parts, hunk{lines: lines[:end], start: -1, line: h.line, numbered: h.numbered})
		}
	}
	for i := 0; i < len(lines); i++ {
		if l := lines[i]; l.op == ' ' && elision().MatchString(strings.TrimSpace(l.text)) {
			add(i)
			lines, i = lines[i+1:], -1
		}
	}
	if add(len(lines)); len(parts) > 0 {
		parts[0].start, parts[0].anchors = h.start, h.anchors
		parts[len(parts)-1].atEnd = h.atEnd
	}
	if len(parts) == 1 && len(parts[0].lines) == whole {
		return nil
	}
	return parts
}

// changes reports whether the hunk would change anything.
func (h *hunk) changes() bool {
	return slices.ContainsFunc(h.lines, func(l hunkLine) bool { return l.op != ' ' })
}

// key is the same for hunks that say the same, header included.
func (h *hunk) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %q", h.start, h.anchors)
	for _, l := range h.lines[:len(h.lines)-h.blanks] {
		b.WriteString("\n" + string(l.op) + l.text)
	}
	return b.String()
}

// equal reports whether o says the same but for white space at line ends.
func (h *hunk) equal(o *hunk) bool {
	return slices.EqualFunc(h.lines[:len(h.lines)-h.blanks], o.lines[:len(o.lines)-o.blanks], func(a, b hunkLine) bool {
		return a.op == b.op && strings.TrimRight(a.text, " \t\r") == strings.TrimRight(b.text, " \t\r")
	})
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

// notes tells what was tolerated to place hunk n.
func (t *fileText) notes(h *hunk, found []placed, n int) (notes []Diagnostic) {
	add := func(kind, format string, args ...any) {
		d := Diagnostic{Kind: kind, Message: fmt.Sprintf("hunk %d: ", n) + fmt.Sprintf(format, args...)}
		if !slices.Contains(notes, d) {
			notes = append(notes, d)
		}
	}
	for i, p := range found {
		space, endings := t.differences(p)
		if space {
			add("trailing_space", "spaces at line ends differ")
		}
		if endings {
			add("line_endings", "line endings differ; the file keeps its own")
		}
		if t.marked(p) {
			add("byte_order_mark", "the file keeps its byte order mark")
		}
		if i == 0 && h.start > 0 && p.old > 0 && h.start != p.pos+1 {
			if h.start < farAway {
				add("wrong_line_number", "found at line %d, not %d", p.pos+1, h.start)
			} else {
				add("wrong_line_number", "found at line %d; the stated number is too large", p.pos+1)
			}
		}
		if slices.ContainsFunc(p.hunkLines, func(l hunkLine) bool {
			return l.raw && strings.TrimSpace(l.text) != ""
		}) || p.note == "context_prefix" {
			add("context_prefix", "context lines had no leading space")
		}
		switch p.note {
		case "missing_prefix":
			add(p.note, "empty lines between added ones had no +")
		case "elided_context":
			add(p.note, "lines that were left out by ... were looked for in the file")
		}
	}
	return notes
}

// differences compares a hunk with its place more strictly than it was found.
func (t *fileText) differences(p placed) (space, endings bool) {
	if p.old == 0 {
		return false, p.level == anyEnding && slices.ContainsFunc(p.hunkLines, func(l hunkLine) bool {
			return t.ending(l.text, anyEnding) != l.text
		})
	}
	if p.level == exact {
		return false, false
	}
	i := p.pos
	for _, l := range p.hunkLines {
		if l.op == '+' {
			continue
		}
		is, cut := strings.CutSuffix(t.lines[i], "\r")
		says, cutToo := strings.CutSuffix(l.text, "\r")
		endings = endings || cut != cutToo
		space = space || strings.TrimPrefix(is, bom) != strings.TrimPrefix(says, bom)
		i++
	}
	return space, endings
}

// marked reports whether a hunk concerns the first line of a file that starts
// with a byte order mark, and does not mention it.
func (t *fileText) marked(p placed) bool {
	if !t.bom || p.pos > 0 {
		return false
	}
	for _, l := range p.hunkLines {
		if l.op != '+' {
			return !strings.HasPrefix(l.text, bom)
		}
	}
	return true
}
