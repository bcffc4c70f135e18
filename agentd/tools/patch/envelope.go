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

func isDirective(l string) bool {
	if !strings.HasPrefix(l, "*** ") {
		return false
	}
	t := strings.TrimRight(l, " \r")
	if t == directiveBegin || t == directiveEnd || t == directiveEOF {
		return true
	}
	for _, d := range []string{directiveAdd, directiveUpdate, directiveDelete, directiveMove} {
		if strings.HasPrefix(l, d) {
			return true
		}
	}
	return false
}

// envelope reads the form that starts with "*** Begin Patch". Its paths have no
// prefixes, and its hunks no numbers.
func (p *parser) envelope() *tools.Error {
	for p.i < len(p.lines) {
		l := p.lines[p.i]
		f := filePatch{line: p.i + 1}
		p.i++
		var bad *tools.Error
		switch {
		case strings.TrimRight(l, " \r") == directiveEnd:
			return nil
		case strings.HasPrefix(l, directiveAdd):
			f.action, f.path = ActionAdd, strings.TrimSpace(l[len(directiveAdd):])
			bad = p.added(&f)
		case strings.HasPrefix(l, directiveDelete):
			f.action, f.path = ActionDelete, strings.TrimSpace(l[len(directiveDelete):])
			f.rawPath = strip(f.path)
			bad = p.finish(f)
		case strings.HasPrefix(l, directiveUpdate):
			f.action, f.path = ActionModify, strings.TrimSpace(l[len(directiveUpdate):])
			f.rawPath = strip(f.path)
			bad = p.updated(&f)
		case strings.HasPrefix(l, directiveMove):
			bad = syntax(f.line, `"*** Move to:" does not follow "*** Update File:"`, `put it directly below "*** Update File: OLDPATH"`)
		}
		if bad != nil {
			return bad
		}
		if len(p.doc.files) > maxFiles {
			return tooLarge("the patch changes more than %d files (%d)", maxFiles, len(p.doc.files))
		}
	}
	return nil
}

func (p *parser) updated(f *filePatch) *tools.Error {
	if l := p.line(); strings.HasPrefix(l, directiveMove) {
		f.action, f.from, f.path = ActionMove, f.path, strings.TrimSpace(l[len(directiveMove):])
		p.i++
	}
	if p.i < len(p.lines) && p.fileHeader(p.i) { // both forms at once
		p.i += 2
	}
	return p.finish(*f)
}

// added reads the content of a new file: lines that start with +. Content
// without any + is taken as it stands.
func (p *parser) added(f *filePatch) *tools.Error {
	h := hunk{start: -1, line: p.i + 1}
	var plain, plus int
	first := 0
	for ; p.i < len(p.lines); p.i++ {
		l := p.lines[p.i]
		if isDirective(l) && strings.TrimSpace(l) != directiveEOF {
			break
		}
		switch {
		case strings.HasPrefix(l, "+"):
			h.lines = append(h.lines, hunkLine{op: '+', text: l[1:]})
			plus++
		case strings.HasPrefix(l, `\ `):
			markNoEOL(h.lines)
		case strings.HasPrefix(l, "@@") && plain+plus == 0, strings.TrimSpace(l) == directiveEOF:
		default:
			h.lines = append(h.lines, hunkLine{op: '+', text: l, raw: true})
			if strings.TrimSpace(l) != "" {
				if plain++; plain == 1 {
					first = p.i + 1
				}
			}
		}
	}
	for n := len(h.lines); n > 0 && h.lines[n-1].raw && strings.TrimSpace(h.lines[n-1].text) == ""; n-- {
		h.lines = h.lines[:n-1]
	}
	if plain > 0 && plus > 0 {
		return syntax(first, f.path+": this line of a new file does not start with +", "start every line of a new file with +")
	}
	if plain > 0 {
		p.note(f.path, "missing_prefix", "the lines of the new file had no leading +")
	}
	f.hunks = []hunk{h}
	p.doc.files = append(p.doc.files, *f)
	return nil
}
