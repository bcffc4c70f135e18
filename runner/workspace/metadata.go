package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
)

// readMetadata reads with go-git what locate asks the git program for, and
// leaves the rest open to loadClaimed; both save processes. It serves a directory that is the
// top of an ordinary working tree or of a linked one. Everything that go-git
// can't read or might read differently (sha256, extensions such as
// worktreeConfig and reftable, core.worktree, directories further down, plain
// and bare ones, damage) is an error, and the program's to judge.
//
// What it returns is a claim: the owner was not checked, and go-git believes
// things that git does not. It counts once `git status` agrees about HEAD.
func readMetadata(dir string) (*userRepository, error) {
	user, err := readDirectories(dir)
	if err != nil {
		return nil, err
	}
	// Without the common directory, go-git opens a linked working tree without
	// an error and finds neither its branch nor any object.
	repo, err := gogit.PlainOpenWithOptions(dir, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	settings, err := repo.Config()
	if err != nil {
		return nil, fmt.Errorf("read repository's configuration: %w", err)
	}
	if err := checkOrdinary(settings); err != nil {
		return nil, err
	}
	user.claimed = repo
	return user, user.readHead()
}

// confirm refuses metadata that git contradicts, be it because go-git erred or
// because somebody committed meanwhile.
func (u *userRepository) confirm(status repositoryStatus) error {
	if u.claimed != nil && (status.branch != u.branch || status.commit != u.headCommit) {
		return fmt.Errorf("HEAD is %.100q at %q, git says %.100q at %q", u.branch, u.headCommit, status.branch, status.commit)
	}
	u.claimed = nil
	return nil
}

// errUnusual is a repository that go-git might read differently than git does.
var errUnusual = errors.New("not a plain repository of a plain working tree")

// readDirectories finds the parts of the repository whose .git lies in dir.
func readDirectories(dir string) (*userRepository, error) {
	dot, err := os.Lstat(filepath.Join(dir, ".git"))
	if err != nil {
		return nil, err
	}
	if !dot.IsDir() && !dot.Mode().IsRegular() || strings.Contains(dir, "\n") {
		return nil, errUnusual
	}
	user := &userRepository{top: dir, format: formatSHA1}
	gitDir, commonDir := gitDirectories(dir)
	if user.gitDir, err = filepath.EvalSymlinks(gitDir); err != nil {
		return nil, err
	}
	if user.commonDir, err = filepath.EvalSymlinks(commonDir); err != nil {
		return nil, err
	}
	if user.objects, err = filepath.EvalSymlinks(filepath.Join(commonDir, "objects")); err != nil {
		return nil, err
	}
	// Git passes over a .git that lacks these and looks further up.
	for _, path := range []string{user.objects, filepath.Join(user.commonDir, "refs")} {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, errUnusual
		}
	}
	user.index = filepath.Join(user.gitDir, "index")
	_, err = os.Stat(filepath.Join(user.commonDir, "shallow"))
	user.shallow = err == nil
	return user, nil
}

// gitDirectories resolves the .git of a working tree and, when it is a linked
// one, the directory it shares with others. Nothing is known to exist.
func gitDirectories(top string) (gitDir, commonDir string) {
	gitDir = filepath.Join(top, ".git")
	if link, ok := strings.CutPrefix(readSmall(gitDir), "gitdir: "); ok {
		gitDir = absoluteFrom(top, strings.TrimRight(link, "\n"))
	}
	commonDir = gitDir
	if common := strings.TrimRight(readSmall(filepath.Join(gitDir, "commondir")), "\n"); common != "" {
		commonDir = absoluteFrom(gitDir, common)
	}
	return gitDir, commonDir
}

func absoluteFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// checkOrdinary refuses what makes git look elsewhere; extensions that go-git
// doesn't know it refused itself.
func checkOrdinary(settings *config.Config) error {
	if settings.Core.IsBare || settings.Core.Worktree != "" || settings.Raw.HasSection("extensions") {
		return errUnusual
	}
	return nil
}

