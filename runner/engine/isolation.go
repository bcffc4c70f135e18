package engine

import (
	"fmt"

	"holon/state"
)

// Isolation is what the engine says is in force for one program, as the record of a run shows it.
type (
	Isolation = state.Isolation
	Axis      = state.Axis
	Level     = state.Level
)

// The levels of an Axis.
const (
	HardEnforced  = state.HardEnforced
	RuntimeShaped = state.RuntimeShaped
	NotEnforced   = state.NotEnforced
)

// Weak names the axes of i, by JSON name, that are not hard_enforced although spec
// asks for nothing looser there.
func Weak(i Isolation, spec Spec) (names []string) {
	asked := map[string]bool{
		"user": spec.User != nil && spec.User.UID == 0, "network": spec.Network != "" && spec.Network != NetworkNone,
		"memory": spec.Memory == Unlimited, "privilege_separation": spec.Server == nil,
	}
	for name, axis := range i.Axes() {
		if axis.Level != HardEnforced && !asked[name] {
			names = append(names, name)
		}
	}
	return names
}

// Unconfined is the isolation of a program that runs on the host as user.
func Unconfined(user User) Isolation {
	as := func(value string) Axis { return Axis{Level: NotEnforced, Value: value} }
	return Isolation{
		User: as(fmt.Sprintf("%d:%d", user.UID, user.GID)), Separation: as("none"), Capabilities: as("host"),
		NoNewPrivileges: as("false"), Seccomp: as("none"), ReadOnlyRoot: as("false"), Network: as("host"), Pids: as("unlimited"),
		Memory: as("unlimited"), CPU: as("unlimited"), OpenFiles: as("host"), FileSize: as("host"),
		CoreDumps: as("host"), Tmpfs: as("host"), IPC: as("host"), Cgroup: as("host"), MaskedPaths: as("host"),
		Init: as("host"), Devices: as("host"), Mounts: as("host"),
	}
}
