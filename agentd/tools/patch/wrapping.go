package patch

import "strings"

const bom = "\ufeff"

// dropReturns removes the \r of a patch that has one on every line: it says how the patch was sent, not how
// the file ends its lines.
func (p *parser) dropReturns() {
	for _, l := range p.lines {
		if l != "" && !strings.HasSuffix(l, "\r") {
			return
		}
	}
	for i, l := range p.lines {
		p.lines[i] = strings.TrimSuffix(l, "\r")
	}
}

// startsFile matches lines that name a file or begin a patch.
var startsFile = lazy(`^(diff --(git|cc|combined) |--- \S|\+\+\+ \S|\*\*\* (Begin Patch|(Add|Update|Delete) File))`)

var fence = lazy("^(`{3,}|~{3,})[ \t]*([\\w.+-]*)[ \t\r]*$")

// dropFences removes Markdown code fences around the patch or its parts, and the prose outside of them.
func (p *parser) dropFences() {
	open := -1
	start := 0
	for ; start < len(p.lines) && !startsFile().MatchString(p.lines[start]); start++ {
		if fence().MatchString(p.lines[start]) {
			open = start
		}
	}
	if open < 0 {
		return
	}
	mark := fence().FindStringSubmatch(p.lines[open])[1]
	for i := range start {
		p.lines[i] = ""
	}
	inside := true
	for i := start; i < len(p.lines); i++ {
		m := fence().FindStringSubmatch(p.lines[i])
		switch is := m != nil && strings.HasPrefix(m[1], mark); {
		case inside && is && m[2] == "" && p.closes(i):
			inside = false
		case inside:
			continue
		case is:
			inside = true
		}
		p.lines[i] = ""
	}
	p.doc.note("", "code_fence", "a code fence around the patch was left out")
}

// closes reports whether a fence at line i ends a block: up to the next fence there is no line that could belong to a
// patch.
func (p *parser) closes(i int) bool {
	for _, l := range p.lines[i+1:] {
		switch {
		case fence().MatchString(l):
			return true
		case strings.HasPrefix(l, "+"), strings.HasPrefix(l, "-"), strings.HasPrefix(l, "@@"),
			startsFile().MatchString(l), isDirective(l):
			return false
		}
	}
	return true
}
