package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
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
	root    *beneath
	entries map[string]*entry
	order   []*entry
	bytes   int // staged so far
}

// entry is one path, before and after the patch.
type entry struct {
	path   string
	before *status // nil where there was nothing
	exists bool    // after the patch so far
	loaded bool    // data holds the content
	data   string
	mode   fs.FileMode // permission bits
	given  bool        // mode is that of an existing file, which no umask concerns
	was    string      // the content before, once loaded

	written *status // the new content, once a commit has written it
}

// differs reports whether the patch changes the path.
func (e *entry) differs() bool {
	switch {
	case e.before == nil || !e.exists:
		return (e.before != nil) != e.exists
	case e.mode != e.before.perm():
		return true
	}
	return e.loaded && e.data != e.was
}

// openTree opens the tree at dir and locks it for one call.
func openTree(ctx context.Context, dir string) (*tree, *tools.Error) {
	root, err := openBeneath(dir)
	if err != nil {
		return nil, &tools.Error{Kind: kindWrite, Message: "the working tree cannot be opened: " + err.Error(),
			RecoveryHint: "report this to the operator"}
	}
	t := &tree{dir: dir, root: root, entries: make(map[string]*entry)}
	if bad := t.lock(ctx); bad != nil {
		t.close()
		return nil, bad
	}
	return t, nil
}

// close also releases the lock.
func (t *tree) close() { t.root.close() }

// lockPatience is how long a call waits for others on the same tree.
const lockPatience = 10 * time.Second

// lock waits until no other call works on the tree, in this or another process.
func (t *tree) lock(ctx context.Context) *tools.Error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Flock(t.root.fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil // held, or a file system without locks
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return canceled()
			}
			return &tools.Error{Kind: kindWrite,
				Message: "the working tree is locked by something else; nothing was changed", Retryable: true,
				RecoveryHint: "repeat the call; if that does not help, see which process holds a lock: lslocks"}
		}
	}
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
	if filepath.IsAbs(p) || drive().MatchString(p) || slices.Contains(elements, "..") {
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
var drive = lazy(`^.:[/\\]`)

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
	case isGit(name):
		return "belongs to git's own data"
	case leftover().MatchString(name):
		return "has a name that this tool uses for temporary files"
	}
	return ""
}

// leftover matches the names of files that exist while a patch is applied.
var leftover = lazy(`^\.holon-[0-9a-f]{12}-\d+$`)

// isGit reports a name that some file system takes for .git: in any case, with characters that HFS+ ignores, or with
// endings that NTFS drops or abbreviates.
func isGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, " .")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// entry returns the staged state of a cleaned path. It refuses paths that lead through anything but real directories or
// to anything but a regular file.
func (t *tree) entry(p string) (*entry, *tools.Error) {
	if e := t.entries[p]; e != nil {
		return e, t.ancestors(p)
	}
	if bad := t.ancestors(p); bad != nil {
		return nil, bad
	}
	e := &entry{path: p}
	fi, err := t.root.lstat(p)
	switch {
	case err != nil && missing(err):
	case err != nil:
		return nil, unreadable(p, err)
	case fi.is(unix.S_IFREG):
		e.before, e.exists, e.mode, e.given = fi, true, fi.perm(), true
	default:
		return nil, special(p, fi)
	}
	t.entries[p] = e
	t.order = append(t.order, e)
	return e, nil
}

// ancestors checks the directories above p in the staged state.
func (t *tree) ancestors(p string) *tools.Error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		dir := p[:i]
		if e := t.entries[dir]; e != nil && (e.exists || e.before != nil) {
			if e.exists {
				return refused(kindUnsafePath, p,
					fmt.Sprintf("%s cannot lie below %s, which is a file", visible(p), visible(dir)),
					"choose another path")
			}
			return nil // the patch deletes this file, so nothing is below it yet
		}
		fi, err := t.root.lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return unreadable(p, err)
		case !fi.is(unix.S_IFDIR):
			return special(dir, fi)
		}
	}
	return nil
}

// load reads the content of e.
func (t *tree) load(e *entry) *tools.Error {
	if e.loaded {
		return nil
	}
	if e.before.Size > maxFileBytes {
		return refused(kindTooLarge, e.path, fmt.Sprintf("%s is %d bytes; the limit is %d", visible(e.path),
			e.before.Size, maxFileBytes), "change it with a command such as sed or git mv")
	}
	f, err := t.root.open(e.path)
	if err != nil {
		return unreadable(e.path, err)
	}
	defer f.Close()
	var now status
	err = unix.Fstat(int(f.Fd()), &now.Stat_t)
	if err == nil && !now.same(e.before) {
		return changedMeanwhile(e.path)
	}
	data, rerr := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err := errors.Join(err, rerr); err != nil {
		return unreadable(e.path, err)
	}
	if len(data) > maxFileBytes {
		return changedMeanwhile(e.path)
	}
	e.data, e.was, e.loaded = string(data), string(data), true
	return t.charge(len(data))
}

// charge counts staged bytes.
func (t *tree) charge(n int) *tools.Error {
	if t.bytes += n; t.bytes > maxTotalBytes {
		return tooLarge("the files of the patch are %d bytes together; the limit is %d", t.bytes, maxTotalBytes)
	}
	return nil
}

func special(p string, fi *status) *tools.Error {
	what := "a special file"
	switch {
	case fi.is(unix.S_IFLNK):
		what = "a symbolic link"
	case fi.is(unix.S_IFDIR):
		what = "a directory"
	case fi.is(unix.S_IFREG):
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
