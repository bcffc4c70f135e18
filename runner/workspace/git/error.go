package git

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Codes of Error. They are stable and part of the runner's records.
const (
	CodeNotADirectory    = "not_a_directory"   // the path is absent or no directory
	CodeBareRepository   = "bare_repository"   // a repository without a working tree
	CodeBrokenRepository = "broken_repository" // git refuses to read the repository
	codeUnsafeOwnership  = "unsafe_ownership"  // the repository belongs to another user
	codeLeadsElsewhere   = "leads_elsewhere"   // the directory leads to a repository that does not name it back
	codeForeignObjects   = "foreign_objects"   // object directories that may not be borrowed from, or hold other files
	CodeGitMissing       = "git_missing"       // no git program on the host
	CodeGitFailed        = "git_failed"        // git failed in a way without a code of its own
	codeGitBudget        = "git_budget"        // git used more time or memory than it may
	CodeMissingObjects   = "missing_objects"   // the repository lacks objects of the base
	CodeUnsafePath       = "unsafe_path"       // a path that must not be written
	CodeTooLarge         = "too_large"         // a limit of Options.Limits was passed
	CodeInvalidOption    = "invalid_option"    // Options or ApplyOptions are unusable
	CodeUnsafeObjects    = "unsafe_objects"    // objects that don't pass git's strict checks
	CodeDiskFull         = "disk_full"         // no space or quota left
	CodePermission       = "permission_denied" // the file system refused
	CodeCancelled        = "cancelled"         // the context ended first
	CodeFailed           = "workspace_failed"  // anything else; the cause says what
)

// Error is the error of every exported function of package workspace and the packages below it.
type Error struct {
	Code    string   // one of the Code constants
	Message string   // one line: what is wrong
	Param   string   // the option or path at fault, when there is one
	Hint    string   // what the caller can do about it
	Paths   []string // the files concerned, raw bytes, for patch_conflict, would_overwrite and executed_files
	Err     error    // the cause, or nil
}

// Error returns message, remedy and cause in one line.
func (e *Error) Error() string {
	text := e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// WithCode returns err as an *Error with the code that callers branch on: the *Error that it wraps, or a new
// one with the code that fits. doing says what was being done.
func WithCode(doing string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Code: CodeFailed, Message: doing, Err: err}
	failed, isGit := errors.AsType[*ExitError](err)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		e.Code, e.Message, e.Err = CodeGitMissing, "there is no git on it", nil
		e.Hint = "install git 2.39 or newer and put it on PATH"
	case isGit && failed.Cause != nil:
		e.Code = CodeCancelled
	case IsDiskFull(err):
		e.Code, e.Hint = CodeDiskFull, "free some space, or move the state directory to another disk"
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) ||
		isGit && strings.Contains(failed.Stderr, "Permission denied"):
		e.Code, e.Hint = CodePermission, "check the owner and the permissions of the path"
	case isGit && failed.missesObjects():
		e.Code, e.Hint = CodeMissingObjects,
			"fetch the missing objects (a partial clone needs `git fetch --refetch --no-filter`) and run again"
	case isGit:
		e.Code = CodeGitFailed
	case IsCancelled(err):
		e.Code = CodeCancelled
	}
	return e
}

// IsDiskFull reports whether a call of ours or git failed because the disk or a quota is full.
func IsDiskFull(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	failed, ok := errors.AsType[*ExitError](err)
	return ok && slices.ContainsFunc([]string{"no space left on device", "out of diskspace", "disk quota exceeded"},
		func(text string) bool { return strings.Contains(strings.ToLower(failed.Stderr), text) })
}

func AsExitError(err error) (*ExitError, bool) { return errors.AsType[*ExitError](err) }

func InvalidOption(param, format string, args ...any) *Error {
	return &Error{Code: CodeInvalidOption, Param: param, Message: fmt.Sprintf(format, args...)}
}
