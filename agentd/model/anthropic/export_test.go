package anthropic

import (
	"holon/agentd/model"
	"holon/internal/providers"
)

// For tests of the package from outside.
var ClosedSchema = closedSchema

// EncodeRequest returns the body for Anthropic's own endpoint.
func EncodeRequest(req model.Request) ([]byte, string, error) {
	return encodeRequest(providers.Anthropic, req)
}

// TagCallID returns the id of ours for a call of an answer.
func TagCallID(id, messageID string) string { return id + tagMark + tagOf(messageID) }

// ContractOf returns what the model of that name takes.
func ContractOf(name string) exported { return exported{contractOf(name)} }

type exported struct{ contract }

// Output returns the limit of an answer.
func (e exported) Output(limit *int) int { return e.output(limit) }

// RefusesSampling reports whether the model takes no temperature.
func RefusesSampling(name string) bool { return !contractOf(name).sampling }

// Take returns what takes the events of an answer.
func Take(name string, emit func(model.Event) bool) func([]byte) (bool, error) {
	return newAssembly(providers.Anthropic, contractOf(name), "", emit).Take
}
