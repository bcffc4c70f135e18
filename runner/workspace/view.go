package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A view is a git directory of ours through which git sees a user's repository.
// Configuration, HEAD, references and attributes are what we wrote of what we
// read there as data; objects are borrowed. So nothing that the user's or the
// repository's configuration names has a say, and nothing of the repository is
// written.
type view struct {
	repository
	user *userRepository
}

// view makes one in dir, which must not exist; the caller removes it.
func (u *userRepository) view(dir string) (view, error) {
	v := view{repository: repository{dir: dir, format: u.format, alternates: []string{u.objects}}, user: u}
	if err := v.create(); err != nil {
		return v, err
	}
	files := map[string]string{"info/exclude": u.excludes, "info/attributes": u.attributes,
		"info/sparse-checkout": u.sparse}
	if u.headCommit != "" {
		files["HEAD"] = u.headCommit + "\n"
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
	if err := u.writeShallow(v.repository); err != nil {
		return v, err
	}
	return v, v.linkSharedIndexes()
}

// writeShallow tells a repository of ours where a shallow history ends.
func (u *userRepository) writeShallow(repo repository) error {
	if u.shallow == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(repo.dir, "shallow"), []byte(u.shallow), 0o600)
}

// linkSharedIndexes shows git the other half of a split index, which it looks
// for in the git directory.
func (v view) linkSharedIndexes() error {
	names, err := filepath.Glob(escapeWildcards(v.user.gitDir) + "/sharedindex.*")
	for _, name := range names {
		if info, statErr := os.Lstat(name); statErr == nil && info.Mode().IsRegular() {
			err = errors.Join(err, os.Symlink(name, filepath.Join(v.dir, filepath.Base(name))))
		}
	}
	return err
}

// inTree runs git in the user's working tree with an index: the user's for
// commands that only read it, else a copy.
func (v view) inTree(index string) git {
	g := v.git().with("GIT_WORK_TREE="+v.user.top, "GIT_INDEX_FILE="+index)
	g.dir = v.user.top
	return g
}

// maxIndex bounds the copy of an index; that of a million files is a tenth.
const maxIndex = 1 << 30

// copyIndex copies the user's index; when there is none, the copy is neither.
func (u *userRepository) copyIndex(to string) error {
	file, err := openIn(u.gitDir, "index")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy index: %w", err)
	}
	defer file.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(target, io.LimitReader(file, maxIndex+1))
	if n > maxIndex {
		err = &Error{Code: CodeTooLarge, Param: file.Name(),
			Message: fmt.Sprintf("the index has more than %d bytes", maxIndex)}
	}
	return errors.Join(err, target.Close())
}

// references runs git on the user's own references, which are shown to it in a
// further git directory, for a change of one branch; remove ends that.
func (v view) references(branch string) (g git, remove func(), err error) {
	repo := repository{dir: filepath.Join(v.dir, "references"), format: v.format, alternates: v.alternates}
	remove = func() { _ = os.RemoveAll(repo.dir) } // the view goes as a whole later
	if err := repo.create(); err != nil {
		return g, remove, err
	}
	head := strings.Repeat("0", 2*v.format.size()) + "\n" // on no branch, so that only the branch's log is written
	err = errors.Join(os.RemoveAll(filepath.Join(repo.dir, "refs")),
		os.WriteFile(filepath.Join(repo.dir, "HEAD"), []byte(head), 0o600))
	for _, name := range []string{"refs/heads/" + branch, "logs/refs/heads/" + branch, "packed-refs"} {
		if err == nil {
			err = v.user.checkPlain(name)
		}
		part, _, _ := strings.Cut(name, "/")
		if path := filepath.Join(v.user.commonDir, part); err == nil && exists(path) {
			err = os.Symlink(path, filepath.Join(repo.dir, part))
		}
	}
	if err != nil {
		return g, remove, fmt.Errorf("open references: %w", err)
	}
	return repo.git().withConfig(v.user.sharing()), remove, nil
}

// checkPlain refuses a path in the repository that has a link in it: git would
// write where it leads.
func (u *userRepository) checkPlain(path string) error {
	file, err := openIn(u.commonDir, path)
	if err == nil {
		return file.Close()
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return u.broken(path, err)
}

// sharing makes git create files with the permissions that the repository asks for.
func (u *userRepository) sharing() string {
	return "core.sharedRepository=" + orText(u.shared, "false")
}
