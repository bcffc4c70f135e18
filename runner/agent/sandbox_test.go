package agent

import (
	"encoding/json"
	"testing"

	"holon/responses/turns"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

func TestTheEngineSaysWhatIsEnforced(t *testing.T) {
	t.Parallel()
	told := turns.Scope{}.SandboxApplied("/work").Payload
	var in *state.Isolation
	rec := &recorder{Runtime: &Runtime{cfg: Config{Isolation: func(string) *state.Isolation { return in }}}}
	mode := ""
	enforcement := func() map[string]string {
		var p turns.Sandbox
		if err := json.Unmarshal(rec.sandbox(told), &p); err != nil || p.Profile.Cwd != "/work" {
			t.Fatalf("the profile is %+v (%v), want that of agentd", p.Profile, err)
		}
		mode = p.Profile.Mode
		return p.Enforcement
	}
	if got := enforcement(); got["network"] != "unknown" {
		t.Errorf("without a container that is known, network is %q, want unknown", got["network"])
	}
	in = &state.Isolation{Network: state.Axis{Level: state.HardEnforced}, Pids: state.Axis{Level: state.RuntimeShaped}}
	if got := enforcement(); len(got) != 4 || got["network"] != "enforced" || got["process"] != "not_enforced" {
		t.Errorf("enforcement %v, want of four axes network enforced and process not_enforced", got)
	}
	expect.Equal(t, "the mode of a container that holds something", mode, turns.ModeExternal)
	in = &state.Isolation{}
	for _, axis := range in.All() {
		axis.Level = state.NotEnforced
	}
	if got := enforcement(); mode != turns.ModeUnconfined {
		t.Errorf("the mode where nothing holds the tools (%v) is %s, want %s", got, mode, turns.ModeUnconfined)
	}
}

// agentd is asked for a model in each request; only the host knows who chose it.
func TestTheHostSaysWhoChoseAModel(t *testing.T) {
	t.Parallel()
	told := turns.Scope{}.Event(turns.RoutingDecided, turns.Routing{SelectedProvider: "p", SelectedModel: "m",
		CandidateCount: 2, DecisionSource: "request", FallbackChain: []string{"q/n"}}).Payload
	for model, want := range map[string]string{"": "default", "p/m": "session"} {
		var p turns.Routing
		rec := &recorder{attempt: ledger.Attempt{Model: model}}
		expect.NoError(t, json.Unmarshal(rec.routing(told), &p))
		if p.DecisionSource != want || p.SelectedModel != "m" || p.CandidateCount != 2 || len(p.FallbackChain) != 1 {
			t.Errorf("for an agent with the model %q: %+v, want the decision of %s and the rest as it was", model, p, want)
		}
	}
}
