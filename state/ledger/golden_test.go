package ledger_test

import (
	"encoding/json"
	"testing"

	"holon/state/ledger"
)

// Records that earlier versions wrote, with what they took from other packages, are read and written back byte by byte.
func TestRecordsAsTheyWereWritten(t *testing.T) {
	const (
		closure = `{"outcome":"waiting","waiting_reason":"awaiting_timer","runtime_posture":"sleeping",` +
			`"evidence":["the newest turn drained","wait wait_1 is active: timer"]}`
		artifact = `{"category":"provider","kind":"rate_limited","summary":"too many \u003crequests\u003e",` +
			`"provider":"lab","model_ref":"lab/m","status":429,"exit_status":0,"source_chain":["a","b"],` +
			`"metadata":{"k":"v"}}`
		timeline = `{"attempts":[],"omitted":2,"requested_model_ref":"lab/m","winning_model_ref":"lab/n",` +
			`"aggregated_token_usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`
		failure = `{"occurred_at":"2026-11-22T03:04:05.678Z","phase":"runtime_turn","code":"rate_limited",` +
			`"summary":"s","failure_artifact":` + artifact + `}`
	)
	for name, c := range map[string]struct {
		record any
		want   string
	}{
		"state": {new(ledger.AgentState), `{"agent_id":"ada","revision":1,"event_seq":2,"admitted":3,"turns":4,` +
			`"progress":{},"totals":{"total_message_count":0,"total_model_rounds":0,"total_input_tokens":0,` +
			`"total_output_tokens":0},"last_failure":` + failure + `,"last_closure":` + closure + `,"last_resolved":` +
			`{"trigger_kind":"timer_fire","class":"resume_expected_wait","model_reentry":true,` +
			`"prior_closure_outcome":"waiting","prior_waiting_reason":"awaiting_timer","matched_waiting_reason":true,` +
			`"evidence":null},"updated_at":"2026-11-22T03:04:05.678Z"}`},
		"new state": {new(ledger.AgentState), `{"agent_id":"ada","revision":0,"event_seq":0,"admitted":0,"turns":0,` +
			`"progress":{},"totals":{"total_message_count":0,"total_model_rounds":0,"total_input_tokens":0,` +
			`"total_output_tokens":0},"updated_at":"2026-11-22T03:04:05.678Z"}`},
		"turn": {new(ledger.Turn), `{"turn_id":"turn_1","agent_id":"ada","turn_index":1,"attempt_id":"att_1",` +
			`"message_id":"msg_1","kind":"aborted","model_rounds":1,"tool_calls":0,"provider_attempt_timeline":` +
			timeline + `,"closure":` + closure + `,"failure":` + failure + `,"started_at":"2026-11-22T03:04:05.000Z",` +
			`"completed_at":"2026-11-22T03:04:06.000Z","duration_ms":1000}`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := json.Unmarshal([]byte(c.want), c.record); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(c.record)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("written back:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}
