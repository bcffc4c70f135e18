package state

import (
	"errors"
	"strings"
)

// Code classifies an Error. The codes of this package and its stores are below;
// packages that use the type define theirs.
type Code string

// The codes of Error.
const (
	CodeHomeUnusable    Code = "home_unusable"    // HOLON_HOME can't be used
	CodeInvalidRunID    Code = "invalid_run_id"   // not a run's id, nor the beginning of one
	CodeRunNotFound     Code = "run_not_found"    //
	CodeRunAmbiguous    Code = "run_ambiguous"    // the beginning of several ids
	CodeRunExists       Code = "run_exists"       //
	CodeManifestInvalid Code = "manifest_invalid" // Param names the key
	CodeOutputUnusable  Code = "output_unusable"  // the directory given for results
	CodeNotHeld         Code = "run_not_held"     // writing to a run of another process
	CodeRunLive         Code = "run_live"         // another process holds the run
	CodeInvalidAgent    Code = "invalid_agent"    // not an agent's id
	CodeInvalidSession  Code = "invalid_session"  // not a conversation's id
)

// Error is the one error type of the host's side: of this package and its
// stores, and of the engines and the gateway, which add codes of their own.
// Message is one line for a person; Param names the setting, flag or key at
// fault, if one is; Hint is the remedy. Err is the cause and may be nil.
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

// Named is the message of an error with the setting or the provider that it is about, for where that is not shown next
// to it.
func Named(param, message string) string {
	if param == "" || strings.HasPrefix(message, param) || strings.HasPrefix(param, "--") {
		return message
	}
	return param + ": " + message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsCode reports whether an *Error with the code is in the chain of err.
func IsCode(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
