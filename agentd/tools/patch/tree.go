package patch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/agentd/tools"
)

const (
	maxPathBytes = 4000
	maxDepth     = 100 // directories above a file
	maxLines     = 2_000_000
	// maxWork bounds the comparing of lines in one call to a second or so.
	maxWork = 300_000_000
)

// tree is the working tree and what a patch wants to make of it.
type tree struct {
	dir     string
	root    *os.Root
	entries map[string]*entry
	order   []*entry
	bytes   int // staged so far
	spent   spent
}

// spent counts what a call has used up of its bounds.
type spent struct {
	work      int // lines compared
	explained int // hunks answered with lines of the file
}

// entry is one path, as it was and as it shall be.
type entry struct {
	path   string
	before fs.FileInfo // nil where there was nothing
	exists bool        // after the patch so far
	loaded bool        // data holds the content
	data   string
	mode   fs.FileMode // permission bits
	given  bool        // mode is that of an existing file, which no umask concerns
	was    string      // the content before, once loaded
}

// differs reports whether the patch changes the path.
func (e *entry) differs() bool {
	switch {
	case e.before == nil || !e.exists:
		return (e.before != nil) != e.exists
	case e.mode != e.before.Mode().Perm():
		return true
	}
	return e.loaded && e.data != e.was
}

func openTree(dir string) (*tree, *tools.Error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &tools.Error{Kind: KindWrite, Message: "the working tree cannot be opened: " + err.Error(), RecoveryHint: "report this to the operator"}
	}
	return &tree{dir: dir, root: root, entries: make(map[string]*entry)}, nil
}

func (t *tree) close() { t.root.Close() }

// clean turns a path of a patch into one below the tree that may be changed, as
// far as its text tells.
func (t *tree) clean(p string) (string, *tools.Error) {
	shown := tools.Clip(p, 300)
	outside := &tools.Error{Kind: tools.KindRootViolation, Message: visible(shown) + " is outside the working tree", Details: map[string]any{"path": shown},
		RecoveryHint: "use paths relative to the root of the working tree, without .."}
	if filepath.IsAbs(p) {
		rel, ok := strings.CutPrefix(p, strings.TrimSuffix(t.dir, "/")+"/")
		if !ok {
			return "", outside
		}
		p = rel
	}
	unsafe := func(why string) (string, *tools.Error) {
		return "", &tools.Error{Kind: KindUnsafePath, Message: visible(shown) + " " + why, Details: map[string]any{"path": shown},
			RecoveryHint: "change other files, or use a command such as git where that is what you want"}
	}
	switch {
	case p == "" || strings.HasSuffix(p, "/") || len(p) > maxPathBytes:
		return unsafe("is not the path of a file")
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return unsafe("contains control characters")
	case !utf8.ValidString(p):
		return unsafe("is not UTF-8")
	case len(p) > 2 && p[1] == ':' && (p[2] == '/' || p[2] == '\\'): // a drive of another system
		return "", outside
	}
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "" || part == ".":
		case slices.Contains(strings.Split(part, `\`), ".."): // also where \ separates
			return "", outside
		case slices.ContainsFunc(strings.Split(part, `\`), isGit):
			return unsafe("belongs to git's own data")
		case leftover.MatchString(part):
			return unsafe("has a name that this tool uses for a moment")
		case len(parts) == maxDepth:
			return unsafe("lies too deep")
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 || !filepath.IsLocal(path.Join(parts...)) {
		return "", outside
	}
	return path.Join(parts...), nil
}

// leftover are the names of files that exist while a patch is applied.
var leftover = regexp.MustCompile(`^\.holon-[0-9a-f]{12}-\d+$`)

// isGit reports a name that some file system takes for .git: in any case, with
// characters that HFS+ ignores, or with what NTFS drops or abbreviates.
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

// entry returns the staged state of a cleaned path. It refuses paths that lead
// through or to anything but real directories and regular files.
func (t *tree) entry(p string) (*entry, *tools.Error) {
	if e := t.entries[p]; e != nil {
		return e, t.ancestors(p)
	}
	if bad := t.ancestors(p); bad != nil {
		return nil, bad
	}
	e := &entry{path: p}
	fi, err := t.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
	case err != nil:
		return nil, unreadable(p, err)
	case fi.Mode().IsRegular():
		e.before, e.exists, e.mode, e.given = fi, true, fi.Mode().Perm(), true
	default:
		return nil, special(p, fi)
	}
	t.entries[p] = e
	t.order = append(t.order, e)
	return e, nil
}

// ancestors checks the directories above p, in the staged state.
func (t *tree) ancestors(p string) *tools.Error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		dir := p[:i]
		if e := t.entries[dir]; e != nil && (e.exists || e.before != nil) {
			if e.exists {
				return &tools.Error{Kind: KindUnsafePath, Message: fmt.Sprintf("%s cannot lie below %s, which is a file", visible(p), visible(dir)), Details: map[string]any{"path": p},
					RecoveryHint: "choose another path"}
			}
			return nil // a file goes, so nothing is below it yet
		}
		fi, err := t.root.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return unreadable(p, err)
		case !fi.IsDir():
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
	if e.before.Size() > maxFileBytes {
		return &tools.Error{Kind: KindTooLarge, Message: fmt.Sprintf("%s is %d bytes; the limit is %d", visible(e.path), e.before.Size(), maxFileBytes),
			Details: map[string]any{"path": e.path}, RecoveryHint: "change it with a command such as sed or git mv"}
	}
	// Not to block on a FIFO that took the file's place.
	f, err := t.root.OpenFile(e.path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return unreadable(e.path, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, e.before) {
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

func special(p string, fi fs.FileInfo) *tools.Error {
	what := "a special file"
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		what = "a symbolic link"
	case fi.IsDir():
		what = "a directory"
	case fi.Mode().IsRegular():
		what = "a file, not a directory"
	}
	return &tools.Error{Kind: KindUnsafePath, Message: visible(p) + " is " + what, Details: map[string]any{"path": p},
		RecoveryHint: "name the real file; links and special files are changed with commands"}
}

func unreadable(p string, err error) *tools.Error {
	return &tools.Error{Kind: KindUnsafePath, Message: fmt.Sprintf("%s cannot be read: %v", visible(p), cause(err)), Details: map[string]any{"path": p},
		RecoveryHint: "check the path and its permissions with ls -ld"}
}

func changedMeanwhile(p string) *tools.Error {
	return &tools.Error{Kind: KindWrite, Message: visible(p) + " was changed by something else at the same moment; nothing was changed by the patch", Retryable: true,
		Details: map[string]any{"path": p}, RecoveryHint: "read the file again and repeat the call"}
}

// cause takes the operation and the path off an error that is shown with a path.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}
