package prompt

import (
	"holon/responses/turns"
	"holon/state"
)

// Report is the prompt that a text would be sent in, and what agentd makes of it for the model.
type Report struct {
	Prompt
	Request *turns.Preview `json:"request,omitempty"`
	// Unknown says why there is no Request.
	Unknown *state.Failure `json:"unknown,omitempty"`
}
