package view

import (
	"testing"

	"holon/test/expect"

	"holon/state"
	"holon/state/ledger"
)

// The local engine has no container in which the home would lie elsewhere.
func TestWhereTheHomeLies(t *testing.T) {
	home := func(string) string { return "/srv/agents/main" }
	for engine, want := range map[string]string{"local": "/srv/agents/main", "docker": homeMount} {
		plan := func(string, string) *PlanArtifact { return &PlanArtifact{RelativePath: "work-items/w/plan.md"} }
		s := New(ledger.View{}, Facts{Engine: engine, Home: home, Plan: plan})
		now, _, err := s.entered(ledger.AgentState{AgentID: "main"})
		expect.NoError(t, err)
		expect.Equal(t, engine+": the agent works in", s.execution(ledger.Agent{ID: "main"}, now).Cwd, want)
		if got := s.plan("main", "w").Path; got != want+"/work-items/w/plan.md" {
			t.Errorf("%s: the plan is %s, want one below %s", engine, got, want)
		}
	}
}

// The policy that is shown is what is in force, not what the engine could do.
func TestExecutionPolicy(t *testing.T) {
	const off, shaped = string(state.NotEnforced), string(state.RuntimeShaped)
	inForce := func(change func(*state.Isolation)) func(string) *state.Isolation {
		var in state.Isolation
		for _, axis := range in.All() {
			axis.Level = state.HardEnforced
		}
		change(&in)
		return func(string) *state.Isolation { return &in }
	}
	for name, tc := range map[string]struct {
		facts                             Facts
		network, paths, children, process string
		host                              string
	}{
		"docker":       {Facts{Engine: "docker", Network: "none"}, hard, hard, hard, hard, hard},
		"local":        {Facts{Engine: "local"}, off, off, off, off, off},
		"with network": {Facts{Engine: "docker", Network: "bridge"}, shaped, hard, hard, shaped, hard},
		"no pid limit": {Facts{Engine: "docker", Weaker: []string{"pids"}}, hard, hard, off, hard, hard},
		"read back": {Facts{Engine: "docker", Isolation: inForce(func(in *state.Isolation) {
			in.Network.Level, in.Mounts.Level = state.RuntimeShaped, state.NotEnforced
		})}, shaped, off, hard, off, off},
		"no container": {Facts{Engine: "docker", Isolation: func(string) *state.Isolation { return nil }}, hard, hard,
			hard, hard, hard},
	} {
		p := New(ledger.View{}, tc.facts).execution(ledger.Agent{ID: "main"}, WorkspaceEntry{}).Policy
		got := []string{p.ProcessExecution["network_confinement"], p.ProcessExecution["path_confinement"],
			p.ProcessExecution["child_process_containment"], p.ResourceAuthority["process_execution"],
			p.ResourceAuthority["control_plane"]}
		for i, want := range []string{tc.network, tc.paths, tc.children, tc.process, tc.host} {
			if got[i] != want {
				t.Errorf("%s: %q, the %d. is to be %s", name, got, i+1, want)
			}
		}
	}
}
