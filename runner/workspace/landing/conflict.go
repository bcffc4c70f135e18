package landing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"holon/runner/workspace/git"
)

// maxProbes bounds how many files of a patch are tried one by one to tell
// which of them conflict.
const maxProbes = 500

// findConflicts applies the files of the patch one by one to copies of the
// index, as git's messages name paths in forms that can't be parsed safely.
func (m *merge) findConflicts(ctx context.Context, index string, cause error) error {
	var conflicts []string
	probe := m.index + ".probe"
	for _, name := range m.results[:min(len(m.results), maxProbes)] {
		if err := git.CopyFile(index, probe); err != nil {
			return err
		}
		_, err := m.gitApply(ctx, probe, "--cached", "--3way", "--include="+git.EscapeWildcards(name))
		if err == nil {
			continue
		}
		if failed, ok := errors.AsType[*git.ExitError](err); !ok || failed.Cause != nil {
			return err
		}
		conflicts = append(conflicts, name)
		// Only the creation of a file applies where there are no files.
		if _, err := m.gitApply(ctx, m.index+".none", "--cached", "--include="+git.EscapeWildcards(name)); err == nil {
			m.created = append(m.created, name)
			if err := os.Remove(m.index + ".none"); err != nil {
				return err
			}
		}
	}
	return m.conflict(conflicts, cause)
}

// conflict returns the error for a patch that can't be applied.
func (m *merge) conflict(paths []string, cause error) error {
	slices.Sort(paths)
	e := &git.Error{Code: CodePatchConflict, Paths: paths, Err: cause,
		Message: "the patch does not apply to the current files",
		Hint:    "nothing was changed; commit or undo your changes to these files, or apply the patch by hand"}
	if len(paths) == 0 {
		return e
	}
	e.Param, e.Err = paths[0], nil
	e.Message = fmt.Sprintf("the patch conflicts with the current %q", paths[0])
	if len(paths) > 1 {
		e.Message += fmt.Sprintf(" and %d more", len(paths)-1)
	}
	if m.allInTheWay(paths) {
		e.Code = CodeWouldOverwrite
		e.Message = strings.Replace(e.Message, "conflicts with the current", "would overwrite", 1)
		e.Hint = "nothing was changed; move these files away first"
	}
	return e
}

// allInTheWay reports whether all conflicts are existing paths where the patch creates files.
func (m *merge) allInTheWay(paths []string) bool {
	for _, path := range paths {
		switch m.existing[path].kind {
		case occupied:
		case file:
			if !slices.Contains(m.created, path) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
