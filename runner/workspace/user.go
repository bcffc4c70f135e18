package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"golang.org/x/sys/unix"
)

// userRepository is the git repository a Source stands on. Everything here
// only reads it.
type userRepository struct {
	top       string // of the working tree
	prefix    string // of the directory the user named, within top
	gitDir    string
	commonDir string
	objects   string
	index     string
	format    objectFormat
	shallow   bool

	claimed              *gogit.Repository // where this was read with go-git and git has yet to agree
	branch               string            // claimed; empty when detached
	headCommit, headTree string            // empty on an unborn branch

	userName, userEmail string
	references          []byte   // branches, tags and remote branches, as a packed-refs file
	excludes            string   // ignore patterns that lie outside the tree, lowest precedence first
	nested              []string // untracked repositories, left out of a snapshot
}

// maxSmallFile bounds what is read of files that are small by nature.
const maxSmallFile = 1 << 20

// locate finds the repository that dir belongs to; nil for a plain directory.
func locate(ctx context.Context, dir string) (*userRepository, error) {
	out, err := userGit(dir).run(ctx, nil, "rev-parse", "--path-format=absolute", "--is-bare-repository",
		"--is-inside-work-tree", "--git-dir", "--git-common-dir", "--git-path", "objects", "--git-path", "index",
		"--show-object-format", "--is-shallow-repository", "--show-toplevel", "--show-prefix",
		"--revs-only", "HEAD^{commit}", "HEAD^{tree}") // prints nothing for these on an unborn branch
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) >= 2 && lines[1] == "false" {
		return nil, &Error{Code: CodeBareRepository, Param: dir, Message: dir + " is a repository without a working tree here",
			Hint: "clone it, or name its working tree"}
	}
	if err != nil {
		return nil, locateError(dir, err)
	}
	if len(lines) != 10 && len(lines) != 12 {
		return nil, &Error{Code: CodeBrokenRepository, Param: dir, Message: "the repository's paths can't be read",
			Hint: "a newline in a path is not supported"}
	}
	user := &userRepository{gitDir: lines[2], commonDir: lines[3], objects: lines[4], index: lines[5],
		format: objectFormat(lines[6]), shallow: lines[7] == "true", top: lines[8], prefix: strings.TrimSuffix(lines[9], "/")}
	if user.format != formatSHA1 && user.format != formatSHA256 {
		return nil, &Error{Code: CodeBrokenRepository, Param: dir, Message: "the object format " + lines[6] + " is unknown"}
	}
	if len(lines) == 12 {
		user.headCommit, user.headTree = lines[10], lines[11]
	}
	return user, nil
}

// locateError decides whether git's refusal means a plain directory, for
// which it is nil, or a repository with a fault.
func locateError(dir string, err error) error {
	failed, ok := errors.AsType[*gitError](err)
	if !ok || failed.cause != nil {
		return err
	}
	switch {
	case strings.HasPrefix(failed.stderr, "fatal: not a git repository (or any"):
		return nil
	case strings.Contains(failed.stderr, "dubious ownership"):
		return &Error{Code: CodeUnsafeOwnership, Param: dir, Message: "the repository at " + dir + " belongs to another user",
			Hint: "run as its owner, or `git config --global --add safe.directory " + dir + "`"}
	}
	return &Error{Code: CodeBrokenRepository, Param: dir, Err: err, Message: "git can't read the repository at " + dir,
		Hint: "`git status` there shows the fault"}
}

func (u *userRepository) git() git { return userGit(u.top) }

// repositoryStatus is what git status tells.
type repositoryStatus struct {
	commit     string // of HEAD, empty when unborn
	branch     string // empty when detached
	unborn     bool
	dirty      bool
	untracked  []string // files
	nested     []string // untracked directories that are repositories
	submodules []string // with changes inside
}

