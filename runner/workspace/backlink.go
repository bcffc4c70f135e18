package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"holon/internal/durable"
)

// follow resolves a .git that is a file or a link. Where it leads is used only when that is a linked working tree's or
// a submodule's git directory which names this working tree back; before that is certain nothing but the file with
// the name is opened there.
func (l *repositoryLayout) follow(dot string) error {
	target, err := filepath.EvalSymlinks(dot)
	if err != nil {
		return unreadable(dot, err)
	}
	if target == dot {
		if target, err = readGitFile(dot); err != nil {
			return err
		}
		if target, err = filepath.EvalSymlinks(absoluteFrom(l.top, target)); err != nil {
			return unreadable(dot, err)
		}
	}
	l.gitDir = target
	if exists(filepath.Join(target, "commondir")) {
		return l.followWorktree(dot)
	}
	return l.followSubmodule(dot)
}

// followWorktree accepts the git directory of a linked working tree: it lies in the repository that it shares, and its
// file gitdir names this .git.
func (l *repositoryLayout) followWorktree(dot string) error {
	worktrees := filepath.Dir(l.gitDir)
	if filepath.Base(worktrees) != "worktrees" {
		return leadsElsewhere(dot, l.gitDir)
	}
	if err := checkOwners(worktrees, l.gitDir); err != nil {
		return err
	}
	common, err := readPath(filepath.Join(l.gitDir, "commondir"))
	if err != nil {
		return err
	}
	back, err := readPath(filepath.Join(l.gitDir, "gitdir"))
	if err != nil {
		return err
	}
	l.commonDir = filepath.Dir(worktrees)
	back = absoluteFrom(l.gitDir, back)
	if filepath.Base(back) != ".git" || !leadsTo(filepath.Dir(back), l.top) {
		return leadsElsewhere(dot, l.gitDir)
	}
	if !leadsTo(absoluteFrom(l.gitDir, common), l.commonDir) {
		return leadsElsewhere(filepath.Join(l.gitDir, "commondir"), common)
	}
	l.ownTop = homeOf(l.commonDir)
	return nil
}

// homeOf returns the top-level directory that a git directory belongs to: what holds the .git, be it of a
// superproject, or the directory itself when it is bare.
func homeOf(gitDir string) string {
	if i := strings.Index(gitDir+"/", "/.git/"); i > 0 {
		return gitDir[:i]
	}
	return gitDir
}

// followSubmodule accepts the git directory of a submodule: it lies among the modules of the repository that is found
// above, and its configuration names this directory as its working tree.
func (l *repositoryLayout) followSubmodule(dot string) error {
	parent := filepath.Dir(l.top)
	if parent == l.top {
		return leadsElsewhere(dot, l.gitDir)
	}
	super, err := findAbove(parent)
	if err != nil {
		return err
	}
	if super == nil || !beneath(filepath.Join(super.gitDir, "modules"), l.gitDir) &&
		!beneath(filepath.Join(super.commonDir, "modules"), l.gitDir) {
		return leadsElsewhere(dot, l.gitDir)
	}
	if err := checkOwners(l.gitDir); err != nil {
		return err
	}
	core, err := readCore(l.gitDir)
	if err != nil {
		return err
	}
	if core.worktree == "" || !leadsTo(absoluteFrom(l.gitDir, core.worktree), l.top) {
		return leadsElsewhere(dot, l.gitDir)
	}
	l.commonDir, l.ownTop = l.gitDir, super.ownTop
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
	if line == "" || strings.ContainsAny(line, "\x00\n") || len(line) > maxPathLength {
		return "", fmt.Errorf("%.100q is not one path", line)
	}
	return line, nil
}
