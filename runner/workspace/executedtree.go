package workspace

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// resultFile is a path of the tree that a change leads to. Those that the change
// made or changed have the ids of their content, before "" when they are new.
type resultFile struct {
	path    string
	link    bool
	changed bool
	before  string
	id      string
}

// executed returns warnings about the changed files of a tree that programs act
// on. All files of the tree count: a directory becomes a repository by its last
// part, and a link makes a directory of hooks of one that was none.
func executed(ctx context.Context, g git, files []resultFile) ([]Warning, error) {
	blobs, err := readBlobs(ctx, g, interesting(files))
	if err != nil {
		return nil, err
	}
	lookup := newExecutedLookup(files, blobs)
	var found []Warning
	for i := range files {
		f := &files[i]
		if !f.changed {
			continue
		}
		if by := lookup.program(f, blobs); by != "" {
			message := "executed by " + by + " without being asked to"
			found = append(found, Warning{Code: WarnExecuted, Path: f.path, Message: message})
		}
	}
	return found, nil
}

// interesting returns the ids of what has to be read, the most important first:
// links that have a name of the table, files of which only a part counts, and
// other links, by which the first may lead on.
func interesting(files []resultFile) (ids []string) {
	var contents, others []string
	for i := range files {
		f := &files[i]
		if f.link && mentioned(foldedName(path.Base(f.path))) {
			ids = append(ids, f.id)
		} else if f.link {
			others = append(others, f.id)
		}
		if !f.changed {
			continue
		}
		if entry := executedEntry(folded(f.path)); entry != nil && entry.content != nil {
			contents = append(contents, f.before, f.id)
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
	for _, patterns := range executedPatterns {
		for _, p := range patterns {
			if slices.ContainsFunc(p.parts, func(part string) bool { return fits(part, name) }) {
				return true
			}
		}
	}
	return false
}

// executedLookup is what has to be known of a whole tree.
type executedLookup struct {
	repositories map[string]bool     // folded directories in which git would find a repository
	links        map[string][]string // folded targets and the folded paths of the links to them
}

func newExecutedLookup(files []resultFile, blobs map[string][]byte) *executedLookup {
	l := &executedLookup{repositories: make(map[string]bool), links: make(map[string][]string)}
	marks := make(map[string]map[string]bool)
	for i := range files {
		f := &files[i]
		parts := folded(f.path)
		for j, part := range parts {
			if part == "head" || part == "objects" || part == "refs" || part == "commondir" {
				dir := strings.Join(parts[:j], "/")
				if marks[dir] == nil {
					marks[dir] = make(map[string]bool)
				}
				marks[dir][part] = true
			}
		}
		if target, read := blobs[f.id]; f.link && read && len(target) > 0 && target[0] != '/' {
			to := strings.Join(folded(path.Join(path.Dir(f.path), string(target))), "/")
			l.links[to] = append(l.links[to], strings.Join(parts, "/"))
		}
	}
	for dir, mark := range marks {
		l.repositories[dir] = mark["head"] && (mark["commondir"] || mark["objects"] && mark["refs"])
	}
	return l
}

// program says what acts on a changed file, "" for nothing: by its own path, or
// by one that links make of it.
func (l *executedLookup) program(f *resultFile, blobs map[string][]byte) string {
	const most = 64 // paths that are looked at: links can go in circles
	names := []string{strings.Join(folded(f.path), "/")}
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
		if entry := executedEntry(parts); entry != nil && !entry.unchanged(blobs[f.before], blobs[f.id]) {
			return entry.program
		}
	}
	return ""
}

// repositoryPart reports whether git acts on what has this name in a repository's
// own directory.
func repositoryPart(name string) bool {
	switch name {
	case "head", "config", "config.worktree", "commondir", "gitdir", "hooks", "info", "objects", "refs", "packed-refs",
		"modules", "worktrees":
		return true
	}
	return false
}

// unchanged reports whether what counts of a file is the same in both contents.
// A new file is compared with one that says nothing.
func (e *executedBy) unchanged(before, after []byte) bool {
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

// packageScripts returns what a package.json or composer.json has run.
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

// readBlobs returns the contents of blobs, as many as fit a bound. One that is
// large or missing is not among them.
func readBlobs(ctx context.Context, g git, ids []string) (_ map[string][]byte, err error) {
	left := int64(16 << 20)
	contents := make(map[string][]byte)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return contents, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process, err := g.start(ctx, "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if contents[id] != nil {
			continue
		}
		data, readErr := readBlob(process, id, min(left, 1<<20))
		if _, missing := readErr.(*Error); readErr != nil && !missing {
			cancel() // it may be in the middle of an answer
			_ = process.close()
			return nil, readErr
		}
		if data != nil {
			contents[id] = data
			left -= int64(len(data))
		}
	}
	return contents, process.close()
}

func readBlob(p *process, id string, most int64) ([]byte, error) {
	oid, err := hex.DecodeString(id)
	if err == nil {
		_, err = fmt.Fprintln(p.in, id)
	}
	if err == nil {
		err = p.in.Flush()
	}
	if err != nil {
		return nil, err
	}
	size, err := readBlobHeader(p.out, string(oid))
	if err != nil {
		return nil, err
	}
	if size > most {
		_, err = io.CopyN(io.Discard, p.out, size+1)
		return nil, err
	}
	data := make([]byte, size+1)
	_, err = io.ReadFull(p.out, data)
	return data[:size], err
}

// warnExecuted adds what a person should look at before anything else.
func (d *Diff) warnExecuted(ctx context.Context, result repository, base *record) error {
	changes := make(map[string]bool)
	var files []resultFile
	for _, change := range d.Files {
		changes[change.Path] = true
		if change.From != "" {
			changes[change.From] = true
		}
		if change.Mode != "" {
			files = append(files, resultFile{path: change.Path, link: change.Mode == "120000", changed: true,
				before: change.oldID, id: change.newID})
		}
	}
	if len(files) == 0 {
		return nil
	}
	for i := range base.entries {
		if e := &base.entries[i]; !e.module && !changes[e.path] {
			files = append(files, resultFile{path: e.path, link: e.mode == modeSymlink,
				id: hex.EncodeToString([]byte(e.oid))})
		}
	}
	found, err := executed(ctx, result.git(), files)
	if err != nil {
		return fmt.Errorf("look for files that programs execute: %w", err)
	}
	var kept warningList
	for _, w := range found {
		kept.add(w)
	}
	d.Warnings = append(d.Warnings, kept.list()...)
	return nil
}

// executed returns what of the merged files programs act on: in the user's tree
// as it will be, and as far as the run found it in its own.
func (m *merge) executed(ctx context.Context, result *ApplyResult, before, after map[string]indexed) ([]Warning,
	error) {
	var files []resultFile
	looked := make(map[string]bool)
	for _, name := range result.Written {
		files = append(files, resultFile{path: name, link: after[name].mode == "120000", changed: true,
			before: before[name].oid, id: after[name].oid})
		for dir, _ := splitPath(name); !looked[dir]; dir, _ = splitPath(dir) {
			looked[dir] = true
			for _, mark := range []string{"HEAD", "commondir", "objects", "refs"} {
				if _, err := os.Lstat(filepath.Join(m.top, dir, mark)); err == nil {
					files = append(files, resultFile{path: path.Join(dir, mark)})
				}
			}
		}
	}
	list, err := executed(ctx, m.repo.git(), files)
	for _, w := range m.warnings {
		_, written := slices.BinarySearch(result.Written, w.Path)
		known := slices.ContainsFunc(list, func(have Warning) bool { return have.Path == w.Path })
		if w.Code == WarnExecuted && written && !known {
			list = append(list, w)
		}
	}
	return list, err
}
