package engine

import (
	"fmt"

	"holon/state"
)

// Code classifies an error of an engine.
type Code = state.Code

// The codes of Error.
const (
	CodeUnreachable      Code = "engine_unreachable" // the engine does not answer
	CodePermissionDenied Code = "permission_denied"  // it answers, but not to this user
	CodeImageNotFound    Code = "image_not_found"
	CodeConflict         Code = "engine_conflict"     // a name in use, a second start
	CodeResourceLimit    Code = "resource_limit"      // a limit that cannot be kept, or a full disk
	CodeInvalidSpec      Code = "invalid_spec"        // Param names the field of Spec
	CodeNotFound         Code = "container_not_found" // the handle's program does not exist
	CodeCannotRun        Code = "cannot_run"          // the program is not in the image or not executable
	CodeFailed           Code = "engine_error"        // anything else the engine said
)

// Error is the error of every engine; Param names the field of Spec, or the
// flag, at fault.
type Error = state.Error

// CheckHandle refuses a handle that was read and that the engine named engineName cannot have made. The verbs of an
// engine get those that were checked, or that it made.
func CheckHandle(h Handle, engineName string) error {
	if h.Version != HandleVersion || h.Engine != engineName || !ValidName(h.Name) || !ValidName(h.ID) {
		return invalid("handle", "remove the record that holds it", "%.80q of version %d is not a handle of the engine %.40q",
			h.ID, h.Version, engineName)
	}
	return nil
}

// CheckLabels refuses an empty selection for List.
func CheckLabels(labels map[string]string) error {
	if len(labels) == 0 {
		return invalid("labels", "name at least one label", "no labels to list by")
	}
	return nil
}

func invalid(param, hint, format string, args ...any) *Error {
	return &Error{Code: CodeInvalidSpec, Param: param, Hint: hint, Message: fmt.Sprintf(format, args...)}
}
