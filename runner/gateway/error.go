package gateway

import (
	"fmt"

	"holon/state"
)

// The codes of errors.
const (
	CodeInvalidProvider    state.Code = "invalid_provider"    // Param names the setting
	CodeMissingCredentials state.Code = "missing_credentials" // a provider that needs a key has none
	CodeInvalidGrant       state.Code = "invalid_grant"       // a turn can't be let in so
	CodeNoPrice            state.Code = "no_price"            // spending is limited and a model has no price
)

// invalid returns the error about one setting of a provider.
func invalid(provider, setting, hint, format string, args ...any) *state.Error {
	return &state.Error{
		Code:    CodeInvalidProvider,
		Param:   fmt.Sprintf("providers.%s.%s", provider, setting),
		Message: fmt.Sprintf(format, args...),
		Hint:    hint,
	}
}
