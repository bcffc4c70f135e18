package patch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holon/agentd/tools"
)

// hunk is one place to change.
type hunk struct {
	lines   []hunkLine
	start   int      // stated first old line, from 1; -1 where none is stated
	inserts bool     // the header states that no old line is concerned
	anchors []string // lines above the place, outermost first
	atEnd   bool     // the place is the end of the file
	line    int      // where it starts in the patch
}

// hunkLine is a line of a hunk: ' ' context, '-' removed, '+' added.
type hunkLine struct {
	op    byte
	text  string // without prefix and newline; may end in \r
	raw   bool   // an empty context line that came without its space
	noEOL bool   // followed by "\ No newline at end of file"
}

// hunk reads one hunk: its headers, then lines up to the next header or the end of the section. Empty lines at its end
// separate it from the next part.
func (p *parser) hunk() (hunk, *tools.Error) {
	h := hunk{start: -1, line: p.i + 1}
	for ; strings.HasPrefix(p.line(), "@@"); p.i++ { // an envelope may stack anchors
		if strings.HasPrefix(p.line(), "@@@") {
			return h, syntax(p.i+1, "this is a combined diff of a merge, which cannot be applied",
				"write the change against the files as they are now, with one column of signs")
		}
		h.header(p.line())
	}
	for ; !p.ends() && !strings.HasPrefix(p.line(), "@@") && !h.atEnd; p.i++ {
		if kind, _ := directive(p.line()); kind == directiveEOF {
			h.atEnd = true
		} else if bad := h.add(p.line(), p.i+1); bad != nil {
			return h, bad
		}
	}
	h.lines = h.lines[:len(h.lines)-h.blanks()]
	return h, nil
}

// add takes in a line of the body.
func (h *hunk) add(l string, line int) *tools.Error {
	switch {
	case l == "" || l == "\r":
		h.lines = append(h.lines, hunkLine{op: ' ', text: l, raw: true})
	case strings.HasPrefix(l, `\ `):
		if n := len(h.lines); n > 0 {
			h.lines[n-1].noEOL = true
		}
	case isBinaryMark(l):
		return binary(line)
	case l[0] != ' ' && l[0] != '+' && l[0] != '-':
		return syntax(line, fmt.Sprintf("%q does not start with a space, + or -", tools.Clip(l, 80)),
			"put a space before every unchanged line, - before a removed and + before a new one, and nothing else between "+
				"hunks")
	default:
		n := h.blanks()
		if l[0] == '+' && n > 0 && n < len(h.lines) && h.lines[len(h.lines)-1-n].op == '+' {
			return syntax(line-1, "an empty line between added ones may be new or unchanged",
				"put + before an empty line that is new, and a space before one that is unchanged")
		}
		h.lines = append(h.lines, hunkLine{op: l[0], text: l[1:]})
	}
	return nil
}

// blanks counts the empty lines at the end that came without a prefix.
func (h *hunk) blanks() (n int) {
	for n < len(h.lines) && h.lines[len(h.lines)-1-n].raw {
		n++
	}
	return n
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d{1,9})(,\d+)? \+\d+(?:,\d+)? @@(.*)$`)

// header reads one @@ line into h: line numbers, a line that stands above the hunk, or both.
func (h *hunk) header(l string) {
	anchor := strings.Trim(l, "@ \t\r")
	if m := hunkHeader.FindStringSubmatch(l); m != nil {
		h.start, _ = strconv.Atoi(m[1])
		h.inserts = m[2] == ",0"
		anchor = strings.TrimSpace(m[3])
	}
	if anchor != "" {
		h.anchors = append(h.anchors, anchor)
	}
}

// side returns the texts of the lines that are not of kind without.
func (h *hunk) side(without byte) []string {
	var texts []string
	for _, l := range h.lines {
		if l.op != without {
			texts = append(texts, l.text)
		}
	}
	return texts
}

// content returns the content of a new file.
func (f *filePatch) content() (string, *tools.Error) {
	var b strings.Builder
	for _, h := range f.hunks {
		if i := slices.IndexFunc(h.lines, func(l hunkLine) bool { return l.op != '+' }); i >= 0 {
			return "", syntax(h.line, f.path+": a line of a new file does not start with +: "+
				strconv.Quote(tools.Clip(h.lines[i].text, 80)), "start every line of a new file with +")
		}
		for i, l := range h.lines {
			b.WriteString(l.text)
			if !l.noEOL || i < len(h.lines)-1 {
				b.WriteByte('\n')
			}
		}
	}
	return b.String(), nil
}
