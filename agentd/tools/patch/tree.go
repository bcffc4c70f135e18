package patch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
	"holon/internal/folder"
	"holon/internal/gitname"
)

const (
	maxPathBytes = 4000
	maxDepth     = 100 // directories above a file
	maxLines     = 2_000_000
	// maxWork bounds the comparing of lines in one call to a few seconds: the lines of a file, times its hunks.
	maxWork = 300_000_000
)

// tree is the working tree with the changes that a patch has staged.
type tree struct {
	dir     string
	root    folder.Dir
	entries map[string]*entry
	order   []*entry
	bytes   int // staged so far
	// fault is set by tests and called before every change.
	fault func(op, path string) error
}

// entry is one path, before and after the patch.
type entry struct {
	path   string
	before *unix.Stat_t // nil where there was nothing
	was    string       // the content before
	exists bool         // after the patch so far
	data   string
	mode   uint32 // permission bits of an existing or moved file; 0 for those that the umask leaves
	from   string // the path before the patch of a file that was moved here
}

func newTree(dir string, root folder.Dir) *tree {
	return &tree{dir: dir, root: root, entries: make(map[string]*entry)}
}

// differs reports whether the patch changes the path.
func (e *entry) differs() bool {
	return e.exists != (e.before != nil) || e.data != e.was || e.before != nil && e.mode != e.before.Mode&0o777
}

// changes lists what the patch changes, in its order.
func (t *tree) changes() []changedFile {
	list := make([]changedFile, 0, len(t.order))
	moved := make(map[string]bool)
	for _, e := range t.order {
		if e.exists && e.from != "" && e.from != e.path {
			moved[e.from] = true
		}
	}
	for _, e := range t.order {
		c := changedFile{Action: actionModify, Path: e.path}
		switch {
		case e.exists && e.from != "" && e.from != e.path:
			c.Action, c.FromPath = actionMove, e.from
		case !e.differs(), !e.exists && moved[e.path]:
			continue
		case !e.exists:
			c.Action = actionDelete
		case e.before == nil:
			c.Action = actionAdd
		}
		list = append(list, c)
	}
	return list
}

// in calls f with the directory that holds p and the last element of p. No symbolic link is followed on the way, also
// not one that another program puts there meanwhile.
func (t *tree) in(op, p string, f func(dir folder.Dir, name string) error) error {
	if t.fault != nil && op != "" {
		if err := t.fault(op, p); err != nil {
			return err
		}
	}
	cursor := folder.NewCursor(t.root, false)
	defer cursor.Close()
	dir, name, err := cursor.Parent(p)
	if err != nil {
		return err
	}
	return f(dir, name)
}

func (t *tree) lstat(p string) (st unix.Stat_t, err error) {
	err = t.in("", p, func(dir folder.Dir, name string) (err error) { st, err = dir.Lstat(name); return err })
	return st, err
}

func canceled() *tools.Error {
	return &tools.Error{Kind: tools.KindCanceled, Message: "the patch was cancelled; nothing was changed"}
}

// clean turns a path of a patch into a relative path below the tree, and refuses paths that must not be
// changed as far as their text tells.
func (t *tree) clean(p string) (string, *tools.Error) {
	shown := tools.Clip(p, 300)
	outside := refused(tools.KindRootViolation, shown, visible(shown)+" is outside the working tree",
		"use paths relative to the root of the working tree, without ..")
	if rel, ok := strings.CutPrefix(p, strings.TrimSuffix(t.dir, "/")+"/"); ok {
		p = rel
	}
	if why := unusable(p); why != "" && !filepath.IsAbs(p) {
		return "", unsafe(shown, why)
	}
	elements := strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }) // \ separates elsewhere
	if filepath.IsAbs(p) || drive.MatchString(p) || slices.Contains(elements, "..") {
		return "", outside
	}
	for _, element := range elements {
		if why := reserved(element); why != "" {
			return "", unsafe(shown, why)
		}
	}
	p = path.Clean(p)
	if strings.Count(p, "/") >= maxDepth {
		return "", unsafe(shown, "lies too deep")
	}
	if p == "." || !filepath.IsLocal(p) {
		return "", outside
	}
	return p, nil
}

// drive matches paths of another system.
var drive = regexp.MustCompile(`^.:[/\\]`)

func unsafe(p, why string) *tools.Error {
	return refused(kindUnsafePath, p, visible(p)+" "+why,
		"change other files, or use a command such as git where that is what you want")
}

