package acp

import (
	"strconv"
	"strings"
)

// edit is a change of one place of a file, or the whole of a new one.
type edit struct {
	path     string // as the patch has it
	added    bool
	old, new string
}

// editsOf reads a patch: in the format of git, or in that of the tool ApplyPatch. What it does not understand, such as
// binary files, it leaves out; it is read to be shown and not to be applied.
func editsOf(patch string) []edit {
	p := patchReader{}
	for line := range strings.Lines(patch) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	p.flush()
	return p.edits
}

type patchReader struct {
	edits []edit
	file  edit // the file that lines are about
	hunk  bool // lines belong to a hunk
	left  int  // lines that its head counts on both sides; 0 when it counts none

	counts   bool
	old, new strings.Builder
}

func (p *patchReader) line(line string) {
	if p.hunk && (!p.counts || p.left > 0) && p.body(line) {
		return
	}
	directive, path := directiveOf(line)
	switch {
	case strings.HasPrefix(line, `\ `): // no newline at the end of the file
		return
	case strings.HasPrefix(line, "@@"):
		p.flush()
		p.left = countOf(line)
		p.hunk, p.counts = true, p.left > 0
	case strings.HasPrefix(line, "diff --git "):
		p.begin(edit{})
	case strings.HasPrefix(line, "--- "):
		p.begin(edit{path: gitPath(line[4:]), added: strings.TrimSpace(line[4:]) == "/dev/null"})
	case strings.HasPrefix(line, "+++ "):
		if path := gitPath(line[4:]); path != "" {
			p.file.path = path
		}
	case directive == "Move to":
		p.file.path = path
	case directive != "":
		p.begin(edit{path: path, added: directive == "Add File"})
		p.hunk, p.counts = directive != "Delete File", false
	}
}

// begin begins the part of another file.
func (p *patchReader) begin(file edit) {
	p.flush()
	p.hunk, p.file = false, file
}

// body takes a line of a hunk.
func (p *patchReader) body(line string) bool {
	kind := byte(' ')
	if line != "" {
		kind, line = line[0], line[1:]
	}
	switch kind {
	case ' ':
		p.left -= 2
		p.old.WriteString(line + "\n")
		p.new.WriteString(line + "\n")
	case '-':
		p.left--
		p.old.WriteString(line + "\n")
	case '+':
		p.left--
		p.new.WriteString(line + "\n")
	default:
		return false
	}
	return true
}

// flush ends a hunk.
func (p *patchReader) flush() {
	if p.file.path != "" && p.old.Len()+p.new.Len() > 0 {
		p.file.old, p.file.new = p.old.String(), p.new.String()
		p.edits = append(p.edits, p.file)
	}
	p.old.Reset()
	p.new.Reset()
}

// directiveOf reads a line like "*** Add File: path".
func directiveOf(line string) (directive, path string) {
	rest, ok := strings.CutPrefix(line, "*** ")
	directive, path, found := strings.Cut(rest, ": ")
	if !ok || !found {
		return "", ""
	}
	return directive, strings.TrimSpace(path)
}

// gitPath is the path of a line --- or +++, "" for /dev/null.
func gitPath(text string) string {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\r"), "\t")
	if strings.HasPrefix(text, `"`) {
		text, _ = strconv.Unquote(text) // of C, whose escapes that git writes are Go's
	}
	if text == "/dev/null" {
		return ""
	}
	for _, side := range []string{"a/", "b/"} {
		if path, ok := strings.CutPrefix(text, side); ok {
			return path
		}
	}
	return text
}

// countOf is how many lines the two sides of a hunk have, as its head "@@ -1,2 +1,3 @@" says; 0 when it does not.
func countOf(head string) (n int) {
	fields := strings.Fields(head)
	if len(fields) < 3 || fields[1][0] != '-' || fields[2][0] != '+' {
		return 0
	}
	for _, side := range fields[1:3] {
		_, count, found := strings.Cut(side, ",")
		lines, err := strconv.Atoi(count)
		switch {
		case !found:
			lines = 1
		case err != nil || lines < 0:
			return 0
		}
		n += lines
	}
	return n
}
