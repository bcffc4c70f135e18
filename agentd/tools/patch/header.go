package patch

import (
	"slices"
	"strconv"
	"strings"

	"holon/agentd/tools"
)

const devNull = "/dev/null"

// counts are the lines a hunk header promises; -1 where it does not.
type counts struct{ old, new int }

func (c counts) stated() bool { return c.old >= 0 && c.new >= 0 }

var (
	hunkHeader  = lazy(`^@@+\s*-(\d+)(?:,(\d+))?\s+\+(\d+)(?:,(\d+))?\s*@@+\s?(.*)$`)
	hunkNumbers = lazy(`^@@+\s*-?(\d+)(?:,\d*)?(?:\s+\+\d*(?:,\d*)?)?\s*(?:@@+)?\s*$`)
)

// header reads one @@ line into h.
func (h *hunk) header(l string) counts {
	l = strings.TrimSuffix(l, "\r")
	if m := hunkHeader().FindStringSubmatch(l); m != nil {
		c := counts{old: number(m[2], 1), new: number(m[4], 1)}
		h.start, h.insertAt, h.numbered = number(m[1], -1), c.old == 0, true
		h.anchor(m[5])
		return c
	}
	if m := hunkNumbers().FindStringSubmatch(l); m != nil {
		h.start, h.numbered = number(m[1], -1), true
		return counts{-1, -1}
	}
	h.anchor(strings.Trim(l, "@"))
	return counts{-1, -1}
}

// anchor adds a line that the header says stands above the hunk. Text without words, like "...", is left out.
func (h *hunk) anchor(s string) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, ".…-+, 0123456789") != "" {
		h.anchors = append(h.anchors, s)
	}
}

// farAway is a line number that no file has.
const farAway = 1 << 30