// unusable says why p cannot be the path of a file that a patch changes.
func unusable(p string) string {
	switch {
	case p == "" || strings.HasSuffix(p, "/") || len(p) > maxPathBytes:
		return "is not the path of a file"
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return "contains control characters"
	case !utf8.ValidString(p):
		return "is not UTF-8"
	}
	return ""
}

// reserved says why an element of a path must not be changed.
func reserved(name string) string {
	switch {
	case gitname.IsDotGit(name):
		return "belongs to git's own data"
	case leftover.MatchString(name):
		return "has a name that this tool uses for temporary files"
	}
	return ""
}

// leftover matches the names of files that exist while a patch is applied.
var leftover = regexp.MustCompile(`^\.holon-[0-9a-f]{12}-\d+$`)

// entry returns the staged state of a cleaned path, with the content of an existing file. It refuses paths that lead
// through anything but real directories or to anything but a regular file.
func (t *tree) entry(p string) (*entry, *tools.Error) {
	if bad := t.ancestors(p); bad != nil {
		return nil, bad
	}
	if e := t.entries[p]; e != nil {
		return e, nil
	}
	e := &entry{path: p}
	st, err := t.lstat(p)
	switch {
	case err != nil && missing(err):
	case err != nil:
		return nil, unreadable(p, err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, special(p, st.Mode)
	default:
		if bad := t.load(e, st); bad != nil {
			return nil, bad
		}
	}
	t.entries[p] = e
	t.order = append(t.order, e)
	return e, nil
}

// ancestors checks the directories above p.
func (t *tree) ancestors(p string) *tools.Error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		dir := p[:i]
		if e := t.entries[dir]; e != nil && (e.exists || e.before != nil) {
			return refused(kindUnsafePath, p, fmt.Sprintf("%s cannot lie below %s, which is a file", visible(p),
				visible(dir)), "choose another path, or delete the file in a patch of its own first")
		}
		st, err := t.lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return unreadable(p, err)
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return special(dir, st.Mode)
		}
	}
	return nil
}

// load reads an existing file into e.
func (t *tree) load(e *entry, st unix.Stat_t) *tools.Error {
	if st.Size > maxFileBytes {
		return refused(kindTooLarge, e.path, fmt.Sprintf("%s is %d bytes; the limit is %d", visible(e.path), st.Size,
			maxFileBytes), "change it with a command such as sed, mv or rm")
	}
	var data []byte
	err := t.in("", e.path, func(dir folder.Dir, name string) error {
		f, opened, err := dir.OpenFile(name)
		if err != nil {
			return err
		}
		defer f.Close()
		st = opened
		data, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1))
		return err
	})
	switch {
	case err != nil:
		return unreadable(e.path, err)
	case len(data) > maxFileBytes:
		return changedMeanwhile(e.path)
	}
	e.before, e.was, e.exists, e.data, e.mode = &st, string(data), true, string(data), st.Mode&0o777
	return t.charge(len(data))
}

// charge counts staged bytes.
func (t *tree) charge(n int) *tools.Error {
	if t.bytes += n; t.bytes > maxTotalBytes {
		return tooLarge("the files of the patch are %d bytes together; the limit is %d", t.bytes, maxTotalBytes)
	}
	return nil
}

func special(p string, mode uint32) *tools.Error {
	what := "a special file"
	switch mode & unix.S_IFMT {
	case unix.S_IFLNK:
		what = "a symbolic link"
	case unix.S_IFDIR:
		what = "a directory"
	case unix.S_IFREG:
		what = "a file, not a directory"
	}
	return refused(kindUnsafePath, p, visible(p)+" is "+what,
		"name the real file; links and special files are changed with commands")
}

func unreadable(p string, err error) *tools.Error {
	return refused(kindUnsafePath, p, fmt.Sprintf("%s cannot be read: %v", visible(p), cause(err)),
		"check the path and its permissions with ls -ld")
}

func changedMeanwhile(p string) *tools.Error {
	e := refused(kindWrite, p, visible(p)+" was changed by something else at the same moment; nothing was changed by "+
		"the patch", "read the file again and repeat the call")
	e.Retryable = true
	return e
}

// cause returns an error without its operation and path, for messages that name the path themselves.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// missing reports whether an error says that nothing exists at a path.
func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
}