// status reads `git status --porcelain=v2 -z`. lfs is where a filter may store
// what it makes of changed files, so that it doesn't store it in the user's.
func (u *userRepository) status(ctx context.Context, lfs string) (repositoryStatus, error) {
	out, err := u.git().withConfig("lfs.storage="+lfs).run(ctx, nil, "status", "--porcelain=v2", "-z", "--branch",
		"--no-renames", "--no-ahead-behind", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil {
		return repositoryStatus{}, fmt.Errorf("read status: %w", err)
	}
	return parseStatus(out), nil
}

func parseStatus(out []byte) repositoryStatus {
	var s repositoryStatus
	for line := range bytes.SplitSeq(out, []byte{0}) {
		text := string(line)
		if head, ok := strings.CutPrefix(text, "# branch.head "); ok && head != "(detached)" {
			s.branch = head
		}
		if commit, ok := strings.CutPrefix(text, "# branch.oid "); ok {
			if s.unborn = commit == "(initial)"; !s.unborn {
				s.commit = commit
			}
		}
		if text == "" || text[0] == '#' {
			continue
		}
		s.dirty = true
		if path, untracked := strings.CutPrefix(text, "? "); untracked {
			if nested, ok := strings.CutSuffix(path, "/"); ok {
				s.nested = append(s.nested, nested)
			} else {
				s.untracked = append(s.untracked, path)
			}
		}
		// "1 XY sub mH mI mW hH hI path"; sub is S and three flags, M and U for changes within.
		if fields := strings.SplitN(text, " ", 9); len(fields) == 9 && fields[0] == "1" &&
			strings.HasPrefix(fields[2], "S") && strings.ContainsAny(fields[2], "MU") {
			s.submodules = append(s.submodules, fields[8])
		}
	}
	return s
}

func (s repositoryStatus) checkSubmodules() error {
	if len(s.submodules) == 0 {
		return nil
	}
	return &Error{Code: CodeDirtySubmodule, Param: s.submodules[0], Paths: s.submodules,
		Message: fmt.Sprintf("the submodule %q has uncommitted changes, which the workspace can't include", s.submodules[0]),
		Hint:    "commit or stash them there, or run without uncommitted changes (--include-dirty=false)"}
}

// checkSize refuses a snapshot that would copy more than limit bytes.
func (u *userRepository) checkSize(untracked []string, limit int64) error {
	var sum int64
	for _, path := range untracked {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(u.top, path), &st) == nil {
			sum += st.Size
		}
		if sum > limit {
			return &Error{Code: CodeTooLarge, Param: path, Message: fmt.Sprintf("the untracked files are larger than %d bytes", limit),
				Hint: "list them in .gitignore, or run without uncommitted changes (--include-dirty=false)"}
		}
	}
	return nil
}

// loadSettings reads the few settings that the agent's repository takes over.
func (u *userRepository) loadSettings(ctx context.Context) error {
	out, err := u.git().run(ctx, nil, "config", "-z", "--get-regexp", `^(user\.name|user\.email|core\.excludesfile)$`)
	if failed, ok := errors.AsType[*gitError](err); err != nil && (!ok || failed.exit != 1) {
		return fmt.Errorf("read configuration: %w", err)
	}
	excludes := ""
	for setting := range strings.SplitSeq(string(out), "\x00") {
		name, value, _ := strings.Cut(setting, "\n")
		switch name {
		case "user.name":
			u.userName = value
		case "user.email":
			u.userEmail = value
		case "core.excludesfile":
			excludes = value
		}
	}
	if excludes, err = u.excludesFile(ctx, excludes); err != nil {
		return err
	}
	u.excludes = readSmall(excludes) + readSmall(filepath.Join(u.commonDir, "info", "exclude"))
	return nil
}

// excludesFile returns the path of the user's global ignore file.
func (u *userRepository) excludesFile(ctx context.Context, value string) (string, error) {
	switch {
	case strings.HasPrefix(value, "~"):
		return u.git().line(ctx, "config", "--type=path", "--get", "core.excludesFile")
	case value != "":
		if !filepath.IsAbs(value) {
			value = filepath.Join(u.top, value)
		}
		return value, nil
	}
	config, err := os.UserConfigDir() // git's default, $XDG_CONFIG_HOME/git/ignore
	if err != nil {
		return "", nil
	}
	return filepath.Join(config, "git", "ignore"), nil
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
// is not written. Filters of the user's configuration run, as in `git add`.
func (u *userRepository) snapshot(ctx context.Context, into repository, scratch, lfs string) (string, error) {
	index := filepath.Join(scratch, "snapshot.index")
	if err := copyFile(u.index, index); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("copy index: %w", err)
	}
	defer os.Remove(index)
	add := []string{"add", "--all", "--", "."}
	for _, path := range u.nested {
		add = append(add, ":(top,exclude,literal)"+path)
	}
	g := u.git().with("GIT_INDEX_FILE="+index, "GIT_OBJECT_DIRECTORY="+into.objects(), alternatesVariable([]string{u.objects})).
		withConfig("lfs.storage="+lfs, "core.sharedRepository=0644") // readable for the container's user, whatever the umask
	if _, err := g.run(ctx, nil, add...); err != nil {
		return "", fmt.Errorf("take snapshot: %w", err)
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

// loadReferences lists what the agent's repository shows of the user's.
func (u *userRepository) loadReferences(ctx context.Context) error {
	out, err := u.git().run(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)",
		"refs/heads", "refs/tags", "refs/remotes")
	if err != nil {
		return fmt.Errorf("list references: %w", err)
	}
	u.references = append([]byte(packedHeader), out...)
	return nil
}

// packedHeader begins a packed-refs file whose lines are sorted.
const packedHeader = "# pack-refs with: sorted \n"

// submoduleObjects returns the object directory of an initialised submodule of
// the user's, empty when there is none.
func (u *userRepository) submoduleObjects(path string) string {
	_, commonDir := gitDirectories(filepath.Join(u.top, path))
	objects := filepath.Join(commonDir, "objects")
	if info, err := os.Stat(objects); err != nil || !info.IsDir() {
		return ""
	}
	return objects
}
