package landing

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"

	"holon/internal/folder"
	"holon/runner/workspace"
	"holon/runner/workspace/executed"
	"holon/runner/workspace/git"
)

// executed returns warnings about merged files that programs execute, in the user's tree as it will be, and
// those of the run's own warnings that concern written files.
func (m *merge) executed(ctx context.Context, result *ApplyResult, before,
	after map[string]git.IndexEntry) ([]workspace.Warning,
	error) {
	var files []executed.File
	looked := make(map[string]bool)
	for _, name := range result.Written {
		files = append(files, executed.File{Path: name, Link: after[name].Mode == "120000", Changed: true,
			Before: before[name].Oid, Id: after[name].Oid})
		for dir, _ := folder.Split(name); !looked[dir]; dir, _ = folder.Split(dir) {
			looked[dir] = true
			for _, mark := range []string{"HEAD", "commondir", "objects", "refs"} {
				if _, err := os.Lstat(filepath.Join(m.top, dir, mark)); err == nil {
					files = append(files, executed.File{Path: path.Join(dir, mark)})
				}
			}
		}
	}
	found, err := executed.Find(ctx, m.repo.Git(), files)
	list := workspace.ExecutedWarnings(found)
	for _, w := range m.warnings {
		_, written := slices.BinarySearch(result.Written, w.Path)
		known := slices.ContainsFunc(list, func(have workspace.Warning) bool { return have.Path == w.Path })
		if w.Code == workspace.WarnExecuted && written && !known {
			list = append(list, w)
		}
	}
	return list, err
}
