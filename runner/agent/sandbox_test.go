package agent

import (
	"encoding/json"
	"testing"

	"holon/responses/turns"
	"holon/state"
)

func TestTheEngineSaysWhatIsEnforced(t *testing.T) {
	told := turns.Scope{}.SandboxApplied("/work").Payload
	var in *state.Isolation
	rec := &recorder{Runtime: &Runtime{cfg: Config{Isolation: func(string) *state.Isolation { return in }}}}
	enforcement := func() map[string]string {
		var p turns.Sandbox
		if err := json.Unmarshal(rec.sandbox(told), &p); err != nil || p.Profile.Cwd != "/work" {
			t.Fatalf("the profile is %+v (%v), want that of agentd", p.Profile, err)
		}
		return p.Enforcement
	}
	if got := enforcement(); got["network"] != "unknown" {
		t.Errorf("without a container that is known, network is %q, want unknown", got["network"])
	}
	in = &state.Isolation{Network: state.Axis{Level: state.HardEnforced}, Pids: state.Axis{Level: state.RuntimeShaped}}
	if got := enforcement(); len(got) != 4 || got["network"] != "enforced" || got["process"] != "not_enforced" {
		t.Errorf("enforcement %v, want of four axes network enforced and process not_enforced", got)
	}
}
