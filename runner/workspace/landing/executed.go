package landing

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
	for _, name := range result.Written {
		files = append(files, executed.File{Path: name, Link: after[name].Mode == "120000", Changed: true,
			Before: before[name].Oid, Id: after[name].Oid})
	}
	for _, dir := range append(parents(result.Written), "") {
		for _, mark := range []string{"HEAD", "commondir", "objects", "refs"} {
			if _, err := os.Lstat(filepath.Join(m.top, dir, mark)); err == nil {
				files = append(files, executed.File{Path: path.Join(dir, mark)})
			}
		}
	}
	found, err := executed.Find(ctx, m.repo.Git(), files)
	if err != nil {
		return nil, err
	}
	var own []workspace.Warning
	for _, w := range m.warnings {
		if _, written := slices.BinarySearch(result.Written, w.Path); written {
			own = append(own, w)
		}
	}
	return allExecuted(workspace.ExecutedWarnings(found), own, configured(ctx, m.user, m.modules, result.Written)), nil
}

// configured returns a warning for each path that settings name for git, those of submodules included; user is nil for
// a plain directory.
func configured(ctx context.Context, user *git.UserRepository, modules, paths []string) []workspace.Warning {
	if user == nil {
		return nil
	}
	return workspace.ExecutedWarnings(executed.FindConfigured(paths, user.ConfiguredWith(ctx, modules)))
}

// allExecuted joins lists of files that programs execute, by path and each path once.
func allExecuted(lists ...[]workspace.Warning) []workspace.Warning {
	all := slices.DeleteFunc(slices.Concat(lists...), func(w workspace.Warning) bool {
		return w.Code != workspace.WarnExecuted
	})
	slices.SortStableFunc(all, func(a, b workspace.Warning) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b workspace.Warning) bool { return a.Path == b.Path })
}

// executedIn returns the files of a run's whole result that programs execute.
func executedIn(ctx context.Context, o CheckoutOptions, user *git.UserRepository) []workspace.Warning {
	var paths []string
	for _, f := range o.Diff.Files {
		if f.Mode != "" {
			paths = append(paths, f.Path)
		}
	}
	return allExecuted(o.Diff.Warnings, configured(ctx, user, nil, paths))
}
