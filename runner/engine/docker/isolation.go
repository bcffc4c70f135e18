package docker

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"

	"holon/runner/engine"
)

// isolation judges what the daemon says of a container. Where the daemon says
// nothing, or something this code does not know, the axis is not_enforced.
func isolation(found container.InspectResponse, daemon *system.Info) engine.Isolation {
	host, unlimited := found.HostConfig, axis(engine.NotEnforced, "unlimited")
	out := engine.Isolation{
		User:            userAxis(found.Config.User),
		Separation:      axis(engine.NotEnforced, "none"),
		Capabilities:    capabilitiesAxis(host),
		NoNewPrivileges: choose(hasNoNewPrivileges(host.SecurityOpt), "true", "false"),
		Seccomp:         seccompAxis(host, daemon),
		ReadOnlyRoot:    choose(host.ReadonlyRootfs, "true", "false"),
		Network:         namespaceAxis(string(host.NetworkMode), engine.NetworkNone),
		Pids:            bounded(*cmp.Or(host.PidsLimit, new(int64)), unlimited),
		Memory:          memoryAxis(host.Memory, host.MemorySwap),
		CPU:             cpuAxis(host.NanoCPUs, host.CPUQuota, host.CPUPeriod),
		OpenFiles:       bounded(ulimit(host, "nofile"), axis(engine.RuntimeShaped, enginesDefault)),
		FileSize:        bounded(ulimit(host, "fsize"), unlimited),
		CoreDumps:       coreDumpsAxis(host),
		Tmpfs:           tmpfsAxis(host),
		IPC:             namespaceAxis(string(host.IpcMode), "private", "none"),
		Cgroup:          choose(host.CgroupnsMode.IsPrivate(), string(host.CgroupnsMode), "host"),
		MaskedPaths:     maskedPathsAxis(host),
		Init:            initAxis(host),
		Devices:         devicesAxis(host),
		Mounts:          mountsAxis(found.Mounts),
	}
	if server, command, ok := separation(found.Config, host); ok {
		out.User, out.Separation = userAxis(command), axis(engine.HardEnforced, server)
		out.Capabilities = axis(engine.HardEnforced, "none, "+strings.Join(separating, ",")+" of the program itself")
	}
	if daemon.CgroupDriver == noCgroups {
		for _, limit := range []*engine.Axis{&out.Memory, &out.CPU, &out.Pids} {
			*limit = axis(engine.NotEnforced, limit.Value+", but the engine has no control groups")
		}
	}
	runtime := host.Runtime
	if runtime == "oci" { // Podman's word for the runtime that it uses
		runtime = daemon.DefaultRuntime
	}
	trustRuntime(&out, runtime)
	return out
}

// noCgroups is the driver of a daemon that takes limits and keeps none, as one without root on cgroup v1.
const noCgroups = "none"

// separation returns the two users that a program was told to become, which request gave the means and nothing more.
func separation(config *container.Config, host *container.HostConfig) (server, command string, ok bool) {
	for _, variable := range config.Env {
		switch name, value, _ := strings.Cut(variable, "="); name {
		case engine.EnvServer:
			server = value
		case engine.EnvCommand:
			command = value
		}
	}
	return server, command, server != "" && command != "" && config.User == "0:0" && !host.Privileged &&
		slices.Contains(host.CapDrop, "ALL") && slices.Equal(host.CapAdd, separating)
}

// trustRuntime lowers what the daemon's answer promises to what the runtime that
// carries it out is known to keep. The suite in enginetest was run with runc,
// crun and runsc; of others nothing is known. runsc has its own kernel, to which
// the host's filter of system calls is not applied, which counts its threads as
// processes, and which does not bound the inodes of a tmpfs.
func trustRuntime(isolation *engine.Isolation, runtime string) {
	weak := func(string) bool { return true }
	switch runtime {
	case "", "runc", "crun", "io.containerd.runc.v2", "io.containerd.runtime.v1.linux":
		return
	case "runsc":
		weak = func(name string) bool {
			return slices.Contains([]string{"no_new_privileges", "seccomp", "pids", "tmpfs"}, name)
		}
	}
	for name, axis := range isolation.All() {
		if weak(name) && axis.Level == engine.HardEnforced {
			axis.Level, axis.Value = engine.RuntimeShaped, axis.Value+", as "+runtime+" keeps it"
		}
	}
}

