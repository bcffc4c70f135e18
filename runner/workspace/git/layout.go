package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"holon/internal/folder"
	"holon/internal/visible"

	"golang.org/x/sys/unix"
)

// A Layout says where the parts of a user's repository lie. Every path is absolute and free of links below
// the repository's top level. A prepared directory, such as an unpacked archive, can't lead to a repository or to
// objects elsewhere: the other side has to name the directory back.
type Layout struct {
	Top       string   // of the working tree
	Prefix    string   // of the named directory within top, slash-separated, "" for top
	GitDir    string   // HEAD and index of this working tree
	CommonDir string   // refs, objects, config; equals gitDir but in a linked worktree
	Objects   string   // commonDir's object directory
	borrowed  []string // object directories reached by alternates, transitively, in git's order, checked

	ownTop string // of the main working tree or the superproject: what may be borrowed from lies within
}

// Stores lists the object directories that the repository reads, its own first.
func (l *Layout) Stores() []string { return append([]string{l.Objects}, l.borrowed...) }

// Borrowing says what repositories may borrow objects from beyond their own top-level directory.
type Borrowing struct {
	Allow     []string `json:"allow,omitempty"` // directories that alternates may name, or that hold such
	StateHome string   `json:"state_home"`      // nothing is borrowed from there, even if Allow has it; "" for none
}

// discover finds the repository that dir belongs to; nil for a plain directory. No git process runs and no
// configuration of the repository takes effect. Errors are *Error.
func discover(dir string, borrowing Borrowing) (*Layout, error) {
	dir, err := RealDirectory(dir)
	if err != nil {
		return nil, WithCode("find the repository", err)
	}
	l, err := findAbove(dir)
	if l == nil || err != nil {
		return nil, err
	}
	if l.Prefix, err = filepath.Rel(l.Top, dir); err != nil {
		return nil, WithCode("find the repository", err)
	}
	if l.Prefix == "." {
		l.Prefix = ""
	}
	if err := l.borrow(borrowing); err != nil {
		return nil, err
	}
	return l, nil
}

// findAbove finds the repository whose working tree contains dir. The path of dir has no links.
func findAbove(dir string) (*Layout, error) {
	for top := dir; ; top = filepath.Dir(top) {
		if filepath.Base(top) == ".git" {
			return nil, withoutWorkingTree(dir)
		}
		if l, err := layoutOf(top); l != nil || err != nil {
			return l, err
		}
		if top == filepath.Dir(top) {
			return nil, nil
		}
	}
}

func withoutWorkingTree(dir string) error {
	return &Error{Code: CodeBareRepository, Param: dir, Message: dir + " is a repository without a working tree here",
		Hint: "clone it, or name its working tree"}
}

// CheckBare refuses a directory that looks like a repository without a working tree.
func CheckBare(dir string) error {
	if resemblesRepository(dir) {
		return withoutWorkingTree(dir)
	}
	return nil
}

// layoutOf returns the repository whose .git lies in top; nil when there is none.
func layoutOf(top string) (*Layout, error) {
	l := &Layout{Top: top, ownTop: top}
	dot := filepath.Join(top, ".git")
	info, err := os.Lstat(dot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(dot, err)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if !resemblesRepository(dot) { // git passes over it too
			return nil, nil
		}
		if err := checkOwners(top, dot); err != nil {
			return nil, err
		}
		l.GitDir, l.CommonDir = dot, dot
		if Exists(filepath.Join(dot, "commondir")) {
			return nil, leadsElsewhere(filepath.Join(dot, "commondir"), "another git directory")
		}
		err = l.checkHere()
	case 0, fs.ModeSymlink:
		if err := checkOwners(top, dot); err != nil {
			return nil, err
		}
		err = l.follow(dot)
	default:
		err = unreadable(dot, folder.ErrNotRegular)
	}
	if err == nil {
		err = l.checkParts()
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// resemblesRepository reports whether dir has what git looks for in a .git directory.
func resemblesRepository(dir string) bool {
	return Exists(filepath.Join(dir, "HEAD")) && (Exists(filepath.Join(dir, "commondir")) ||
		Exists(filepath.Join(dir, "objects")) && Exists(filepath.Join(dir, "refs")))
}

// checkHere refuses an ordinary repository whose configuration says that its working tree is elsewhere or that it has
// none: its index would describe other files. Configuration that can't be read is ignored here.
func (l *Layout) checkHere() error {
	worktree, bare, err := readCore(l.GitDir)
	if err != nil {
		return nil
	}
	if bare || worktree != "" && !leadsTo(absoluteFrom(l.GitDir, worktree), l.Top) {
		return withoutWorkingTree(l.Top)
	}
	return nil
}

// checkParts checks the directories that are read: ours, and in their place.
func (l *Layout) checkParts() error {
	l.Objects = filepath.Join(l.CommonDir, "objects")
	parts := []string{l.GitDir, l.CommonDir, l.Objects, filepath.Join(l.CommonDir, "refs")}
	for _, dir := range parts {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
			return unreadable(dir, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return &Error{Code: codeLeadsElsewhere, Param: dir, Message: "the repository's " + dir + " is a link",
				Hint: "replace it by what it leads to"}
		case !info.IsDir():
			return unreadable(dir, errNotDirectory)
		}
	}
	head := filepath.Join(l.GitDir, "HEAD")
	if info, err := os.Lstat(head); err != nil {
		return unreadable(head, err)
	} else if !info.Mode().IsRegular() {
		return unreadable(head, folder.ErrNotRegular)
	}
	return checkOwners(parts...)
}

// checkOwners refuses paths that belong to a user other than the caller and root. Git's safe.directory has no effect.
func checkOwners(paths ...string) error {
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return unreadable(path, err)
		}
		if !trustedOwner(st.Uid) {
			return &Error{Code: codeUnsafeOwnership, Param: path,
				Message: fmt.Sprintf("%s belongs to another user (uid %d)", path, st.Uid),
				Hint: "run as its owner, or `chown` the repository if it is yours; safe.directory does " +
					"not count here"}
		}
	}
	return nil
}

