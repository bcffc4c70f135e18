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
	newMode string // "100644" or "100755" where the patch states it
	hunks   []hunk
	line    int // where it starts in the patch, from 1
}

// hunk is one place to change.
type hunk struct {
	lines    []hunkLine
	start    int      // stated first old line, from 1; -1 where none is stated
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
	hunks int
}

// parse reads a patch in one of the forms that models write: unified diffs with
// git's extensions, and the "*** Begin Patch" envelope. It is lenient about
// everything that does not change what is meant.
func parse(text string) (document, *tools.Error) {
	if len(text) > maxPatchBytes {
		return document{}, tooLarge("the patch is %d bytes; the limit is %d", len(text), maxPatchBytes)
	}
	if strings.ContainsRune(text, 0) {
		return document{}, syntax(1, "the patch contains a NUL character", "patches are text; write binary files with a command")
	}
	p := &parser{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	p.dropReturns()
	p.dropFence()
	var bad *tools.Error
	if p.isEnvelope() {
		bad = p.envelope()
	} else {
		bad = p.unified()
	}
	if bad == nil && len(p.doc.files) == 0 {
		bad = &tools.Error{
			Kind: KindEmpty, Message: "the patch names no file",
			RecoveryHint: "start each file with the lines --- a/PATH and +++ b/PATH (use /dev/null for a file that does not exist), followed by hunks that start with @@",
		}
	}
	if bad != nil {
		return document{}, bad
	}
	return p.doc, nil
}

// dropReturns takes off the \r of a patch that has one on every line, which says
// how the patch was carried, not how the file ends its lines.
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

// dropFence takes off a Markdown code fence around the patch.
func (p *parser) dropFence() {
	first, last := 0, len(p.lines)-1
	for first < last && strings.TrimSpace(p.lines[first]) == "" {
		first++
	}
	if !strings.HasPrefix(p.lines[first], "```") {
		return
	}
	for last > first && strings.TrimSpace(p.lines[last]) == "" {
		last--
	}
	if strings.TrimSpace(p.lines[last]) == "```" && last > first {
		p.lines = p.lines[:last]
	}
	p.lines[first] = ""
	p.note("", "code_fence", "a code fence around the patch was left out")
}

func (p *parser) isEnvelope() bool {
	for _, l := range p.lines {
		if isDirective(l) {
			return true
		}
		if strings.HasPrefix(l, "--- ") || strings.HasPrefix(l, "diff --git ") {
			return false
		}
	}
	return false
}

func (p *parser) unified() *tools.Error {
	for p.i < len(p.lines) {
		l := p.lines[p.i]
		var bad *tools.Error
		switch {
		case strings.HasPrefix(l, "diff --git "):
			bad = p.gitFile()
		case strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "):
			bad = p.plainFile()
		case isBinaryMark(l):
			bad = binary(p.i + 1)
		case strings.HasPrefix(l, "@@"):
			bad = syntax(p.i+1, "a hunk comes before any file is named", "put the lines --- a/PATH and +++ b/PATH before the first hunk")
		default:
			p.i++ // prose, mail headers, "Index:" and the like
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

// body reads the hunks of a file. The first may come without its header.
func (p *parser) body() ([]hunk, *tools.Error) {
	var list []hunk
	for p.i < len(p.lines) {
		l := p.lines[p.i]
		switch {
		case strings.TrimSpace(l) == "":
			p.i++
			continue
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

// hunk reads one hunk: by its counts if they are right, else to the next thing
// that cannot belong to it.
func (p *parser) hunk() (hunk, *tools.Error) {
	h := hunk{start: -1, line: p.i + 1}
	counts := counts{old: -1, new: -1}
	for p.i < len(p.lines) && strings.HasPrefix(p.lines[p.i], "@@") { // an envelope may stack anchors
		counts = h.header(p.lines[p.i])
		p.i++
	}
	if p.counted(&h, counts) {
		return h, nil
	}
	if counts.stated() {
		p.note("", "wrong_counts", fmt.Sprintf("patch line %d: the counts in the hunk header do not fit; they were ignored", h.line))
	}
	return h, p.uncounted(&h)
}

// counted reads as many lines as the header states, if the hunk ends there.
func (p *parser) counted(h *hunk, c counts) bool {
	if !c.stated() {
		return false
	}
	i, lines := p.i, []hunkLine(nil)
	for (c.old > 0 || c.new > 0) && i < len(p.lines) {
		l := p.lines[i]
		if p.fileHeader(i) && (looksLikePath(p.lines[i+1][4:]) || l[4:] == p.lines[i+1][4:]) {
			return false // the counts are too large and reach into the next file
		}
		hl, ok := prefixed(l)
		if !ok {
			return false
		}
		if hl.op == '\\' {
			markNoEOL(lines)
			i++
			continue
		}
		if hl.op != '+' {
			c.old--
		}
		if hl.op != '-' {
			c.new--
		}
		lines = append(lines, hl)
		i++
	}
	if c.old != 0 || c.new != 0 {
		return false
	}
	if i < len(p.lines) && strings.HasPrefix(p.lines[i], `\ `) {
		markNoEOL(lines)
		i++
	}
	end := i
	for i < len(p.lines) && strings.TrimSpace(p.lines[i]) == "" {
		i++
	}
	if i < len(p.lines) && !p.boundary(i) && isBodyLine(p.lines[i]) {
		return false // more of the hunk, not prose behind it
	}
	h.lines, p.i = lines, end
	return true
}

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
	if p.i < len(p.lines) && strings.TrimSpace(p.lines[p.i]) == directiveEOF {
		h.atEnd = true
		p.i++
	}
	return nil
}

// soft reports a line that may only separate hunks: empty, without even the
// space of a context line.
func (l hunkLine) soft() bool { return l.op == ' ' && l.text == "" && l.raw }

// prefixed reads a line that has its prefix, or that is empty, which stands for
// an empty context line.
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

func (p *parser) note(path, kind, message string) {
	if len(p.doc.diags) < maxNotes {
		p.doc.diags = append(p.doc.diags, Diagnostic{Path: path, Kind: kind, Message: message})
	}
}
