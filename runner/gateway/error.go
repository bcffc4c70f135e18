package gateway

import (
	"fmt"

	"holon/runner/socket"
	"holon/state"
)

// Code classifies an error of this package.
type Code = state.Code

// The codes of Error.
const (
	CodeInvalidProvider    Code = "invalid_provider"    // Param names the setting
	CodeMissingCredentials Code = "missing_credentials" // a provider that needs a key has none
	CodeSocketUnusable          = socket.CodeUnusable   // the socket can't be served
	CodeInvalidGrant       Code = "invalid_grant"       // a turn can't be let in so
	CodeNoPrice            Code = "no_price"            // spending is limited and a model has no price
)

// Error is the error of New, Serve and Grant. Its message holds no secret; Param names
// the setting at fault.
type Error = state.Error

// invalid returns the error about one setting of a provider.
func invalid(provider, setting, hint, format string, args ...any) *Error {
	return &Error{
		Code:    CodeInvalidProvider,
		Param:   fmt.Sprintf("providers.%s.%s", provider, setting),
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
	}
}
