package executed

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"holon/runner/workspace/git"
)

// File is a path of the tree that results from a change. Created and changed files have the ids of their
// contents; before is "" for a new file.
type File struct {
	Path    string
	Link    bool
	Changed bool
	Before  string
	Id      string
}

// Match is a changed file and the program that executes it unasked.
type Match struct {
	Path, Program string
}

// Find returns the changed files of a tree that programs execute unasked. files are all files of the tree: its
// last missing part makes a directory a repository, and a link can make any directory one of hooks.
func Find(ctx context.Context, g git.Runner, files []File) ([]Match, error) {
	blobs, err := g.ReadBlobs(ctx, interesting(files))
	if err != nil {
		return nil, err
	}
	lookup := newLookup(files, blobs)
	var found []Match
	for i := range files {
		f := &files[i]
		if !f.Changed {
			continue
		}
		if by := lookup.program(f, blobs); by != "" {
			found = append(found, Match{Path: f.Path, Program: by})
		}
	}
	return found, nil
}

// FindConfigured returns those of the paths that settings of git name: the path itself, a directory above it, or what
// lies below it where the path may be a link or a file in the place of a directory.
func FindConfigured(paths []string, by []git.Configured) (found []Match) {
	named := make([]string, len(by))
	for i, c := range by {
		named[i] = strings.Join(folded(c.Path), "/")
	}
	for _, name := range paths {
		candidates := slices.Compact(append([]string{name}, git.CommandWords(name)...))
		for i, c := range candidates {
			candidates[i] = strings.Join(folded(c), "/")
		}
		for i, n := range named {
			if slices.ContainsFunc(candidates, func(at string) bool { return names(by[i], n, at) }) {
				found = append(found, Match{Path: name, Program: "git, as its setting " + by[i].Setting})
				break
			}
		}
	}
	return found
}

// names reports whether a setting, with its folded path, names a folded path.
func names(c git.Configured, named, at string) bool {
	if named == at || strings.HasPrefix(named, at+"/") || !c.Anywhere && strings.HasPrefix(at, named+"/") {
		return true
	}
	parts, size := strings.Split(at, "/"), strings.Count(named, "/")+1
	for end := len(parts); c.Anywhere && end >= size; end-- {
		tail := strings.Join(parts[end-size:end], "/")
		if tail == named || fits(named, tail) || strings.TrimSuffix(tail, path.Ext(tail)) == named {
			return true
		}
	}
	return false
}

// interesting returns the ids of the blobs to read, the most important first: links with a name of the table, files of
// which only a part is executed, and other links, to which the first may lead.
func interesting(files []File) (ids []string) {
	var contents, others []string
	for i := range files {
		f := &files[i]
		if f.Link && mentioned(foldedName(path.Base(f.Path))) {
			ids = append(ids, f.Id)
		} else if f.Link {
			others = append(others, f.Id)
		}
		if !f.Changed {
			continue
		}
		if entry := entryFor(folded(f.Path)); entry != nil && entry.content != nil {
			contents = append(contents, f.Before, f.Id)
		}
	}
	if len(ids) == 0 {
		others = nil
	}
	return slices.Concat(ids, contents, others)
}

// mentioned reports whether a name is part of a pattern, or of a repository.
func mentioned(name string) bool {
	if repositoryPart(name) {
		return true
	}
	for _, patterns := range patterns() {
		for _, p := range patterns {
			if slices.ContainsFunc(p.parts, func(part string) bool { return fits(part, name) }) {
				return true
			}
		}
	}
	return false
}

// lookup is what has to be known of a whole tree.
type lookup struct {
	repositories map[string]bool     // folded directories in which git would find a repository
	links        map[string][]string // folded targets and the folded paths of the links to them
}

func newLookup(files []File, blobs map[string][]byte) *lookup {
	l := &lookup{repositories: make(map[string]bool), links: make(map[string][]string)}
	marks := make(map[string]bool) // paths of files and directories that make a repository of what holds them
	for i := range files {
		f := &files[i]
		parts := folded(f.Path)
		for j, part := range parts {
			switch part {
			case "head", "objects", "refs", "commondir":
				marks[strings.Join(parts[:j+1], "/")] = true
			}
		}
		if target, read := blobs[f.Id]; f.Link && read && len(target) > 0 && target[0] != '/' {
			to := strings.Join(folded(path.Join(path.Dir(f.Path), string(target))), "/")
			l.links[to] = append(l.links[to], strings.Join(parts, "/"))
		}
	}
	for mark := range marks {
		if in, isHead := strings.CutSuffix(mark, "head"); isHead && (in == "" || strings.HasSuffix(in, "/")) {
			l.repositories[strings.TrimSuffix(in,
				"/")] = marks[in+"commondir"] || marks[in+"objects"] && marks[in+"refs"]
		}
	}
	return l
}

// program returns the program that executes a changed file, "" for none: by its own path, or by a path to it through
// links.
func (l *lookup) program(f *File, blobs map[string][]byte) string {
	const most = 64 // paths to look at: links can form a cycle
	names := []string{strings.Join(folded(f.Path), "/")}
	for i := 0; i < len(names) && i < most; i++ {
		parts := strings.Split(names[i], "/")
		for j := range parts {
			if l.repositories[strings.Join(parts[:j], "/")] && repositoryPart(parts[j]) {
				return "git, as part of a repository,"
			}
			for _, at := range l.links[strings.Join(parts[:j+1], "/")] {
				if alias := strings.Join(append([]string{at}, parts[j+1:]...), "/"); !slices.Contains(names, alias) {
					names = append(names, alias)
				}
			}
		}
		if entry := entryFor(parts); entry != nil && !entry.unchanged(blobs[f.Before], blobs[f.Id]) {
			return entry.program
		}
	}
	return ""
}

// repositoryPart reports whether git acts on a file of this name in a repository's own directory.
func repositoryPart(name string) bool {
	switch name {
	case "head", "config", "config.worktree", "commondir", "gitdir", "hooks", "info", "objects", "refs", "packed-refs",
		"modules", "worktrees":
		return true
	}
	return false
}

// unchanged reports whether the executed part of a file is the same in both contents. A new file is compared
// with an empty object.
func (e *entry) unchanged(before, after []byte) bool {
	if e.content == nil || after == nil {
		return false
	}
	if before == nil {
		before = []byte("{}")
	}
	was, readBefore := e.content(before)
	is, readAfter := e.content(after)
	return readBefore && readAfter && was == is
}

// packageScripts returns the parts of a package.json or composer.json that a package manager executes.
func packageScripts(data []byte) (string, bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return "", false
	}
	var text strings.Builder
	for _, key := range []string{"scripts", "husky", "gitHooks", "simple-git-hooks", "pre-commit", "lint-staged",
		"packageManager", "pnpm", "config", "eslintConfig", "prettier"} {
		fmt.Fprintf(&text, "%s: %s\n", key, all[key])
	}
	return text.String(), true
}