// number reads an optional number. One that is too large is farAway.
func number(s string, absent int) int {
	if s == "" {
		return absent
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > farAway {
		return farAway
	}
	return n
}

// plainFile reads a file that starts with --- or +++ lines.
func (p *parser) plainFile() *tools.Error {
	f := filePatch{line: p.i + 1}
	old, new := p.names()
	if p.bad != nil {
		return p.bad
	}
	if bad := f.names(old, new); bad != nil {
		return bad
	}
	return p.finish(f)
}

// names reads the --- and +++ lines at the current position. Either may be missing.
func (p *parser) names() (old, new string) {
	if l := p.line(); strings.HasPrefix(l, "--- ") {
		old = p.name(l[4:])
		p.i++
	}
	if l := p.line(); strings.HasPrefix(l, "+++ ") {
		new = p.name(l[4:])
		p.i++
	}
	return old, new
}

func (p *parser) line() string {
	if p.i < len(p.lines) {
		return p.lines[p.i]
	}
	return ""
}

// stamp matches the time that diff puts behind a path, when spaces replaced the tab.
var stamp = lazy(`\s+\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*$`)

// name takes a path out of a header line: unquoted, without the time stamp that diff adds behind a tab.
func (p *parser) name(s string) string {
	s = strings.TrimRight(s, " \r")
	if strings.HasPrefix(s, `"`) {
		u, _, ok := unquote(s)
		if !ok {
			p.bad = syntax(p.i+1, "the quoted path "+tools.Clip(s, 80)+" has no end or an unknown escape",
				"write the path without quotes")
		}
		return u
	}
	path, rest, found := strings.Cut(s, "\t")
	if !found {
		if at := stamp().FindStringIndex(s); at != nil {
			path, rest = s[:at[0]], s[at[0]:]
		}
	}
	if path = p.plain(path); strings.TrimSpace(rest) != "" {
		p.ignore(path, "timestamp", strings.TrimSpace(rest))
	}
	return path
}

// plain takes backslashes in an unquoted path for separators of another system.
func (p *parser) plain(path string) string {
	if strings.Contains(path, `\`) {
		path = strings.ReplaceAll(path, `\`, "/")
		p.doc.note(path, "path_separators", "the backslashes of the path were taken for /")
	}
	return path
}

// names decides the action and the paths from the two sides of a header.
func (f *filePatch) names(old, new string) *tools.Error {
	switch {
	case old == "" && new == "", old == devNull && new == devNull:
		return syntax(f.line, "no file is named", "write --- a/PATH and +++ b/PATH")
	case old == devNull && new != "":
		f.action = actionAdd
		f.path, f.rawPath = strip(new), new
	case new == devNull && old != "":
		f.action = actionDelete
		f.path, f.rawPath = strip(old), old
	case old == "" || new == "":
		f.action = actionModify
		f.path, f.rawPath = strip(old+new), old+new
	default:
		f.action = actionModify
		f.bothNames(old, new)
	}
	return nil
}

// bothNames tells a changed file from a renamed one. Prefixes are removed in pairs: "c/x.h" on both sides is
// a file in a directory c.
func (f *filePatch) bothNames(old, new string) {
	f.path, f.rawPath = new, new
	switch {
	case len(old) > 2 && len(new) > 2 && old[1] == '/' && new[1] == '/' &&
		strings.Contains(prefixPairs, " "+old[:1]+new[:1]+" "):
		f.path = new[2:]
		if old[2:] != new[2:] {
			f.action, f.from = actionMove, old[2:]
		}
	case old == new, strip(new) == old:
		f.path = strip(new)
	case strip(old) == new, strings.TrimSuffix(old, ".orig") == new:
	default:
		f.action, f.from = actionMove, old
	}
}

// prefixPairs are the prefixes that git puts before old and new paths: its default, the same reversed, and the pairs of
// diff.mnemonicPrefix.
const prefixPairs = " ab ba iw ci cw ow "

// strip removes the usual prefix of one side, when the other cannot confirm it.
func strip(path string) string {
	if len(path) > 2 && (strings.HasPrefix(path, "a/") || strings.HasPrefix(path, "b/")) {
		return path[2:]
	}
	return path
}

// gitFile reads a file that starts with "diff --git" and git's extended header.
func (p *parser) gitFile() *tools.Error {
	f := filePatch{line: p.i + 1}
	old, new := splitGit(strings.TrimRight(p.lines[p.i][len("diff --git "):], " \r"))
	p.i++
	var ext extended
	for p.i < len(p.lines) && ext.read(p, strings.TrimRight(p.lines[p.i], "\r")) {
		p.i++
	}
	if isBinaryMark(p.line()) {
		return binary(p.i + 1)
	}
	at := p.i
	if o, n := p.names(); agrees(o, n, old, new, ext.from, ext.to) {
		old, new = o, n
	} else {
		p.i = at // the next file's
	}
	if p.bad != nil {
		return p.bad
	}
	if ext.from != "" && ext.to != "" {
		f.action, f.from, f.path = actionMove, ext.from, ext.to
		if ext.copied {
			f.action = actionCopy
		}
	} else if bad := f.names(ext.side(old, ext.added), ext.side(new, ext.deleted)); bad != nil {
		return bad
	}
	if bad := p.modes(&f, ext); bad != nil {
		return bad
	}
	return p.finish(f)
}

// agrees reports whether --- and +++ lines name one of the files of a header.
func agrees(old, new string, header ...string) bool {
	return slices.ContainsFunc(header, func(h string) bool {
		return h != "" && (h == old || h == new || strip(h) == strip(old) || strip(h) == strip(new))
	})
}

// finish reads the hunks of f and adds it to the document.
func (p *parser) finish(f filePatch) *tools.Error {
	p.path = f.path
	hunks, bad := p.body()
	if bad != nil {
		return bad
	}
	f.hunks = hunks
	if len(hunks) == 0 && strings.HasPrefix(p.line(), "***************") {
		return contextForm(p.i + 1)
	}
	if len(hunks) == 0 && f.action == actionModify && f.newMode == "" {
		return syntax(f.line, f.path+": the file has no hunk", "follow the file's header with hunks that start with @@")
	}
	p.doc.files = append(p.doc.files, f)
	return nil
}

// extended is git's extended header, between "diff --git" and the hunks.
type extended struct {
	from, to, mode         string
	others                 []string // modes of the old file
	added, deleted, copied bool
}

func (e *extended) side(name string, gone bool) string {
	if gone {
		return devNull
	}
	return name
}

// read takes in one line of the extended header and reports whether it was one.
func (e *extended) read(p *parser, l string) bool {
	key, value := "", ""
	for _, k := range []string{
		"old mode ", "new mode ", "deleted file mode ", "new file mode ", "rename from ", "rename to ", "copy from ",
		"copy to ",
		"similarity index ", "dissimilarity index ", "index ",
	} {
		if strings.HasPrefix(l, k) {
			key, value = strings.TrimSpace(k), strings.TrimSpace(l[len(k):])
			break
		}
	}
	switch key {
	case "":
		return false
	case "new mode":
		e.mode = value
	case "new file mode":
		e.added, e.mode = true, value
	case "old mode":
		e.others = append(e.others, value)
		p.ignore("", "old_mode", value)
	case "deleted file mode":
		e.deleted, e.others = true, append(e.others, value)
	case "index":
		if _, mode, ok := strings.Cut(value, " "); ok {
			e.others = append(e.others, mode)
		}
		p.ignore("", "index", value)
	case "rename from", "copy from":
		e.from, e.copied = p.name(value), key == "copy from"
	case "rename to", "copy to":
		e.to = p.name(value)
	default:
		p.ignore("", strings.ReplaceAll(key, " ", "_"), value)
	}
	return true
}

func (p *parser) ignore(path, kind, value string) {
	if len(p.doc.ignored) < maxNotes {
		p.doc.ignored = append(p.doc.ignored, metadata{Path: path, Kind: kind, Value: tools.Clip(value, 200)})
	}
}

// boundary reports whether line i cannot belong to the hunk before it.
func (p *parser) boundary(i int) bool {
	l := p.lines[i]
	switch {
	case strings.HasPrefix(l, "@@"), strings.HasPrefix(l, "diff --git "), isCombined(l), isDirective(l),
		p.fileHeader(i), mailStart().MatchString(l):
		return true
	case strings.TrimRight(l, " ") == "--": // the signature of git format-patch
		return i+1 < len(p.lines) && mailSignature().MatchString(p.lines[i+1])
	}
	return false
}

// What git format-patch writes at the end and at the start of a mail.
var (
	mailSignature = lazy(`^\d+\.\d+[\w.-]*\s*$`)
	mailStart     = lazy(`^From [0-9a-f]{40} `)
)

// fileHeader reports whether a file's header starts at line i. A removed line can begin with "--- " too, but the lines
// after it are different.
func (p *parser) fileHeader(i int) bool {
	if !strings.HasPrefix(p.lines[min(i, len(p.lines)-1)], "--- ") || i+1 >= len(p.lines) ||
		!strings.HasPrefix(p.lines[i+1], "+++ ") {
		return false
	}
	for j := i + 2; j < len(p.lines); j++ {
		if l := p.lines[j]; strings.TrimSpace(l) != "" {
			return strings.HasPrefix(l, "@@") || isBinaryMark(l) || looksLikePath(p.lines[i+1][4:])
		}
	}
	return true
}

// looksLikePath tells the +++ line of a header without @@ from added text.
func looksLikePath(s string) bool {
	return strings.HasPrefix(s, "b/") || strings.TrimSpace(s) == devNull
}

func isBinaryMark(l string) bool {
	return strings.HasPrefix(l, "GIT binary patch") ||
		strings.HasPrefix(l, "Binary files ") && strings.Contains(l, " differ")
}

func isBodyLine(l string) bool { return l == "" || l[0] == ' ' || l[0] == '+' || l[0] == '-' }
