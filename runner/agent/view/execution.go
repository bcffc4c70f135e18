package view

import (
	"slices"
	"strings"

	"holon/state"
	"holon/state/ledger"
)

// execution says where an agent's commands run and what holds them there: what the
// engine says of the container that the agent has, or what its next one will get.
func (s Snapshot) execution(a ledger.Agent, now WorkspaceEntry) execution {
	in := s.isolation(a.ID)
	rooted := weakest(in.Mounts, in.Capabilities, in.NoNewPrivileges)
	process := map[string]string{
		"cwd_rooting": rooted, "projection_rooting": rooted, "path_confinement": rooted,
		"write_confinement":         weakest(in.ReadOnlyRoot, in.Mounts, in.Capabilities, in.NoNewPrivileges),
		"network_confinement":       weakest(in.Network),
		"secret_isolation":          weakest(in.Mounts, in.MaskedPaths, in.Capabilities),
		"child_process_containment": weakest(in.Init, in.Pids, in.Cgroup),
	}
	return execution{
		Profile: executionProfile{Backend: s.facts.Engine, ProcessExecutionExposed: true, AllowBackgroundTasks: true,
			SupportsWorktrees: s.facts.Worktrees},
		Policy: executionPolicy{
			Backend: s.facts.Engine, ProcessExposed: true, WorktreeSupported: s.facts.Worktrees,
			ResourceAuthority: map[string]string{
				"message_ingress": rooted, "agent_state": rooted, "control_plane": rooted, "workspace_projection": rooted,
				"process_execution": weakest(in.User, in.Seccomp, in.Network, in.Init,
					in.ReadOnlyRoot, in.Mounts, in.Capabilities, in.NoNewPrivileges),
			},
			ProcessExecution: process,
		},
		WorkspaceID: now.WorkspaceID, WorkspaceAnchor: now.WorkspaceAnchor, ExecutionRoot: now.ExecutionRoot,
		Cwd: now.Cwd, ExecutionRootID: now.ExecutionRootID, ProjectionKind: now.ProjectionKind,
	}
}

// Unenforced is the boundaries that are not enforced, or that none is: what text says of the policy.
func (p executionPolicy) Unenforced() string {
	var names []string
	all := len(p.ResourceAuthority) + len(p.ProcessExecution)
	for _, levels := range []map[string]string{p.ResourceAuthority, p.ProcessExecution} {
		for name, level := range levels {
			if level == notEnforced {
				names = append(names, name)
			}
		}
	}
	switch len(names) {
	case 0:
		return ""
	case all:
		return notEnforced + ": every boundary"
	}
	slices.Sort(names)
	return notEnforced + ": " + strings.Join(names, ", ")
}

// Values of the axes of Enforcement.
const (
	Enforced    = "enforced"
	notEnforced = "not_enforced"
)

// Enforcement is what of an isolation is enforced, in the axes of sandbox.applied.
func Enforcement(in state.Isolation) map[string]string {
	axes := map[string]string{
		"filesystem": weakest(in.ReadOnlyRoot, in.Mounts, in.Capabilities, in.NoNewPrivileges),
		"network":    weakest(in.Network),
		"process":    weakest(in.Init, in.Pids, in.Cgroup),
		"secret":     weakest(in.Mounts, in.MaskedPaths, in.Capabilities),
	}
	for axis, level := range axes {
		axes[axis] = notEnforced
		if level == hard {
			axes[axis] = Enforced
		}
	}
	return axes
}

const hard = string(state.HardEnforced)

// isolation is that of the agent's container. One that is still to be made gets what was
// asked for, since it would not start otherwise; the local engine confines nothing.
func (s Snapshot) isolation(agentID string) state.Isolation {
	if s.facts.Isolation != nil {
		if now := s.facts.Isolation(agentID); now != nil {
			return *now
		}
	}
	var in state.Isolation
	for name, axis := range in.All() {
		switch {
		case s.facts.Engine == "local", slices.Contains(s.facts.Weaker, name):
			axis.Level = state.NotEnforced
		case name == "network" && s.facts.Network != "" && s.facts.Network != "none":
			axis.Level = state.RuntimeShaped
		default:
			axis.Level = state.HardEnforced
		}
	}
	return in
}

// weakest is the level of the weakest axis.
func weakest(axes ...state.Axis) string {
	order := []state.Level{state.NotEnforced, state.RuntimeShaped, state.HardEnforced}
	at := len(order) - 1
	for _, a := range axes {
		at = min(at, max(slices.Index(order, a.Level), 0))
	}
	return string(order[at])
}
