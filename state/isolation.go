package state

import (
	"iter"
	"reflect"
	"slices"
)

// Level says how far an axis of the isolation can be relied on.
type Level string

// The levels, as the record of a run shows them.
const (
	HardEnforced  Level = "hard_enforced"  // the kernel enforces the strict value
	RuntimeShaped Level = "runtime_shaped" // the engine narrows it, but less than the strict value
	NotEnforced   Level = "not_enforced"   // the program has what the host has
)

// Axis is one aspect of the isolation with the value read back.
type Axis struct {
	Level Level  `json:"level"`
	Value string `json:"value"`
}

// Isolation is what the engine says is in force for one program, axis by axis.
type Isolation struct {
	User            Axis `json:"user"`                 // "uid:gid"; uid 0 is runtime_shaped
	Separation      Axis `json:"privilege_separation"` // the program's own user, apart from that of its commands; "none"
	Capabilities    Axis `json:"capabilities"`         // "none", or those that are left
	NoNewPrivileges Axis `json:"no_new_privileges"`    // "true" or "false"
	Seccomp         Axis `json:"seccomp"`              // the profile
	ReadOnlyRoot    Axis `json:"read_only_root"`       // "true" or "false"
	Network         Axis `json:"network"`              // the mode
	Pids            Axis `json:"pids"`                 // the limit
	Memory          Axis `json:"memory"`               // the limit in bytes, and of swap
	CPU             Axis `json:"cpu"`                  // the limit in CPUs
	OpenFiles       Axis `json:"open_files"`           // the limit per process
	FileSize        Axis `json:"file_size"`            // the limit in bytes of one file
	CoreDumps       Axis `json:"core_dumps"`           // "none", or the limit in bytes
	Tmpfs           Axis `json:"tmpfs"`                // "target bytes/inodes" of what is in memory, sorted
	IPC             Axis `json:"ipc"`                  // the namespace
	Cgroup          Axis `json:"cgroup"`               // the namespace
	MaskedPaths     Axis `json:"masked_paths"`         // how much of /proc and /sys is hidden or read-only
	Init            Axis `json:"init"`                 // of process 1; all others end with it
	Devices         Axis `json:"devices"`              // devices given to the program
	Mounts          Axis `json:"mounts"`               // "target ro, target rw", sorted
}

// Confined reports whether every axis but the named exceptions (by JSON name)
// is hard_enforced.
func (i Isolation) Confined(except ...string) bool {
	for name, axis := range i.Axes() {
		if axis.Level != HardEnforced && !slices.Contains(except, name) {
			return false
		}
	}
	return true
}

// Axes yields the axes with their JSON names, in the order of the struct.
func (i Isolation) Axes() iter.Seq2[string, Axis] {
	return func(yield func(string, Axis) bool) {
		for name, axis := range i.All() {
			if !yield(name, *axis) {
				return
			}
		}
	}
}

// All is Axes for callers that change them.
func (i *Isolation) All() iter.Seq2[string, *Axis] {
	return func(yield func(string, *Axis) bool) {
		axes := reflect.ValueOf(i).Elem()
		for n := range axes.NumField() {
			axis, _ := reflect.TypeAssert[*Axis](axes.Field(n).Addr())
			if !yield(axes.Type().Field(n).Tag.Get("json"), axis) {
				return
			}
		}
	}
}
