package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/workspace/git"
	"holon/state"
)

// clientCodes are the codes of this package, and of those below it, that say what a client can do.
var clientCodes = strings.Fields("not_a_directory bare_repository broken_repository unsafe_ownership leads_elsewhere " +
	"foreign_objects missing_objects unsafe_path patch_conflict would_overwrite executed_files " +
	"diff_outdated changed_meanwhile not_a_repository nothing_changed branch_exists path_exists checked_out " +
	"permission_denied disk_full too_large busy tree_gone " + CodeNotMarked)

// maxNamed is how many files a message names.
const maxNamed = 10

// Typed makes an error of this package, or of one below it, one that control plane, tools and clients report. Its
// parameter is that of a request: branch or path if that is at fault, else param. Other errors stay as they are.
func Typed(err error, param string) error {
	e, ok := errors.AsType[*git.Error](err)
	if !ok {
		return err
	}
	out := &state.Error{Code: state.Code(e.Code), Message: e.Message, Param: param, Hint: e.Hint, Err: e.Err}
	if flag := strings.TrimPrefix(e.Param, "--"); flag == "branch" || flag == "path" {
		out.Param = flag
	}
	if e.Err != nil && !git.IsCancelled(e.Err) { // clients get the message alone
		out.Message, out.Err = e.Message+": "+visible.OneLine(e.Err.Error(), 1000), nil
	}
	switch {
	case e.Code == CodeConflict:
		out.Code = "merge_conflict"
	case e.Code == CodeReleased:
		out.Code = CodeTreeGone
	case e.Code == git.CodeInvalidOption:
		out.Code = "invalid_value"
	case !slices.Contains(clientCodes, e.Code):
		out.Code = git.CodeFailed
	}
	if len(e.Paths) > 1 || len(e.Paths) == 1 && !strings.Contains(e.Message, visible.Quoted(e.Paths[0])) {
		out.Message += ": " + NamesOf(e.Paths)
	}
	return out
}

// NamesOf lists files, as many as a message has room for.
func NamesOf(paths []string) string {
	names := make([]string, 0, maxNamed)
	for _, name := range paths[:min(len(paths), maxNamed)] {
		names = append(names, visible.Quoted(visible.Clip(name, 200)))
	}
	if more := len(paths) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
