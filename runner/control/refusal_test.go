package control

import (
	"testing"

	"holon/runner/control/wire"
	"holon/runner/engine"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/state"
)

// What a container refuses for good is told as that, and not as if another try could help.
func TestRefusalsOfContainers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, want state.Code
		status     int
		retryable  bool
	}{
		{"turn_conflict", "conflict", 409, false},
		{"input_conflict", "conflict", 409, false},
		{"idempotency_conflict", "idempotency_conflict", 409, false},
		{"not_found", "not_found", 404, false},
		{"item_not_found", "not_found", 404, false},
		{"missing_required_parameter", "missing_field", 400, false},
		{"queue_full", "queue_full", 429, true},
		{pool.CodeNoHome, "container_unusable", 409, false},
		{engine.CodeImageNotFound, "container_unusable", 409, false},
		{engine.CodeInvalidSpec, "container_unusable", 409, false},
		{engine.CodeCannotRun, "container_unusable", 409, false},
		{gateway.CodeMissingCredentials, "container_unusable", 409, false},
		{engine.CodeUnreachable, "container_unavailable", 502, true},
		{engine.CodeFailed, "container_unavailable", 502, true},
	} {
		f, status, known := wire.Explain(ofContainer(&state.Error{Code: c.code, Message: "no", Param: "task_id"}))
		if f.Error.Code != c.want || status != c.status || !known || f.Error.Retryable != c.retryable {
			t.Errorf("%s is told as %d %+v, want %d %s", c.code, status, f.Error, c.status, c.want)
		}
	}
	for code, want := range map[state.Code]bool{"idempotency_conflict": false, "not_found": false, "queue_full": false,
		"runtime_not_ready": true} {
		f, _, _ := wire.Explain(refusal(&state.Error{Code: code, Message: "no"}))
		if f.Error.Retryable != want {
			t.Errorf("a command that is refused for %s: %+v, want retryable %v", code, f.Error, want)
		}
	}
}
