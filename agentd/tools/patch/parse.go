package patch

import (
	"fmt"
	"strings"

	"holon/agentd/tools"
)

// document is a parsed patch: what it wants, and what was odd about it.
type document struct {
	files   []filePatch
	ignored []Metadata
	diags   []Diagnostic
}

// filePatch is what a patch wants of one file.
type filePatch struct {
	action  Action
	path    string // the file as it shall be called; for a deletion, as it is called
	from    string // the source of a move or copy, "" otherwise
	rawPath string // path as it was written, with a prefix if it had one; may be ""
	common  string // what both paths of a move are below their first directories, if alike
	newMode string // "100644" or "100755" where the patch states it
	hunks   []hunk
	line    int // where it starts in the patch, from 1
}

// hunk is one place to change.
type hunk struct {
	lines    []hunkLine
	start    int      // stated first old line, from 1; -1 where none is stated
	counted  bool     // the stated counts fit the lines
	numbered bool     // the header has line numbers, so its text is only a heading
	insertAt bool     // the header states that no old line is concerned
	anchors  []string // lines above the place, outermost first
	atEnd    bool     // the place is the end of the file
	blanks   int      // empty lines at the end of lines that may only separate
	line     int      // where it starts in the patch
}

// hunkLine is a line of a hunk: ' ' context, '-' removed, '+' added.
type hunkLine struct {
	op    byte
	text  string // without prefix and newline; may end in \r
	raw   bool   // context that came without its leading space
	noEOL bool   // followed by "\ No newline at end of file"
}

// parser walks the lines of a patch.
type parser struct {
	lines []string
	i     int
	doc   document
	path  string // of the file whose hunks are read
	hunks int
	bad   *tools.Error // why a path cannot be read
}

// parse reads a patch in one of the forms that models write: unified diffs with
// git's extensions, and the "*** Begin Patch" envelope. It is lenient about
// everything that does not change what is meant.
func parse(text string) (document, *tools.Error) {
	if len(text) > maxPatchBytes {
		return document{}, tooLarge("the patch is %d bytes; the limit is %d", len(text), maxPatchBytes)
	}
	p := &parser{}
	text = p.unwrap(text)
	if strings.ContainsRune(text, 0) {
		return document{}, syntax(1, "the patch contains a NUL character",
			"patches are text; write binary files with a command")
	}
	p.lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(p.lines) == 1 && strings.Contains(text, `\n`) && startsFile().MatchString(text) {
		return document{}, syntax(1, "its newlines are escaped, and its backslashes can be read in two ways",
			"send the patch with newlines, not with \\n")
	}
	p.dropReturns()
	p.dropIndent()
	p.dropFences()
	bad := p.sections()
	if bad == nil && len(p.doc.files) == 0 {
		bad = &tools.Error{
			Kind: KindEmpty, Message: "the patch names no file", Details: map[string]any{"field": "patch"},
			RecoveryHint: "start each file with the lines --- a/PATH and +++ b/PATH (use /dev/null for a file that " +
				"does not exist), followed by hunks that start with @@",
		}
	}
	if bad != nil {
		return document{}, bad
	}
	return p.doc, nil
}

// sections reads the parts of a patch, each about one file and in either form,
// and skips the prose, mail headers and the like between them.
func (p *parser) sections() *tools.Error {
	for p.i < len(p.lines) {
		l := p.lines[p.i]
		var bad *tools.Error
		switch {
		case isDirective(l):
			bad = p.directive()
		case strings.HasPrefix(l, "diff --git "):
			bad = p.gitFile()
		case isCombined(l):
			bad = combined(p.i + 1)
		case strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "):
			bad = p.plainFile()
		case isBinaryMark(l):
			bad = binary(p.i + 1)
		case strings.HasPrefix(l, "@@"):
			bad = syntax(p.i+1, "a hunk comes before any file is named",
				"put the lines --- a/PATH and +++ b/PATH before the first hunk")
		case p.changeAt(p.i):
			bad = syntax(p.i+1, "changed lines come before any file is named",
				"put the lines --- a/PATH and +++ b/PATH before them")
		case strings.HasPrefix(l, "***************"):
			bad = contextForm(p.i + 1)
		case strings.HasPrefix(l, "*** ") && strings.Contains(l, ":"):
			bad = syntax(p.i+1, fmt.Sprintf("%q is not known", tools.Clip(l, 80)),
				"use *** Add File: PATH, *** Update File: PATH, *** Delete File: PATH and *** Move to: PATH")
		default:
			p.i++
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

// changeAt reports a removed line that is followed by an added one, which is
// more than an item of a list in prose.
func (p *parser) changeAt(i int) bool {
	return strings.HasPrefix(p.lines[i], "-") && i+1 < len(p.lines) && strings.HasPrefix(p.lines[i+1], "+") &&
		!strings.HasPrefix(p.lines[i+1], "+++ ")
}

func isCombined(l string) bool {
	return strings.HasPrefix(l, "diff --cc ") || strings.HasPrefix(l, "diff --combined ") ||
		strings.HasPrefix(l, "@@@ -")
}

func combined(line int) *tools.Error {
	return syntax(line, "this is a combined diff of a merge, which cannot be applied",
		"write the change against the files as they are now, with one column of signs")
}

func contextForm(line int) *tools.Error {
	return syntax(line, "this is a context diff, which is not understood",
		"write a unified diff: --- a/PATH, +++ b/PATH and hunks that start with @@")
}

// body reads the hunks of a file. The first may come without its header.
func (p *parser) body() ([]hunk, *tools.Error) {
	var list []hunk
	for p.i < len(p.lines) {
		l := p.lines[p.i]
		switch {
		case strings.TrimSpace(l) == "":
			p.i++
			continue
		case isCombined(l):
			return nil, combined(p.i + 1)
		case strings.HasPrefix(l, "@@"):
		case isBinaryMark(l):
			return nil, binary(p.i + 1)
		case len(list) > 0, p.boundary(p.i), !isBodyLine(l):
			return list, nil
		}
		h, bad := p.hunk()
		if bad != nil {
			return nil, bad
		}
		if len(h.lines) > 0 || h.atEnd {
			list = append(list, h)
		}
		if p.hunks++; p.hunks > maxHunks {
			return nil, tooLarge("the patch has more than %d hunks (%d)", maxHunks, p.hunks)
		}
	}
	return list, nil
}

func (p *parser) note(path, kind, message string) {
	if len(p.doc.diags) < maxNotes {
		p.doc.diags = append(p.doc.diags, Diagnostic{Path: path, Kind: kind, Message: message})
	}
}
