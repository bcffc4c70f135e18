package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// userRepository is the git repository a Source stands on. Everything here
// only reads it.
type userRepository struct {
	repositoryLayout
	borrowing Borrowing // for submodules
	format    objectFormat

	branch               string // empty when detached
	headCommit, headTree string // empty on an unborn branch; the tree is known after loadHeadTree

	// Of the configuration and what lies next to it; see loadSettings.
	settings, attributes, sparse, shallow string // for a view
	userName, userEmail                   string
	shared                                string // core.sharedRepository
	excludes                              string // ignore patterns that lie outside the tree, lowest precedence first

	references []byte // branches, tags and remote branches, as a packed-refs file
	status     repositoryStatus
}

// maxSmallFile bounds what is read of files that are small by nature.
const maxSmallFile = 1 << 20

// locate finds the repository that dir belongs to; nil for a plain directory.
func locate(ctx context.Context, dir string, borrowing Borrowing) (*userRepository, error) {
	layout, err := discover(dir, borrowing)
	if layout == nil || err != nil {
		return nil, err
	}
	return openUser(ctx, layout, borrowing)
}

// openUser reads what is read of a repository without git.
func openUser(ctx context.Context, layout *repositoryLayout, borrowing Borrowing) (*userRepository, error) {
	user := &userRepository{repositoryLayout: *layout, borrowing: borrowing}
	if err := user.loadSettings(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return user, user.readHead()
}

func (u *userRepository) index() string { return filepath.Join(u.gitDir, "index") }

// checkSize refuses a snapshot that would copy more than limit bytes.
func (u *userRepository) checkSize(untracked []string, limit int64) error {
	var sum int64
	for _, path := range untracked {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(u.top, path), &st) == nil {
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

// readSmall returns the lines of a file of the user's, ended by a newline, and
// nothing when it can't be read or is not small.
func readSmall(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSmallFile+1))
	if err != nil || len(data) > maxSmallFile || len(data) == 0 {
		return ""
	}
	return string(bytes.TrimSuffix(data, []byte("\n"))) + "\n"
}

// snapshot builds the tree of the files as they are now and returns its id.
// The index is a copy and the objects go into `into`, so the repository itself
// is not written. No filter is run: a file is taken as it is on disk, but for
// line endings.
func (u *userRepository) snapshot(ctx context.Context, into repository, scratch string) (_ string, err error) {
	v, err := u.view(filepath.Join(scratch, "view"))
	defer func() { err = errors.Join(err, os.RemoveAll(v.dir)) }()
	if err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	index := filepath.Join(v.dir, "index")
	if err := u.copyIndex(index); err != nil {
		return "", err
	}
	// Readable for the container's user, whatever the umask.
	g := v.inTree(index).with("GIT_OBJECT_DIRECTORY=" + into.objects()).withConfig("core.sharedRepository=0644")
	add := []string{"add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"}
	if u.status.withoutUntracked {
		add[1] = "--update"
	}
	// Git would look into other repositories, with their configuration.
	paths := ":(top)\x00"
	for _, path := range slices.Concat(u.status.nested, u.status.gitlinks) {
		paths += ":(top,exclude,literal)" + path + "\x00"
	}
	if _, err := g.run(ctx, strings.NewReader(paths), add...); err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	if len(u.status.moved) > 0 {
		moved := strings.NewReader(strings.Join(u.status.moved, ""))
		if _, err := g.run(ctx, moved, "update-index", "-z", "--index-info"); err != nil {
			return "", fmt.Errorf("take snapshot: %w", err)
		}
	}
	tree, err := g.line(ctx, "write-tree")
	if err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
	}
	return tree, nil
}

// copyFile copies to a name that does not exist or is ours.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

func absoluteFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
