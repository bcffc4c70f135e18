package git

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"holon/internal/durable"
	"holon/internal/gitname"
)

// follow resolves a .git that is a file or a link. The target is used only if it is the git directory of a
// linked working tree or a submodule and names this working tree back. Until that is certain, only the file
// with the name is opened.
func (l *Layout) follow(dot string) error {
	target, err := filepath.EvalSymlinks(dot)
	if err != nil {
		return unreadable(dot, err)
	}
	if target == dot {
		if target, err = readGitFile(dot); err != nil {
			return err
		}
		if target, err = filepath.EvalSymlinks(absoluteFrom(l.Top, target)); err != nil {
			return unreadable(dot, err)
		}
	}
	l.GitDir = target
	if Exists(filepath.Join(target, "commondir")) {
		return l.followWorktree(dot)
	}
	return l.followSubmodule(dot)
}

// followWorktree accepts the git directory of a linked working tree: it lies in the repository that it shares, and its
// file gitdir names this .git.
func (l *Layout) followWorktree(dot string) error {
	worktrees := filepath.Dir(l.GitDir)
	if filepath.Base(worktrees) != "worktrees" {
		return leadsElsewhere(dot, l.GitDir)
	}
	if err := checkOwners(worktrees, l.GitDir); err != nil {
		return err
	}
	common, err := readPath(filepath.Join(l.GitDir, "commondir"))
	if err != nil {
		return err
	}
	back, err := readPath(filepath.Join(l.GitDir, "gitdir"))
	if err != nil {
		return err
	}
	l.CommonDir = filepath.Dir(worktrees)
	back = absoluteFrom(l.GitDir, back)
	if filepath.Base(back) != ".git" || !leadsTo(filepath.Dir(back), l.Top) {
		return leadsElsewhere(dot, l.GitDir)
	}
	if !leadsTo(absoluteFrom(l.GitDir, common), l.CommonDir) {
		return leadsElsewhere(filepath.Join(l.GitDir, "commondir"), common)
	}
	l.ownTop = homeOf(l.CommonDir)
	return nil
}

// homeOf returns the top-level directory that a git directory belongs to: the directory that contains the
// .git, which may be that of a superproject, or the git directory itself if it is bare.
func homeOf(gitDir string) string {
	if i := strings.Index(gitDir+"/", "/.git/"); i > 0 {
		return gitDir[:i]
	}
	return gitDir
}

// followSubmodule accepts the git directory of a submodule: it lies among the modules of the repository that is found
// above, and its configuration names this directory as its working tree.
func (l *Layout) followSubmodule(dot string) error {
	parent := filepath.Dir(l.Top)
	if parent == l.Top {
		return leadsElsewhere(dot, l.GitDir)
	}
	super, err := findAbove(parent)
	if err != nil {
		return err
	}
	if super == nil || !beneath(filepath.Join(super.GitDir, "modules"), l.GitDir) &&
		!beneath(filepath.Join(super.CommonDir, "modules"), l.GitDir) {
		return leadsElsewhere(dot, l.GitDir)
	}
	if err := checkOwners(l.GitDir); err != nil {
		return err
	}
	worktree, _, err := readCore(l.GitDir)
	if err != nil {
		return err
	}
	if worktree == "" || !leadsTo(absoluteFrom(l.GitDir, worktree), l.Top) {
		return leadsElsewhere(dot, l.GitDir)
	}
	l.CommonDir, l.ownTop = l.GitDir, super.ownTop
	return nil
}

// readGitFile returns what a .git file names.
func readGitFile(path string) (string, error) {
	line, err := readPath(path)
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(line, "gitdir: ")
	if !ok || target == "" {
		return "", unreadable(path, errors.New("it does not name a git directory"))
	}
	return target, nil
}

// readPath reads a file that holds one path.
func readPath(path string) (string, error) {
	data, err := durable.ReadFile(path, maxSmallFile)
	if err != nil {
		return "", unreadable(path, err)
	}
	line, err := parsePath(data)
	if err != nil {
		return "", unreadable(path, err)
	}
	return line, nil
}

// parsePath takes one line, ended or not.
func parsePath(data []byte) (string, error) {
	line := string(bytes.TrimRight(data, "\r\n"))
	if line == "" || strings.ContainsAny(line, "\x00\n") || len(line) > gitname.MaxPath {
		return "", fmt.Errorf("%.100q is not one path", line)
	}
	return line, nil
}
