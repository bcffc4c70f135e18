package patch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holon/agentd/tools"
)

// document is a parsed patch.
type document struct {
	files   []filePatch
	ignored []metadata
	diags   []diagnostic
}

// filePatch is the part of a patch about one file.
type filePatch struct {
	action action
	path   string // the new name; for a deletion, the old one
	from   string // the source of a move, "" otherwise
	hunks  []hunk
	line   int // where it starts in the patch, from 1
}

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

const (
	bom     = "\ufeff"
	devNull = "/dev/null"
)

// parser walks the lines of a patch.
type parser struct {
	lines []string
	i     int
	doc   document
	hunks int
	open  int        // line of a "diff --git" whose --- and +++ lines are still to come, from 1
	git   []metadata // what stands between the two
}

// parse reads a patch: sections about one file each, which start with a directive or with a pair of --- and +++ lines
// and go on with hunks. Text before and between sections, such as a code fence, is skipped.
func parse(text string) (document, *tools.Error) {
	if len(text) > maxPatchBytes {
		return document{}, tooLarge("the patch is %d bytes; the limit is %d", len(text), maxPatchBytes)
	}
	if strings.ContainsRune(text, 0) {
		return document{}, syntax(1, "the patch contains a NUL character",
			"patches are text; write binary files with a command")
	}
	p := &parser{lines: strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, bom), "\n"), "\n")}
	if len(p.lines) == 1 && strings.Contains(text, `\n`) {
		return document{}, syntax(1, "the patch is one line with \\n in it",
			"send the patch itself with newlines, not a string or an object with escaped ones")
	}
	p.dropReturns()
	for p.i < len(p.lines) {
		if bad := p.section(); bad != nil {
			return document{}, bad
		}
		if len(p.doc.files) > maxFiles {
			return document{}, tooLarge("the patch changes more than %d files (%d)", maxFiles, len(p.doc.files))
		}
	}
	if bad := p.named(); bad != nil {
		return document{}, bad
	}
	if len(p.doc.files) == 0 {
		return document{}, &tools.Error{
			Kind: kindEmpty, Message: "the patch names no file", Details: map[string]any{"field": "patch"},
			RecoveryHint: "start each file with the lines --- a/PATH and +++ b/PATH (use /dev/null for a file that " +
				"does not exist), followed by hunks that start with @@",
		}
	}
	return p.doc, nil
}

// dropReturns removes the \r of a patch that has one on every line: it says how the patch was sent, not how the file
// ends its lines.
func (p *parser) dropReturns() {
	if slices.ContainsFunc(p.lines, func(l string) bool { return l != "" && !strings.HasSuffix(l, "\r") }) {
		return
	}
	for i, l := range p.lines {
		p.lines[i] = strings.TrimSuffix(l, "\r")
	}
}

// section reads the part of the patch that starts at the current line, or passes over a line that starts none.
func (p *parser) section() *tools.Error {
	l := p.line()
	kind, path := directive(l)
	switch {
	case kind == directiveMove:
		return syntax(p.i+1, `"*** Move to:" does not follow "*** Update File:"`,
			`put it directly below "*** Update File: OLDPATH"`)
	case kind == directiveAdd, kind == directiveUpdate, kind == directiveDelete:
		return p.enveloped(kind, path)
	case strings.HasPrefix(l, "diff --git "):
		bad := p.named()
		p.i++
		p.open, p.git = p.i, nil
		return bad
	case p.fileHeader(false):
		return p.unified()
	case strings.HasPrefix(l, "@@"):
		return syntax(p.i+1, "a hunk comes before any file is named",
			"put the lines --- a/PATH and +++ b/PATH before the first hunk")
	case kind == "" && strings.HasPrefix(l, "*** "):
		return syntax(p.i+1, fmt.Sprintf("%q is not known", tools.Clip(l, 80)),
			"use *** Add File: PATH, *** Update File: PATH, *** Delete File: PATH and *** Move to: PATH")
	}
	p.i++
	return p.extended(l)
}

func (p *parser) line() string {
	if p.i < len(p.lines) {
		return p.lines[p.i]
	}
	return ""
}

// directive returns the kind and the path of a directive, or "".
func directive(l string) (kind, path string) {
	for _, kind := range []string{directiveBegin, directiveEnd, directiveEOF} {
		if strings.TrimRight(l, " \r") == kind {
			return kind, ""
		}
	}
	for _, kind := range []string{directiveAdd, directiveUpdate, directiveDelete, directiveMove} {
		if path, ok := strings.CutPrefix(l, kind); ok {
			return kind, strings.TrimSpace(path)
		}
	}
	return "", ""
}

// enveloped reads a section that starts with a directive. Its paths have no prefixes.
func (p *parser) enveloped(kind, path string) *tools.Error {
	p.i++
	f := filePatch{line: p.i, path: path, action: actionModify}
	switch kind {
	case directiveAdd:
		f.action = actionAdd
	case directiveDelete:
		f.action = actionDelete
	default:
		if next, to := directive(p.line()); next == directiveMove {
			f.action, f.from, f.path = actionMove, f.path, to
			p.i++
		}
	}
	return p.body(f)
}

