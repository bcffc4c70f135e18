package patch

import (
	"fmt"
	"strings"

	"holon/agentd/tools"
)

// hunk reads one hunk: by its counts if they are right, else up to the next line that cannot belong to it.
func (p *parser) hunk() (hunk, *tools.Error) {
	h := hunk{start: -1, line: p.i + 1}
	counts := counts{old: -1, new: -1}
	// an envelope may stack anchors
	for p.i < len(p.lines) && strings.HasPrefix(p.lines[p.i], "@@") && (p.i < h.line || !h.numbered) {
		counts = h.header(p.lines[p.i])
		p.i++
	}
	if p.counted(&h, counts) {
		return h, nil
	}
	if counts.stated() {
		p.doc.note(p.path, "wrong_counts", fmt.Sprintf("patch line %d: the counts in the hunk header do not fit; they "+
			"were ignored", h.line))
	}
	return h, p.uncounted(&h)
}

// counted reads as many lines as the header states and reports whether the hunk ends there.
func (p *parser) counted(h *hunk, c counts) bool {
	if !c.stated() {
		return false
	}
	lines, end, ok := p.take(c)
	if !ok || p.continues(end) {
		return false
	}
	h.lines, h.counted, p.i = lines, true, end
	return true
}

// take reads lines until both counts are used up, and returns the index behind them.
func (p *parser) take(c counts) (lines []hunkLine, end int, ok bool) {
	i := p.i
	for ; (c.old > 0 || c.new > 0) && i < len(p.lines); i++ {
		l := p.lines[i]
		if p.fileHeader(i) && (looksLikePath(p.lines[i+1][4:]) || l[4:] == p.lines[i+1][4:]) {
			return nil, 0, false // the counts are too large and reach into the next file
		}
		hl, ok := prefixed(l)
		switch {
		case !ok:
			return nil, 0, false
		case hl.op == '\\':
			markNoEOL(lines)
			continue
		case hl.op == '+':
			c.new--
		case hl.op == '-':
			c.old--
		default:
			c.old, c.new = c.old-1, c.new-1
		}
		lines = append(lines, hl)
	}
	if i < len(p.lines) && strings.HasPrefix(p.lines[i], `\ `) {
		markNoEOL(lines)
		i++
	}
	return lines, i, c.old == 0 && c.new == 0
}

// continues reports whether the lines from index i on belong to the same hunk, and are not prose behind it.
func (p *parser) continues(i int) bool {
	for i < len(p.lines) && strings.TrimSpace(p.lines[i]) == "" {
		i++
	}
	if i < len(p.lines) && !p.boundary(i) && isBodyLine(p.lines[i]) {
		return true
	}
	for ; i < len(p.lines) && !p.boundary(i); i++ {
		if strings.HasPrefix(p.lines[i], "+") || strings.HasPrefix(p.lines[i], "-") {
			return true // behind a line without its prefix
		}
	}
	return false
}

// uncounted reads lines up to the next one that cannot belong to the hunk.
func (p *parser) uncounted(h *hunk) *tools.Error {
	for ; p.i < len(p.lines) && !p.boundary(p.i); p.i++ {
		l := p.lines[p.i]
		if isBinaryMark(l) {
			return binary(p.i + 1)
		}
		hl, ok := prefixed(l)
		switch {
		case !ok:
			h.lines = append(h.lines, hunkLine{op: ' ', text: l, raw: true})
		case hl.op == '\\':
			markNoEOL(h.lines)
		default:
			h.lines = append(h.lines, hl)
		}
	}
	for n := len(h.lines); h.blanks < n && h.lines[n-1-h.blanks].soft(); {
		h.blanks++
	}
	if h.blanks == len(h.lines) {
		h.lines, h.blanks = nil, 0
	}
	if d, ok := readDirective(p.line()); ok && d.kind == directiveEOF {
		h.atEnd = true
		p.i++
	}
	return nil
}

// soft reports a line that may only separate hunks: empty, without the space of a context line.
func (l hunkLine) soft() bool { return l.op == ' ' && l.text == "" && l.raw }

// prefixed reads a line that has its prefix. An empty line stands for an empty context line.
func prefixed(l string) (hunkLine, bool) {
	switch {
	case l == "" || l == "\r":
		return hunkLine{op: ' ', text: l, raw: true}, true
	case strings.HasPrefix(l, `\ `):
		return hunkLine{op: '\\'}, true
	case l[0] == ' ' || l[0] == '+' || l[0] == '-':
		return hunkLine{op: l[0], text: l[1:]}, true
	}
	return hunkLine{}, false
}

func markNoEOL(lines []hunkLine) {
	if n := len(lines); n > 0 {
		lines[n-1].noEOL = true
	}
}