func axis(level engine.Level, value string) engine.Axis {
	return engine.Axis{Level: level, Value: value}
}

func choose(enforced bool, yes, no string) engine.Axis {
	if enforced {
		return axis(engine.HardEnforced, yes)
	}
	return axis(engine.NotEnforced, no)
}

func userAxis(user string) engine.Axis {
	uid, _, _ := strings.Cut(user, ":")
	if n, err := strconv.Atoi(uid); err != nil || n == 0 {
		if user == "" {
			user = "0:0"
		}
		// Root without capabilities still owns what root owns in a mount.
		return axis(engine.RuntimeShaped, user)
	}
	return axis(engine.HardEnforced, user)
}

func capabilitiesAxis(host *container.HostConfig) engine.Axis {
	switch {
	case host.Privileged:
		return axis(engine.NotEnforced, "all")
	case slices.Contains(host.CapDrop, "ALL") && len(host.CapAdd) == 0:
		return axis(engine.HardEnforced, "none")
	case slices.Contains(host.CapDrop, "ALL"):
		return axis(engine.RuntimeShaped, strings.Join(host.CapAdd, ","))
	}
	return axis(engine.RuntimeShaped, "the engine's default set")
}

func hasNoNewPrivileges(options []string) bool {
	return slices.ContainsFunc(options, func(option string) bool {
		return option == "no-new-privileges" || option == "no-new-privileges:true" || option == "no-new-privileges=true"
	})
}

func seccompAxis(host *container.HostConfig, daemon *system.Info) engine.Axis {
	profile := seccompProfile(daemon)
	for _, option := range host.SecurityOpt {
		if value, ok := strings.CutPrefix(option, "seccomp="); ok {
			profile = value
		}
	}
	if profile == seccompText {
		profile = ownProfile
	}
	switch {
	case host.Privileged, profile == "unconfined", profile == "none":
		return axis(engine.NotEnforced, "none")
	case profile == "default", profile == "builtin":
		return axis(engine.HardEnforced, "default")
	// what a daemon without the feature is told has no effect
	case profile == ownProfile && seccompProfile(daemon) != "none":
		return axis(engine.HardEnforced, ownProfile)
	}
	return axis(engine.RuntimeShaped, "custom")
}

// enginesDefault is the value of an axis of which the container's settings say nothing.
const enginesDefault = "the engine's default"

// namespaceAxis is about a namespace whose mode is the host's, one of the private ones, or shared with others.
func namespaceAxis(mode string, private ...string) engine.Axis {
	switch {
	case slices.Contains(private, mode):
		return axis(engine.HardEnforced, mode)
	case mode == "host":
		return axis(engine.NotEnforced, mode)
	}
	return axis(engine.RuntimeShaped, cmp.Or(mode, enginesDefault))
}

// bounded is a limit; without holds where there is none.
func bounded(limit int64, without engine.Axis) engine.Axis {
	if limit <= 0 {
		return without
	}
	return axis(engine.HardEnforced, strconv.FormatInt(limit, 10))
}

func memoryAxis(memory, withSwap int64) engine.Axis {
	switch {
	case memory <= 0:
		return axis(engine.NotEnforced, "unlimited")
	case withSwap == memory:
		return axis(engine.HardEnforced, fmt.Sprintf("%d", memory))
	case withSwap <= 0:
		return axis(engine.RuntimeShaped, fmt.Sprintf("%d, swap unlimited", memory))
	}
	return axis(engine.HardEnforced, fmt.Sprintf("%d, swap %d", memory, withSwap-memory))
}

func cpuAxis(nano, quota, period int64) engine.Axis {
	if nano == 0 && quota > 0 && period > 0 {
		nano = quota * 1e9 / period
	}
	if nano <= 0 {
		return axis(engine.NotEnforced, "unlimited")
	}
	return axis(engine.HardEnforced, strconv.FormatFloat(float64(nano)/1e9, 'g', -1, 64))
}

