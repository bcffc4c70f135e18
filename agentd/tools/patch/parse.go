package patch

import (
	"fmt"
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
	action  action
	path    string // the new name; for a deletion, the old one
	from    string // the source of a move or copy, "" otherwise
	rawPath string // path as it was written, with a prefix if it had one; may be ""
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
	blanks   int      // empty lines at the end that may only separate the hunk from the next part
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

// parse reads a unified diff with git's extensions, or a "*** Begin Patch" envelope. It tolerates mistakes
// that leave the meaning unchanged.
func parse(text string) (document, *tools.Error) {
	if len(text) > maxPatchBytes {
		return document{}, tooLarge("the patch is %d bytes; the limit is %d", len(text), maxPatchBytes)
	}
	p := &parser{}
	text, marked := strings.CutPrefix(text, bom)
	if marked {
		p.doc.note("", "byte_order_mark", "a byte order mark before the patch was left out")
	}
	if strings.ContainsRune(text, 0) {
		return document{}, syntax(1, "the patch contains a NUL character",
			"patches are text; write binary files with a command")
	}
	p.lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(p.lines) == 1 && strings.Contains(text, `\n`) {
		return document{}, syntax(1, "the patch is one line with \\n in it",
			"send the patch itself with newlines, not a string or an object with escaped ones")
	}
	p.dropReturns()
	p.dropFences()
	bad := p.sections()
	if bad == nil && len(p.doc.files) == 0 {
		bad = &tools.Error{
			Kind: kindEmpty, Message: "the patch names no file", Details: map[string]any{"field": "patch"},
			RecoveryHint: "start each file with the lines --- a/PATH and +++ b/PATH (use /dev/null for a file that " +
				"does not exist), followed by hunks that start with @@",
		}
	}
	if bad != nil {
		return document{}, bad
	}
	return p.doc, nil
}

// sections reads the parts of a patch, each about one file and in either form, and skips prose and mail headers between
// them.
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

// changeAt reports a removed line that is followed by an added one, as opposed to an item of a list in prose.
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
	return syntax(line, "this is a context diff; only unified diffs are understood",
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

func (d *document) note(path, kind, message string) {
	if len(d.diags) < maxNotes {
		d.diags = append(d.diags, diagnostic{Path: path, Kind: kind, Message: message})
	}
}