// readHead learns the branch and the commit.
func (u *userRepository) readHead() error {
	head, err := u.claimed.Reference(plumbing.HEAD, false)
	if err != nil {
		return fmt.Errorf("read HEAD: %w", err)
	}
	if head.Type() == plumbing.SymbolicReference {
		if !head.Target().IsBranch() {
			return errUnusual
		}
		u.branch = strings.TrimPrefix(string(head.Target()), "refs/heads/")
		head, err = u.claimed.Reference(head.Target(), true)
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			return nil // unborn
		}
		if err != nil {
			return fmt.Errorf("read branch: %w", err)
		}
	}
	u.headCommit = head.Hash().String()
	return nil
}

// loadClaimed reads the references and the tree of the commit.
func (u *userRepository) loadClaimed(ctx context.Context) (err error) {
	if u.references, err = readReferences(u.claimed); err != nil || u.headCommit == "" {
		return err
	}
	if !u.nearCommit() {
		u.headTree, err = u.git().line(ctx, "rev-parse", "--verify", u.headCommit+"^{tree}")
		return err
	}
	commit, err := u.claimed.CommitObject(plumbing.NewHash(u.headCommit))
	if err != nil {
		return fmt.Errorf("read HEAD: %w", err)
	}
	u.headTree = commit.TreeHash.String()
	return nil
}

// maxPackIndexes bounds the pack indexes, about 30 bytes an object, that go-git
// reads whole before it finds anything in a pack. At this size that takes as
// long as a process, and in a large repository seconds.
const maxPackIndexes = 128 << 10

// nearCommit reports whether go-git finds the commit, and without much ado.
func (u *userRepository) nearCommit() bool {
	if _, err := os.Stat(filepath.Join(u.objects, u.headCommit[:2], u.headCommit[2:])); err == nil {
		return true
	}
	// Go-git looks for borrowed objects beneath the repository.
	_, err := os.Lstat(filepath.Join(u.objects, "info", "alternates"))
	return err != nil && packIndexes(u.objects) <= maxPackIndexes
}

// packIndexes is the size of all pack indexes together.
func packIndexes(objects string) (sum int64) {
	names, err := filepath.Glob(filepath.Join(objects, "pack", "*.idx"))
	if err != nil {
		return maxPackIndexes + 1
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// readReferences lists the references as loadReferences does.
func readReferences(repo *gogit.Repository) ([]byte, error) {
	all := map[plumbing.ReferenceName]*plumbing.Reference{}
	var shown []plumbing.ReferenceName
	references, err := repo.References()
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	err = references.ForEach(func(r *plumbing.Reference) error {
		all[r.Name()] = r
		if r.Name().IsBranch() || r.Name().IsTag() || r.Name().IsRemote() {
			shown = append(shown, r.Name())
		}
		return r.Name().Validate() // also refuses the lock of one that is being written
	})
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	slices.Sort(shown)
	list := bytes.NewBufferString(packedHeader)
	for _, name := range shown {
		id, err := resolveReference(all, name)
		if err != nil {
			return nil, err
		}
		if !id.IsZero() {
			list.WriteString(id.String() + " " + string(name) + "\n")
		}
	}
	return list.Bytes(), nil
}

// resolveReference follows symbolic references as deep as git does; the zero
// id is one that leads nowhere.
func resolveReference(all map[plumbing.ReferenceName]*plumbing.Reference, name plumbing.ReferenceName) (plumbing.Hash, error) {
	for range 5 {
		r := all[name]
		if r == nil {
			return plumbing.ZeroHash, nil
		}
		if r.Type() != plumbing.SymbolicReference {
			// Go-git fills up what is no whole id with zeros.
			if id := r.Hash(); id[len(id)-1] != 0 || id[len(id)-2] != 0 {
				return id, nil
			}
			break
		}
		name = r.Target()
	}
	return plumbing.ZeroHash, fmt.Errorf("reference %.200q: %w", name, errUnusual)
}
