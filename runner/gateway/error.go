package gateway

import (
	"errors"
	"fmt"
)

// Code classifies an error of this package.
type Code string

// The codes of Error.
const (
	CodeInvalidProvider    Code = "invalid_provider"    // Param names the setting
	CodeMissingCredentials Code = "missing_credentials" // a provider that needs a key has none
	CodeSocketUnusable     Code = "socket_unusable"     // the socket can't be served
)

// Error is the error of New and Serve. Message is one line for a person and
// holds no secret; Param names the setting at fault; Hint is the remedy. Err is
// the cause and may be nil.
type Error struct {
	Code    Code
	Message string
	Param   string
	Hint    string
	Err     error
}

// Error returns the message and the cause, without the hint.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsCode reports whether an *Error with the code is in the chain of err.
func IsCode(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

// invalid returns the error about one setting of a provider.
func invalid(provider, setting, hint, format string, args ...any) *Error {
	return &Error{
		Code:    CodeInvalidProvider,
		Param:   fmt.Sprintf("providers.%s.%s", provider, setting),
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
	}
}
