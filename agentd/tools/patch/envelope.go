package patch

import (
	"strings"

	"holon/agentd/tools"
)

// The directives of the envelope form. A directive fills its line.
const (
	directiveBegin  = "*** Begin Patch"
	directiveEnd    = "*** End Patch"
	directiveAdd    = "*** Add File: "
	directiveUpdate = "*** Update File: "
	directiveDelete = "*** Delete File: "
	directiveMove   = "*** Move to: "
	directiveEOF    = "*** End of File"
)

// directive is a line of the envelope form.
type directive struct {
	kind string // one of the constants
	path string
}

// readDirective reads a directive.
func readDirective(l string) (directive, bool) {
	for _, kind := range []string{directiveBegin, directiveEnd, directiveEOF} {
		if strings.TrimRight(l, " \r") == kind {
			return directive{kind: kind}, true
		}
	}
	for _, kind := range []string{directiveAdd, directiveUpdate, directiveDelete, directiveMove} {
		if path, ok := strings.CutPrefix(l, kind); ok {
			return directive{kind: kind, path: strings.TrimSpace(path)}, true
		}
	}
	return directive{}, false
}

func isDirective(l string) bool {
	_, ok := readDirective(l)
	return ok
}

// directive reads the part of the patch that starts with a directive. Its paths have no prefixes, and its hunks no
// numbers.
func (p *parser) directive() *tools.Error {
	d := p.next()
	f := filePatch{line: p.i, path: d.path}
	switch d.kind {
	case directiveAdd:
		f.action = actionAdd
		return p.added(&f)
	case directiveDelete:
		f.action, f.rawPath = actionDelete, strip(f.path)
		return p.finish(f)
	case directiveUpdate:
		f.action, f.rawPath = actionModify, strip(f.path)
		return p.updated(&f)
	case directiveMove:
		return syntax(f.line, `"*** Move to:" does not follow "*** Update File:"`,
			`put it directly below "*** Update File: OLDPATH"`)
	}
	return nil
}

// next reads the directive at the current line and goes past it.
func (p *parser) next() directive {
	d, _ := readDirective(p.line())
	p.i++
	d.path = p.plain(d.path)
	return d
}

func (p *parser) updated(f *filePatch) *tools.Error {
	if d, ok := readDirective(p.line()); ok && d.kind == directiveMove {
		f.action, f.from, f.path = actionMove, f.path, p.next().path
	}
	if p.i < len(p.lines) && p.fileHeader(p.i) { // both forms at once
		p.i += 2
	}
	return p.finish(*f)
}

// added reads the content of a new file: lines that start with +. Content without any + is taken as it stands.
func (p *parser) added(f *filePatch) *tools.Error {
	if strings.HasPrefix(p.line(), "@@") {
		p.i++
	}
	h := hunk{start: -1, line: p.i}
	if bad := p.uncounted(&h); bad != nil {
		return bad
	}
	if len(h.lines) > 0 && len(side(h.lines, ' '))+len(side(h.lines, '-')) == len(h.lines) {
		p.doc.note(f.path, "missing_prefix", "the lines of the new file had no leading +")
		for i, l := range h.lines {
			if !l.raw {
				l.text = string(l.op) + l.text
			}
			h.lines[i] = hunkLine{op: '+', text: l.text, noEOL: l.noEOL}
		}
	}
	f.hunks = []hunk{h}
	p.doc.files = append(p.doc.files, *f)
	return nil
}
