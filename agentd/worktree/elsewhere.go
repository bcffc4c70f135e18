package worktree

import (
	"errors"
	"io"
	"path"
	"regexp"

	"golang.org/x/sys/unix"

	"holon/internal/folder"
)

// leadsElsewhere reports whether git would change something outside of a copy if the entry were in it: a .git that is a
// file or a link, or has links or a configuration that name another place, and what a repository knows of its linked
// working trees.
func leadsElsewhere(from folder.Dir, dir, name string, st *unix.Stat_t) bool {
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case path.Base(dir) == ".git":
		return name == "worktrees"
	case name != ".git":
		return false
	case !isDir:
		return true
	}
	git, err := from.Sub(name)
	if err != nil {
		return true
	}
	defer git.Close()
	return linked(git, "", 0) || namesElsewhere(git, "config") || namesElsewhere(git, "config.worktree")
}

// linked reports whether a directory of a repository, hooks apart, has a symbolic link or the file that names the
// repository which it shares.
func linked(dir folder.Dir, at string, depth int) bool {
	found := depth > maxDepth
	err := dir.List(func(names []string) error {
		for _, name := range names {
			st, err := dir.Lstat(name)
			switch {
			case err != nil:
				return err
			case st.Mode&unix.S_IFMT == unix.S_IFLNK, at == "" && name == "commondir":
				found = true
			case st.Mode&unix.S_IFMT == unix.S_IFDIR && !(at == "" && (name == "hooks" || name == "worktrees")):
				sub, err := dir.Sub(name)
				if err != nil {
					return err
				}
				found = linked(sub, folder.Join(at, name), depth+1)
				sub.Close()
			}
			if found {
				return errFound
			}
		}
		return nil
	})
	return found || err != nil
}

// errFound ends a listing.
var errFound = errors.New("found")

// elsewhere matches settings of git that name a working tree, and those that take in other files.
var elsewhere = regexp.MustCompile(`(?im)(^|[\s\]])worktree[ \t]*=|\[[ \t]*include`)

// maxConfig bounds a configuration of git that is looked at, in bytes.
const maxConfig = 1 << 20

func namesElsewhere(git folder.Dir, name string) bool {
	f, _, err := git.OpenFile(name)
	if errors.Is(err, unix.ENOENT) {
		return false
	}
	if err != nil {
		return true
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	return err != nil || len(data) > maxConfig || elsewhere.Match(data)
}