// trustedOwner reports whether uid is the caller, root, or the user that became root with sudo.
func trustedOwner(uid uint32) bool {
	caller := os.Geteuid()
	if uid == 0 || int(uid) == caller {
		return true
	}
	sudo, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	return caller == 0 && err == nil && uint64(uid) == sudo
}

// leadsTo reports whether path, links resolved, is the directory top.
func leadsTo(path, top string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err == nil && real == top
}

// beneath reports whether path lies strictly within dir; both are clean.
func beneath(dir, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// unreadable is the error for a part of a repository that can't be read or has the wrong type.
func unreadable(path string, err error) error {
	e := &Error{Code: CodeBrokenRepository, Param: path, Message: "the repository's " + path + " can't be read",
		Err:  err,
		Hint: "`git fsck` there shows the fault"}
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		e.Code, e.Hint = CodePermission, "check the owner and the permissions of the path"
	}
	return e
}

// leadsElsewhere is the error for a file or link to another repository that does not name this directory back.
func leadsElsewhere(file, target string) error {
	return &Error{Code: codeLeadsElsewhere, Param: file,
		Message: file + " leads to " + target + ", which does not name this directory back",
		Hint:    "clone that repository; if this is a working tree of it that moved, run `git worktree repair` here"}
}

// maxShownPath bounds what an error shows of a path that somebody gave, in bytes.
const maxShownPath = 300

// isLoop reports whether links lead to one another. filepath.EvalSymlinks says that in words of its own.
func isLoop(err error) bool {
	return errors.Is(err, syscall.ELOOP) || err != nil && err.Error() == "EvalSymlinks: too many links"
}

// RealDirectory returns the absolute path of a directory with links resolved. What is no directory is
// CodeNotADirectory.
func RealDirectory(path string) (string, error) {
	if path == "" {
		return "", InvalidOption("Dir", "no directory is named")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(absolute)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	reason := "is not a directory"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "does not exist"
	case errors.Is(err, syscall.ENOTDIR):
		reason = "leads through something that is not a directory"
	case errors.Is(err, syscall.ENAMETOOLONG):
		reason = "is too long for a path"
	case isLoop(err):
		reason = "leads through a loop of links"
	case err != nil:
		return "", err
	case info.IsDir():
		return real, nil
	}
	path = visible.Clip(path, maxShownPath)
	return "", &Error{Code: CodeNotADirectory, Param: path, Message: "the workspace " + path + " " + reason,
		Hint: "name an existing directory"}
}

// Within reports whether path is top or lies beneath it, links resolved as far as path exists.
func Within(top, path string) bool {
	for rest := ""; ; {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = filepath.Join(real, rest)
			break
		}
		parent := filepath.Dir(path)
		if parent == path {
			break
		}
		rest, path = filepath.Join(filepath.Base(path), rest), parent
	}
	relative, err := filepath.Rel(top, path)
	return err == nil && filepath.IsLocal(relative)
}

var errNotDirectory = errors.New("not a directory")

// LayoutOfGitDir returns the layout of a repository as seen from its git directory.
func LayoutOfGitDir(commonDir string, borrowing Borrowing) (*Layout, error) {
	l := &Layout{Top: commonDir, GitDir: commonDir, CommonDir: commonDir, ownTop: homeOf(commonDir)}
	if err := l.checkParts(); err != nil {
		return nil, err
	}
	return l, l.borrow(borrowing)
}
