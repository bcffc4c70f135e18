package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/engine"
)

// limitAxes are what control groups keep.
var limitAxes = []string{"memory", "pids", "cpu"}

// checkCgroups compares the limits that were asked for with those that the engine
// says, and those with what the container sees.
func (e *examination) checkCgroups(context.Context) []Result {
	p := &e.place
	if p.user == nil {
		return skipped("the engine limits nothing")
	}
	if weak := e.weak(func(name string) bool { return slices.Contains(limitAxes, name) }); weak != nil {
		return weak
	}
	limits := fmt.Sprintf("version %s: memory %s, %d processes, %s CPUs", p.info.CgroupVersion,
		visible.Size(p.spec.Memory), engine.MaxPids, p.state.Isolation.CPU.Value)
	if s := p.seen; s != nil && s.CgroupVersion != 0 {
		if s.Memory > p.spec.Memory || s.Pids > engine.MaxPids || s.Pids == 0 ||
			s.Memory == 0 && p.spec.Memory != engine.Unlimited {
			return one(seen("the engine says %s; the container sees memory %d, %d processes (0: none)", limits,
				s.Memory, s.Pids).but(statusWarning,
				"look whether the kernel has the memory and pids controllers, and "+
					"the engine uses them"))
		}
		return one(seen("%s; the container sees the same", limits))
	}
	return one(seen("%s", limits))
}

// checkIsolation is the same for what else confines a container.
func (e *examination) checkIsolation(context.Context) []Result {
	p := &e.place
	if p.user == nil {
		return skipped("the engine confines nothing")
	}
	if weak := e.weak(func(name string) bool { return !slices.Contains(limitAxes, name) }); weak != nil {
		return weak
	}
	if s := p.seen; s != nil && (strings.Trim(s.Capabilities, "0") != "" || !s.NoNewPrivileges) {
		return one(seen("the engine says otherwise, but the container has the capabilities %s, and no_new_privs is %t",
			s.Capabilities, s.NoNewPrivileges).but(statusFailed, "use another engine or --runtime"))
	}
	iso := p.state.Isolation
	return one(seen("capabilities %s, seccomp %s, network %s, read-only root, no new privileges",
		iso.Capabilities.Value, iso.Seccomp.Value, iso.Network.Value))
}

// weak is what the engine keeps less strictly than asked for, nil for nothing.
func (e *examination) weak(about func(string) bool) (list []Result) {
	names := engine.Weak(e.place.state.Isolation, e.place.spec)
	for name, axis := range e.place.state.Isolation.Axes() {
		if !about(name) || !slices.Contains(names, name) {
			continue
		}
		list = append(list, e.weaker(name, axis))
	}
	return list
}

// weaker is the result for an axis that is looser than asked for.
func (e *examination) weaker(name string, axis engine.Axis) Result {
	r := seen("%s is %s (%s)", name, axis.Level, axis.Value)
	if slices.Contains(e.Accept, name) {
		return r.but(statusWarning, "it was accepted (--accept-weaker)")
	}
	return r.but(statusFailed, "use another engine, --runtime or --user, or --accept-weaker "+name+
		" if that is what you want")
}
