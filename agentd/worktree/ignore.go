package worktree

import (
	"bufio"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"holon/internal/folder"
)

// Bounds of ignore rules, which commands may have written. Rules beyond them do not count.
const (
	maxIgnoreBytes = 64 << 10 // of a .gitignore
	maxIgnoreRules = 1000     // at a time
)

// ignoreRules are the rules of the .gitignore files from the top down to the present directory. They decide which new
// files are left out of a patch, as git decides which files it adds.
type ignoreRules struct{ patterns []gitignore.Pattern }

// enter adds the rules of the directory path until leave is called.
func (r *ignoreRules) enter(dir folder.Dir, path string) (leave func()) {
	n := len(r.patterns)
	leave = func() { r.patterns = r.patterns[:n] }
	f, _, err := dir.OpenFile(".gitignore")
	if err != nil {
		return leave
	}
	defer f.Close()
	var domain []string
	if path != "" {
		domain = strings.Split(path, "/")
	}
	lines := bufio.NewScanner(io.LimitReader(f, maxIgnoreBytes))
	for lines.Scan() && len(r.patterns) < maxIgnoreRules {
		line := lines.Text()
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		r.patterns = append(r.patterns, gitignore.ParsePattern(line, domain))
	}
	return leave
}

// ignores reports whether the rules leave a new file or directory out. Nil rules leave out nothing.
func (r *ignoreRules) ignores(path string, isDir bool) bool {
	if r == nil || len(r.patterns) == 0 {
		return false
	}
	return gitignore.NewMatcher(r.patterns).Match(strings.Split(path, "/"), isDir)
}
