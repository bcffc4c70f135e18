package workspace

import (
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"holon/runner/workspace/executed"
	"holon/runner/workspace/git"
)

// warningList keeps a bounded number of warnings of each code.
type warningList struct {
	kept   []Warning
	count  map[string]int // of each code
	unsaid map[string]int // of each code, not kept
	bytes  int            // of the paths that are kept, as JSON
}

func (l *warningList) add(w Warning) {
	if l.count == nil {
		l.count, l.unsaid = map[string]int{}, map[string]int{}
	}
	l.count[w.Code]++
	size := changeSize(w.Path)
	if l.count[w.Code] > maxWarnings || l.bytes+size > maxWarningBytes {
		l.unsaid[w.Code]++
		return
	}
	l.bytes += size
	l.kept = append(l.kept, w)
}

// list returns the warnings by path, and one for each kind with warnings that were not kept.
func (l *warningList) list() []Warning {
	list := slices.Clone(l.kept)
	for code, n := range l.unsaid {
		list = append(list, Warning{Code: warnMore, Message: fmt.Sprintf("%d more of kind %s", n, code)})
	}
	slices.SortFunc(list, func(a, b Warning) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Code+a.Message, b.Code+b.Message)
	})
	return list
}

// group is the files of a directory that the same program executes.
type group struct {
	Pattern string // the path of a single file, else the directory's with /*
	Files   int
	Message string // as of each of its warnings
}

// GroupExecuted returns the files that programs execute as one group for each directory and program, by pattern, so
// that a list that is too long to be read is short and complete.
func GroupExecuted(warnings []Warning) (groups []group) {
	places := make(map[[2]string]int)
	for _, w := range warnings {
		if w.Code != WarnExecuted {
			continue
		}
		key := [2]string{path.Dir(w.Path), w.Message}
		at, known := places[key]
		if !known {
			places[key] = len(groups)
			groups = append(groups, group{Pattern: w.Path, Files: 1, Message: w.Message})
			continue
		}
		groups[at].Pattern = path.Join(path.Dir(w.Path), "*")
		groups[at].Files++
	}
	slices.SortStableFunc(groups, func(a, b group) int { return strings.Compare(a.Pattern, b.Pattern) })
	return groups
}

// ExecutedWarnings returns a warning for each changed file that a program executes unasked.
func ExecutedWarnings(matches []executed.Match) []Warning {
	warnings := make([]Warning, len(matches))
	for i, m := range matches {
		program := m.Program
		if strings.Contains(program, ", as ") {
			program += "," // "git, as hooks"
		}
		warnings[i] = Warning{Code: WarnExecuted, Path: m.Path, Message: "executed by " + program + " without being asked to"}
	}
	return warnings
}

// warnLFS adds warnings about files of which the base has a pointer of Git LFS and the result the content.
func (d *comparison) warnLFS(ctx context.Context, result git.Repository) error {
	var before, after []string
	for _, id := range d.ids {
		if id.before != "" {
			before = append(before, id.before)
		}
	}
	g := result.Git()
	pointers, err := g.Pointers(ctx, before)
	if err != nil || len(pointers) == 0 {
		return err
	}
	var changed []int
	for i, id := range d.ids {
		if _, ok := pointers[id.before]; ok && d.Files[i].Mode != "" {
			changed, after = append(changed, i), append(after, id.after)
		}
	}
	still, err := g.Pointers(ctx, after)
	var warnings warningList
	for _, i := range changed {
		if _, ok := still[d.ids[i].after]; !ok {
			warnings.add(Warning{Code: warnLFS, Path: d.Files[i].Path,
				Message: "a file of Git LFS; the result has its content, and `git add` makes the pointer of it"})
		}
	}
	d.Warnings = append(d.Warnings, warnings.list()...)
	return err
}

// maxExecuted bounds the list of files that programs execute, as maxListed that of changed ones.
const maxExecuted = 8 << 20

// warnExecuted adds warnings about files that programs execute unasked.
func (d *comparison) warnExecuted(ctx context.Context, result git.Repository, base *record,
	configured []git.Configured) error {
	changes := make(map[string]bool)
	var changed []string
	var files []executed.File
	for i, change := range d.Files {
		changes[change.Path] = true
		if change.From != "" {
			changes[change.From] = true
		}
		if change.Mode != "" {
			changed = append(changed, change.Path)
			files = append(files, executed.File{Path: change.Path, Link: change.Mode == "120000", Changed: true,
				Before: d.ids[i].before, Id: d.ids[i].after})
		}
	}
	if len(files) == 0 {
		return nil
	}
	for i := range base.entries {
		if e := &base.entries[i]; (!e.Module || len(d.Submodules) > 0) && !changes[e.Path] {
			files = append(files, executed.File{Path: e.Path, Link: e.Mode == git.ModeSymlink,
				Id: hex.EncodeToString([]byte(e.Oid))})
		}
	}
	found, err := executed.Find(ctx, result.Git(), files)
	if err != nil {
		return fmt.Errorf("look for files that programs execute: %w", err)
	}
	found = append(found, executed.FindConfigured(changed, configured)...)
	slices.SortStableFunc(found, func(a, b executed.Match) int { return strings.Compare(a.Path, b.Path) })
	found = slices.CompactFunc(found, func(a, b executed.Match) bool { return a.Path == b.Path })
	size := 0
	for i, w := range ExecutedWarnings(found) {
		if size += changeSize(w.Path); size > maxExecuted {
			w = Warning{Code: WarnExecuted, Message: fmt.Sprintf("%d more files that programs execute", len(found)-i)}
		}
		if d.Warnings = append(d.Warnings, w); size > maxExecuted {
			break
		}
	}
	return nil
}
