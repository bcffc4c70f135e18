package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A View is a git directory of ours through which git sees a user's repository. We read configuration, HEAD, references
// and attributes there as data and write the allowed part of them here; objects are borrowed. So no program or file
// that the user's or the repository's configuration names has an effect, and nothing in the repository is written.
type View struct {
	Repository
	User *UserRepository
}

// View makes one in dir, which must not exist; the caller removes it.
func (u *UserRepository) View(dir string) (View, error) {
	v := View{Repository: Repository{Dir: dir, Format: u.Format, Alternates: []string{u.Objects}}, User: u}
	if err := u.CreateBeside(v.Repository); err != nil {
		return v, err
	}
	files := map[string]string{"info/exclude": u.Excludes, "info/attributes": u.attributes,
		"info/sparse-checkout": u.sparse}
	if u.HeadCommit != "" {
		files["HEAD"] = u.HeadCommit + "\n"
	}
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return v, err
	}
	files["config"] = string(config) + "[core]\n" + u.settings
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return v, fmt.Errorf("make a view of the repository: %w", err)
		}
	}
	return v, v.linkSharedIndexes()
}

// CreateBeside makes a repository of ours whose history ends where the user's does, if that is shallow.
func (u *UserRepository) CreateBeside(repo Repository) error {
	if err := repo.Create(); err != nil || u.Shallow == "" {
		return err
	}
	return os.WriteFile(filepath.Join(repo.Dir, "shallow"), []byte(u.Shallow), 0o600)
}

// linkSharedIndexes gives git the shared part of a split index, which it looks for in the git directory.
func (v View) linkSharedIndexes() error {
	names, err := filepath.Glob(EscapeWildcards(v.User.GitDir) + "/sharedindex.*")
	for _, name := range names {
		if info, statErr := os.Lstat(name); statErr == nil && info.Mode().IsRegular() {
			err = errors.Join(err, os.Symlink(name, filepath.Join(v.Dir, filepath.Base(name))))
		}
	}
	return err
}

// InTree returns a Runner in the user's working tree with an index: the user's own for commands that only read it,
// otherwise a copy.
func (v View) InTree(index string) Runner {
	g := v.Git().With("GIT_WORK_TREE="+v.User.Top, "GIT_INDEX_FILE="+index)
	g.Dir = v.User.Top
	return g
}

// maxIndex bounds the copy of an index; that of a million files is a tenth.
const maxIndex = 1 << 30

// CopyIndex copies the user's index. Without one it does nothing.
func (u *UserRepository) CopyIndex(to string) error {
	file, err := openIn(u.GitDir, "index")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy index: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("copy index: %w", err)
	}
	if info.Size() > maxIndex {
		return &Error{Code: CodeTooLarge, Param: file.Name(),
			Message: fmt.Sprintf("the index has more than %d bytes", maxIndex)}
	}
	// By the index's own time git knows which files it has to read, since they may have changed in the second in which
	// it was written. A copy with a later time would hide such a change.
	return errors.Join(copyTo(to, io.LimitReader(file, maxIndex)), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// References returns a Runner for changing one branch: it sees the user's own references through a further
// git directory, which remove deletes.
func (v View) References(branch string) (g Runner, remove func(), err error) {
	repo := Repository{Dir: filepath.Join(v.Dir, "references"), Format: v.Format, Alternates: v.Alternates}
	remove = func() { _ = os.RemoveAll(repo.Dir) } // the view goes as a whole later
	if err := repo.Create(); err != nil {
		return g, remove, err
	}
	head := strings.Repeat("0", 2*v.Format.Size()) + "\n" // on no branch, so that only the branch's log is written
	err = errors.Join(os.RemoveAll(filepath.Join(repo.Dir, "refs")),
		os.WriteFile(filepath.Join(repo.Dir, "HEAD"), []byte(head), 0o600))
	for _, name := range []string{"refs/heads/" + branch, "logs/refs/heads/" + branch, "packed-refs"} {
		if err == nil {
			err = v.User.checkPlain(name)
		}
		part, _, _ := strings.Cut(name, "/")
		if path := filepath.Join(v.User.CommonDir, part); err == nil && Exists(path) {
			err = os.Symlink(path, filepath.Join(repo.Dir, part))
		}
	}
	if err != nil {
		return g, remove, fmt.Errorf("open references: %w", err)
	}
	return repo.Git().WithConfig(v.User.Sharing()), remove, nil
}

// checkPlain refuses a path in the repository that contains a link: git would write to the link's target.
func (u *UserRepository) checkPlain(path string) error {
	file, err := openIn(u.CommonDir, path)
	if err == nil {
		return file.Close()
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return u.broken(path, err)
}

// Sharing makes git create files with the permissions that the repository asks for.
func (u *UserRepository) Sharing() string {
	return "core.sharedRepository=" + cmp.Or(u.shared, "false")
}

// Contains reports whether commit is tip or one of its ancestors.
func (v View) Contains(ctx context.Context, tip, commit string) bool {
	_, err := v.Git().Run(ctx, nil, "merge-base", "--is-ancestor", commit, tip)
	return err == nil
}

// DeleteBranch deletes a branch that is still at commit.
func (v View) DeleteBranch(ctx context.Context, branch, commit string) error {
	g, remove, err := v.References(branch)
	if err != nil {
		return err
	}
	defer remove()
	if _, err := g.Run(ctx, nil, "update-ref", "--no-deref", "-d", "refs/heads/"+branch, commit); err != nil {
		return fmt.Errorf("delete branch: %w", err)
	}
	return nil
}

// Identity returns the name and email address that the user's configuration has for commits, placeholders where one of
// them is missing: git refuses a commit and a reflog entry without.
func (u *UserRepository) Identity() (name, email string) {
	name, email = strings.TrimSpace(u.UserName), strings.TrimSpace(u.UserEmail)
	if name == "" || email == "" {
		return "holon", "holon@"
	}
	return name, email
}