func coreDumpsAxis(host *container.HostConfig) engine.Axis {
	switch hard := ulimit(host, "core"); {
	case hard == 0:
		return axis(engine.HardEnforced, "none")
	case hard > 0:
		return axis(engine.RuntimeShaped, strconv.FormatInt(hard, 10))
	}
	return axis(engine.NotEnforced, "unlimited")
}

// ulimit returns the hard limit that the container's own settings give, a negative
// one where they give none.
func ulimit(host *container.HostConfig, name string) int64 {
	for _, limit := range host.Ulimits {
		if limit.Name == name {
			return limit.Hard
		}
	}
	return -1
}

func tmpfsAxis(host *container.HostConfig) engine.Axis {
	level, values := engine.HardEnforced, make([]string, 0, len(host.Tmpfs)+1)
	for target, options := range host.Tmpfs {
		size, inodes := "unlimited", "unlimited"
		for option := range strings.SplitSeq(options, ",") {
			if value, ok := strings.CutPrefix(option, "size="); ok && value != "0" {
				size = value
			} else if value, ok := strings.CutPrefix(option, "nr_inodes="); ok && value != "0" {
				inodes = value
			}
		}
		if size == "unlimited" || inodes == "unlimited" {
			level = engine.RuntimeShaped // the memory limit still bounds it
		}
		values = append(values, target+" "+size+"/"+inodes)
	}
	if host.ShmSize > 0 { // only the memory limit bounds its inodes
		values = append(values, "/dev/shm "+strconv.FormatInt(host.ShmSize, 10))
	}
	slices.Sort(values)
	if len(values) == 0 {
		values = append(values, "none")
	}
	return axis(level, strings.Join(values, ", "))
}

// What a container could learn of the machine from /proc and /sys, or change
// there.
var (
	mustMask     = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"}
	mustReadOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func maskedPathsAxis(host *container.HostConfig) engine.Axis {
	value := fmt.Sprintf("%d hidden, %d read-only", len(host.MaskedPaths), len(host.ReadonlyPaths))
	switch {
	case host.Privileged || len(host.MaskedPaths)+len(host.ReadonlyPaths) == 0:
		return axis(engine.NotEnforced, value)
	case containsAll(host.MaskedPaths, mustMask) && containsAll(host.ReadonlyPaths, mustReadOnly):
		return axis(engine.HardEnforced, value)
	}
	return axis(engine.RuntimeShaped, value)
}

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(one string) bool { return !slices.Contains(list, one) })
}

// initAxis is about the end of the program: process 1 of a PID namespace takes
// all others with it.
func initAxis(host *container.HostConfig) engine.Axis {
	switch {
	case host.PidMode != "":
		return axis(engine.NotEnforced, string(host.PidMode))
	case host.Init != nil && *host.Init:
		return axis(engine.HardEnforced, "engine's init")
	}
	return axis(engine.HardEnforced, "program")
}

func devicesAxis(host *container.HostConfig) engine.Axis {
	switch n := len(host.Devices) + len(host.DeviceRequests) + len(host.DeviceCgroupRules); {
	case host.Privileged:
		return axis(engine.NotEnforced, "all")
	case n > 0:
		return axis(engine.RuntimeShaped, strconv.Itoa(n))
	}
	return axis(engine.HardEnforced, "none")
}

func mountsAxis(mounts []container.MountPoint) engine.Axis {
	level, values := engine.HardEnforced, make([]string, 0, len(mounts))
	for _, m := range mounts {
		mode := "ro"
		if m.RW {
			mode = "rw"
		}
		value := m.Destination + " " + mode
		if m.Type != mount.TypeBind { // a volume that the image declares
			value += " " + string(m.Type)
		}
		// A mount made on one side would appear on the other.
		if strings.Contains(string(m.Propagation), "shared") || strings.Contains(string(m.Propagation), "slave") {
			level, value = engine.RuntimeShaped, value+" "+string(m.Propagation)
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return axis(level, strings.Join(values, ", "))
}
