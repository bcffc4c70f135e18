package landing

import (
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace/git"
)

// remedy says what can be done about a conflict; clear is how the files at fault are got out of the way. A branch has
// nothing of what changed within submodules.
func (o ApplyOptions) remedy(clear string) string {
	merge := o.Merge
	switch {
	case len(o.Submodules) > 0:
		merge = ""
	case merge != "":
		merge += ", "
	}
	return "nothing was changed; " + merge + clear + ", or apply the patch by hand: " + o.Patch
}

// conflict returns the error for a patch that can't be applied.
func (m *merge) conflict(paths []string, cause error) error {
	slices.Sort(paths)
	e := &git.Error{Code: CodePatchConflict, Paths: paths, Err: cause,
		Message: "the patch does not apply to the current files",
		Hint:    m.remedy("undo your changes to these files")}
	if len(paths) == 0 {
		return e
	}
	e.Param, e.Err = paths[0], nil
	e.Message = "the patch conflicts with the current " + visible.Quoted(paths[0])
	if len(paths) > 1 {
		e.Message += fmt.Sprintf(" and %d more", len(paths)-1)
	}
	if m.allInTheWay(paths) {
		e.Code = CodeWouldOverwrite
		e.Message = strings.Replace(e.Message, "conflicts with the current", "would overwrite", 1)
		e.Hint = m.remedy("move these files away")
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
