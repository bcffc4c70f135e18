package agent_test

import (
	"testing"

	"holon/responses"
	"holon/runner/agent/rules"
	"holon/runner/credentials"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/modelaccess"
	"holon/state"
)

// The rules know the codes of failures that waiting does not heal, and those that it may.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for code, want := range map[state.Code]bool{
		modelaccess.CodeUnknownProvider: true, modelaccess.CodeUnknownContract: true,
		modelaccess.CodeInvalidReference: true, modelaccess.CodeNoScenario: true,
		responses.CodeScenarioInvalid: true, responses.CodeScenarioNotFound: true,
		credentials.CodeMissing: true, credentials.CodeInvalidKey: true, credentials.CodeExposed: true,
		credentials.CodeUnknown: true, gateway.CodeInvalidProvider: true, gateway.CodeNoPrice: true,
		engine.CodeImageNotFound: true, engine.CodeInvalidSpec: true, engine.CodeCannotRun: true,
		engine.CodeUnreachable: false, engine.CodeFailed: false, engine.CodeConflict: false,
	} {
		if got := rules.Permanent(code); got != want {
			t.Errorf("Permanent(%s) = %v, want %v", code, got, want)
		}
	}
}