// unified reads a section that starts with --- and +++ lines.
func (p *parser) unified() *tools.Error {
	old, new := headerPath(p.line()), headerPath(p.lines[p.i+1])
	p.i += 2
	f := filePatch{line: p.i - 1, action: actionModify}
	if old != new {
		old, new = strings.TrimPrefix(old, "a/"), strings.TrimPrefix(new, "b/")
	}
	switch f.path = new; {
	case old == devNull && new == devNull:
		return syntax(f.line, "no file is named", "write --- a/PATH and +++ b/PATH")
	case old == devNull:
		f.action = actionAdd
	case new == devNull:
		f.action, f.path = actionDelete, old
	case old != new:
		f.action, f.from = actionMove, old
	}
	for _, m := range p.git {
		if m.Path = f.path; len(p.doc.ignored) < maxNotes {
			p.doc.ignored = append(p.doc.ignored, m)
		}
		if strings.HasPrefix(m.Kind, "new_") && m.Value == "100755" {
			p.doc.note(f.path, "mode", "the mode 100755 was not set; use chmod")
		}
	}
	p.open, p.git = 0, nil
	return p.body(f)
}

// headerPath returns the path of a --- or +++ line, without the quotes of git and the time that diff adds behind a tab.
func headerPath(l string) string {
	path, _, _ := strings.Cut(strings.TrimRight(l[4:], " \r"), "\t")
	if unquoted, err := strconv.Unquote(path); err == nil {
		return unquoted
	}
	return path
}

// named returns the error for a "diff --git" without --- and +++ lines: git's headers alone change nothing.
func (p *parser) named() *tools.Error {
	if p.open == 0 {
		return nil
	}
	return syntax(p.open, "no --- and +++ lines follow this header of git",
		"add, move and delete files with *** Add File: PATH, *** Update File: PATH with *** Move to: PATH below it, "+
			"and *** Delete File: PATH; change modes with chmod")
}

// extendedHeaders are the lines between "diff --git" and "---". They are ignored and reported.
var extendedHeaders = []string{"old mode ", "new mode ", "deleted file mode ", "new file mode ", "rename from ",
	"rename to ", "similarity index ", "dissimilarity index ", "index "}

// extended reads a line of git's extended header. What would make something else of the hunks than a change of regular
// files is refused.
func (p *parser) extended(l string) *tools.Error {
	if p.open == 0 {
		return nil
	}
	switch {
	case isBinaryMark(l):
		return binary(p.i)
	case strings.HasPrefix(l, "copy from "):
		return syntax(p.i, "files cannot be copied by a patch", "copy the file with cp, then patch the copy")
	}
	for _, key := range extendedHeaders {
		value, ok := strings.CutPrefix(l, key)
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if mode, ok := modeOf(key, value); ok && mode != "100644" && mode != "100755" {
			e := syntax(p.i, "the mode "+strconv.Quote(tools.Clip(mode, 40))+" is not that of a regular file",
				"change links and submodules with commands")
			e.Kind = kindUnsafePath
			return e
		}
		if len(p.git) < len(extendedHeaders) {
			kind := strings.ReplaceAll(strings.TrimSpace(key), " ", "_")
			p.git = append(p.git, metadata{Kind: kind, Value: tools.Clip(value, 200)})
		}
	}
	return nil
}

// modeOf returns the mode that a line of git's extended header states.
func modeOf(key, value string) (string, bool) {
	if key == "index " {
		_, mode, ok := strings.Cut(value, " ")
		return mode, ok
	}
	return value, strings.HasSuffix(key, "mode ")
}

func isBinaryMark(l string) bool {
	return strings.HasPrefix(l, "GIT binary patch") ||
		strings.HasPrefix(l, "Binary files ") && strings.HasSuffix(strings.TrimSpace(l), " differ")
}

// fileHeader reports whether --- and +++ lines start here. In a hunk they can be removed and added text too, and count
// only if what follows is not such text.
func (p *parser) fileHeader(inHunk bool) bool {
	if !strings.HasPrefix(p.line(), "--- ") || p.i+1 >= len(p.lines) || !strings.HasPrefix(p.lines[p.i+1], "+++ ") {
		return false
	}
	path := headerPath(p.lines[p.i+1])
	return !inHunk || path == devNull || strings.HasPrefix(path, "b/") ||
		p.i+2 < len(p.lines) && strings.HasPrefix(p.lines[p.i+2], "@@")
}

// ends reports whether the current line ends a section.
func (p *parser) ends() bool {
	l := p.line()
	kind, _ := directive(l)
	return p.i >= len(p.lines) || kind != "" && kind != directiveEOF || strings.HasPrefix(l, "diff --git ") ||
		strings.HasPrefix(l, "```") || p.fileHeader(true)
}

// body reads the hunks of f and adds it to the document. The first hunk may come without its header.
func (p *parser) body(f filePatch) *tools.Error {
	for !p.ends() {
		if strings.TrimSpace(p.line()) == "" {
			p.i++
			continue
		}
		h, bad := p.hunk()
		if bad != nil {
			return bad
		}
		if len(h.lines) > 0 {
			f.hunks = append(f.hunks, h)
		}
		if p.hunks++; p.hunks > maxHunks {
			return tooLarge("the patch has more than %d hunks (%d)", maxHunks, p.hunks)
		}
	}
	if len(f.hunks) == 0 && f.action == actionModify {
		return syntax(f.line, f.path+": the file has no hunk", "follow the file's header with hunks that start with @@")
	}
	p.doc.files = append(p.doc.files, f)
	return nil
}

func (d *document) note(path, kind, message string) {
	if len(d.diags) < maxNotes {
		d.diags = append(d.diags, diagnostic{Path: path, Kind: kind, Message: message})
	}
}
