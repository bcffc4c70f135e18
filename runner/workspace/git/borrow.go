package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/gitname"
	"holon/internal/pattern"
)

// Bounds on borrowing. Git follows alternates of alternates as deep.
const (
	MaxAlternates   = 64 // object directories in all
	maxBorrowDepth  = 5
	maxStoreEntries = 4 << 20 // of one object directory
)

// borrow checks the repository's own objects and collects those that it borrows. They are shown to the agent, so they
// hold objects only, and none of another repository unless the operator allows it.
func (l *Layout) borrow(borrowing Borrowing) error {
	if err := checkStore(l.Objects); err != nil {
		return err
	}
	return l.borrowFrom(l.Objects, 0, borrowing)
}

// borrowFrom follows the alternates of one object directory, depth first as git does.
func (l *Layout) borrowFrom(objects string, depth int, borrowing Borrowing) error {
	file := filepath.Join(objects, "info", "alternates")
	data, err := durable.ReadFile(file, maxSmallFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unreadable(file, err)
	}
	paths, err := parseAlternates(data)
	if err != nil {
		return unreadable(file, err)
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = objects + "/" + path // not joined: a link before ".." counts
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return unreadable(file, err)
		}
		if real == l.Objects || slices.Contains(l.borrowed, real) {
			continue
		}
		if depth == maxBorrowDepth || len(l.borrowed) == MaxAlternates {
			return unreadable(file, errors.New("objects are borrowed from too many repositories in turn"))
		}
		if err := l.mayBorrow(file, path, real, borrowing); err != nil {
			return err
		}
		l.borrowed = append(l.borrowed, real)
		if err := l.borrowFrom(real, depth+1, borrowing); err != nil {
			return err
		}
	}
	return nil
}

// mayBorrow decides about one object directory that file names as path.
func (l *Layout) mayBorrow(file, path, real string, borrowing Borrowing) error {
	refused := func(why string) error {
		return &Error{Code: codeForeignObjects, Param: file,
			Message: fmt.Sprintf("%s borrows objects from %s, %s", file, path, why),
			Hint:    "run `git repack -a -d` there and remove the file, or add the directory to allow_alternates"}
	}
	switch {
	case throughLink(path):
		return refused("which is reached through a link")
	case borrowing.StateHome != "" && Within(borrowing.StateHome, real):
		return refused("which belongs to holon")
	case !beneath(l.ownTop, real) && !borrowing.allows(real):
		return refused("which is outside of " + l.ownTop)
	}
	if err := checkOwners(real); err != nil {
		return err
	}
	return checkStore(real)
}

// throughLink reports whether a component of an absolute path is a link, be it undone by a later "..".
func throughLink(path string) bool {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if info, err := os.Lstat(path[:i]); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// allows reports whether the operator lets repositories borrow from a directory.
func (b Borrowing) allows(real string) bool {
	return slices.ContainsFunc(b.Allow, func(dir string) bool {
		allowed, err := filepath.EvalSymlinks(dir)
		return err == nil && (real == allowed || beneath(allowed, real))
	})
}

// quotedAlternate is a path that git unquotes; \x and such it would not.
var quotedAlternate = pattern.Lazy(`^"([^"\\]|\\[abfnrtv"\\]|\\[0-3][0-7]{2})*"$`)

// parseAlternates returns the paths that an alternates file names.
func parseAlternates(data []byte) ([]string, error) {
	var paths []string
	for line := range strings.SplitSeq(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			unquoted, err := strconv.Unquote(line)
			if err != nil || !quotedAlternate().MatchString(line) || !utf8.ValidString(line) {
				return nil, fmt.Errorf("%.100q is not a path", line)
			}
			line = unquoted
		}
		if line == "" || strings.IndexByte(line, 0) >= 0 || len(line) > gitname.MaxPath {
			return nil, fmt.Errorf("%.100q is not a path", line)
		}
		if paths = append(paths, line); len(paths) > MaxAlternates {
			return nil, fmt.Errorf("more than %d paths", MaxAlternates)
		}
	}
	return paths, nil
}

// checkStore checks that a directory has the layout of an object store and holds nothing else: no link, socket, pipe
// or device, and no file with a name that git never uses there. Git checks the content of the files.
func checkStore(objects string) error {
	s := store{top: objects}
	return s.check("")
}

// store is a check that is under way.
type store struct {
	top     string
	entries int
}

func (s *store) check(dir string) error {
	path := filepath.Join(s.top, dir)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && dir != "" {
		return nil // git removed it meanwhile
	}
	if err != nil {
		return unreadable(path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unreadable(path, err)
		}
		if s.entries += len(entries); s.entries > maxStoreEntries {
			return &Error{Code: CodeTooLarge, Param: s.top, Hint: "run `git gc` there",
				Message: fmt.Sprintf("%s holds more than %d files", s.top, maxStoreEntries)}
		}
		for _, e := range entries {
			if err := s.entry(dir, e); err != nil {
				return err
			}
		}
	}
}

func (s *store) entry(dir string, e fs.DirEntry) error {
	if e.Type().IsRegular() && isObjectFile(dir, e.Name()) {
		return nil
	}
	name := folder.Join(dir, e.Name())
	if e.IsDir() && storeDirectory().MatchString(name) {
		return s.check(name)
	}
	path := filepath.Join(s.top, name)
	return &Error{Code: codeForeignObjects, Param: path,
		Message: fmt.Sprintf("%s holds %q, which is not part of an object store", s.top, name),
		Hint:    "remove it, or clone the repository anew"}
}

// Names that git gives to what it keeps in an object directory.
var (
	storeDirectory = pattern.Lazy(`^([0-9a-f]{2}|pack|pack/multi-pack-index\.d|info|info/commit-graphs)$`)
	storeFiles     = map[string]func() *regexp.Regexp{
		"":                        pattern.Lazy(`^(tmp_obj_.*|loose-object-idx|.*\.lock)$`),
		"pack/multi-pack-index.d": pattern.Lazy(`^(multi-pack-index.*|tmp_.*)$`),
		"pack": pattern.Lazy(`^((pack|loose)-[0-9a-f]+\.(pack|idx|rev|bitmap|mtimes|keep|promisor)|` +
			`multi-pack-index.*|\.?tmp[-_].*)$`),
		"info":               pattern.Lazy(`^((http-)?alternates|packs(_.*)?|commit-graph|.*\.lock)$`),
		"info/commit-graphs": pattern.Lazy(`^(commit-graph-chain(\.lock)?|graph-[0-9a-f]+\.graph|tmp_.*)$`),
	}
)

// isObjectFile reports whether git may have made the file name in a directory of an object store.
func isObjectFile(dir, name string) bool {
	if files := storeFiles[dir]; files != nil {
		return files().MatchString(name)
	}
	return IsLooseObject(name) || strings.HasPrefix(name, "tmp_obj_")
}

// IsLooseObject reports whether git gives a loose object that name in its directory.
func IsLooseObject(name string) bool {
	return (len(name) == 38 || len(name) == 62) && strings.Trim(name, "0123456789abcdef") == ""
}
