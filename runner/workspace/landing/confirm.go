package landing

import (
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
)

// Confirm decides whether files that programs execute may be written. If it returns an error, nothing is written. A nil
// Confirm refuses every change with such files.
type Confirm func(files []workspace.Warning) error

// ask calls the function if there are files that programs execute.
func (c Confirm) ask(warnings []workspace.Warning) error {
	var files []workspace.Warning
	for _, w := range warnings {
		if w.Code == workspace.WarnExecuted {
			files = append(files, w)
		}
	}
	if len(files) == 0 {
		return nil
	}
	if c != nil {
		return c(files)
	}
	return Unconfirmed(files, "last")
}

// Unconfirmed is the error about files of a run that are not written unless a person agrees.
func Unconfirmed(files []workspace.Warning, run string) *git.Error {
	e := &git.Error{Code: CodeExecutedFiles, Param: "--allow-executed",
		Hint: "read them with holon diff " + run + ", then give --allow-executed if you mean it"}
	var names []string
	for _, w := range files {
		e.Paths = append(e.Paths, w.Path)
		if len(names) < 10 {
			names = append(names, visible.Quoted(visible.Clip(w.Path, 200)))
		}
	}
	if len(files) > len(names) {
		names = append(names, fmt.Sprintf("%d more", len(files)-len(names)))
	}
	e.Message = "nothing was written: programs execute " + strings.Join(names, ", ")
	return e
}
