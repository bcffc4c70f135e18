package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/folder"

	"golang.org/x/sys/unix"
)

// UserRepository is a user's git repository. Its methods only read it.
type UserRepository struct {
	Layout
	borrowing Borrowing // for submodules
	Format    ObjectFormat

	Branch               string // empty when detached
	HeadCommit, HeadTree string // empty on an unborn branch; the tree is known after loadHeadTree

	// Of the configuration and what lies next to it; see loadSettings.
	settings, attributes, sparse, Shallow string // for a view
	UserName, UserEmail                   string
	shared                                string // core.sharedRepository
	Excludes                              string // ignore patterns that lie outside the tree, lowest precedence first

	SeeIgnored bool   // LoadStatus also lists what is ignored
	References []byte // branches, tags and remote branches, as a packed-refs file
	Status     status
}

// maxSmallFile bounds what is read of files that are small by nature.
const maxSmallFile = 1 << 20

// Locate finds the repository that dir belongs to; nil for a plain directory.
func Locate(ctx context.Context, dir string, borrowing Borrowing) (*UserRepository, error) {
	layout, err := discover(dir, borrowing)
	if layout == nil || err != nil {
		return nil, err
	}
	return OpenUser(ctx, layout, borrowing)
}

// OpenUser reads the parts of a repository that need no git process.
func OpenUser(ctx context.Context, layout *Layout, borrowing Borrowing) (*UserRepository, error) {
	user := &UserRepository{Layout: *layout, borrowing: borrowing}
	if err := user.loadSettings(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return user, user.readHead()
}

func (u *UserRepository) Index() string { return filepath.Join(u.GitDir, "index") }

// CheckSize refuses a snapshot that would copy more than limit bytes, with those of submodules.
func (u *UserRepository) CheckSize(limit int64) error {
	untracked := slices.Clone(u.Status.Untracked)
	for _, m := range u.Status.Modified {
		for _, path := range m.User.Status.Untracked {
			untracked = append(untracked, folder.Join(m.Path, path))
		}
	}
	var sum int64
	for _, path := range untracked {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(u.Top, path), &st) == nil {
			sum += st.Size
		}
		if sum > limit {
			return &Error{Code: CodeTooLarge, Param: path,
				Message: fmt.Sprintf("the untracked files are larger than %d bytes", limit),
				Hint:    "list them in .gitignore, or run without uncommitted changes (--include-dirty=false)"}
		}
	}
	return nil
}

// Snapshot builds the tree of the files as they are now and returns its id. It works on a copy of the index
// and writes the objects to into, so the repository itself is not written. No filter runs: except for line
// endings, a file is taken as it is on disk.
func (u *UserRepository) Snapshot(ctx context.Context, into Repository, scratch string) (_ string, err error) {
	dir := filepath.Join(scratch, "view")
	if err := os.RemoveAll(dir); err != nil { // of a process that was killed
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	v, err := u.View(dir)
	defer func() { err = errors.Join(err, os.RemoveAll(v.Dir)) }()
	if err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	index := filepath.Join(v.Dir, "index")
	if err := u.CopyIndex(index); err != nil {
		return "", err
	}
	// The container's user must be able to read the objects, whatever the umask.
	g := v.InTree(index).With("GIT_OBJECT_DIRECTORY=" + into.Objects()).WithConfig("core.sharedRepository=0644")
	add := []string{"add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"}
	if u.Status.WithoutUntracked {
		add[1] = "--update"
	}
	// Otherwise git would look into other repositories, with their configuration.
	paths := ":(top)\x00"
	for _, path := range slices.Concat(u.Status.Nested, u.Status.Gitlinks, u.Status.pointers) {
		paths += ":(top,exclude,literal)" + path + "\x00"
	}
	if _, err := g.Run(ctx, strings.NewReader(paths), add...); err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	if len(u.Status.moved) > 0 {
		moved := strings.NewReader(strings.Join(u.Status.moved, ""))
		if _, err := g.Run(ctx, moved, "update-index", "-z", "--index-info"); err != nil {
			return "", fmt.Errorf("take snapshot: %w", err)
		}
	}
	tree, err := g.Line(ctx, "write-tree")
	if err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	return tree, nil
}
