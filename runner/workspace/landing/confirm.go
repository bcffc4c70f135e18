package landing

import (
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
)

// Confirm decides whether files that programs execute may be written. If it returns an error, nothing is written. A nil
// Confirm refuses every change with such files.
type Confirm func(files []workspace.Warning) error

// ask calls the function if there are files that programs execute.
func (c Confirm) ask(files []workspace.Warning) error {
	if len(files) == 0 {
		return nil
	}
	if c != nil {
		return c(files)
	}
	return Unconfirmed(files, "last")
}

// Named is how many directories and files the message of Unconfirmed names.
const Named = 10

// Unconfirmed is the error about files of a run that are not written unless a person agrees.
func Unconfirmed(files []workspace.Warning, run string) *git.Error {
	e := &git.Error{Code: CodeExecutedFiles, Param: "--allow-executed",
		Hint: "read them with holon diff " + run + ", then give --allow-executed if you mean it"}
	for _, w := range files {
		e.Paths = append(e.Paths, w.Path)
	}
	var names []string
	left := len(files)
	for _, g := range workspace.GroupExecuted(files) {
		if len(names) == Named { // Paths has them all
			names = append(names, fmt.Sprintf("%d more files (holon diff --executed %s lists all)", left, run))
			break
		}
		name := visible.Quoted(visible.Clip(g.Pattern, 200))
		if left -= g.Files; g.Files > 1 {
			name += fmt.Sprintf(" (%d files)", g.Files)
		}
		names = append(names, name)
	}
	e.Message = "nothing was written: programs execute " + strings.Join(names, ", ")
	return e
}

// AsRead refuses a change whose result is none of those that were read: what nobody has seen is not written. Without
// any, or without a change, there is nothing to refuse.
func AsRead(diff *workspace.Diff, resultTrees []string) error {
	if len(resultTrees) == 0 || diff.PatchBytes == 0 || slices.Contains(resultTrees, diff.ResultTree) {
		return nil
	}
	return &git.Error{Code: CodeDiffOutdated, Message: "the changes are not the ones that were shown any more, " +
		"so nothing was written", Hint: "read them again, then apply them"}
}
