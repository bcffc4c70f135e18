package kubernetes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"holon/runner/engine"
)

// isolation judges what the cluster says of a Pod. Where it says nothing, or something this code does not know, the
// axis is not_enforced; where that depends on the node, runtime_shaped.
func isolation(pod *corev1.Pod, policies []networkingv1.NetworkPolicy) engine.Isolation {
	c := agentOf(pod)
	s, spec := deref(c.SecurityContext), pod.Spec
	privileged := deref(s.Privileged)
	out := engine.Isolation{
		User:            userAxis(s),
		Separation:      axis(engine.NotEnforced, "none"),
		Capabilities:    capabilitiesAxis(s),
		NoNewPrivileges: choose(s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation, "true", "false"),
		Seccomp:         seccompAxis(s),
		ReadOnlyRoot:    choose(deref(s.ReadOnlyRootFilesystem), "true", "false"),
		Network:         networkAxis(pod, policies),
		Pids:            axis(engine.RuntimeShaped, "the node's limit"),
		Memory:          memoryAxis(c.Resources),
		CPU:             cpuAxis(c.Resources.Limits),
		OpenFiles:       flagAxis(c.Command, flagOpenFiles),
		FileSize:        flagAxis(c.Command, flagFileSize),
		CoreDumps:       flagAxis(c.Command, flagCore),
		Tmpfs:           tmpfsAxis(spec.Volumes, c.VolumeMounts),
		IPC:             choose(!spec.HostIPC, "private to the Pod", "host"),
		Cgroup:          axis(engine.RuntimeShaped, "the node's default"),
		MaskedPaths: choose(!privileged && (s.ProcMount == nil || *s.ProcMount == corev1.DefaultProcMount), "default",
			"none"),
		Init: choose(!spec.HostPID && !deref(spec.ShareProcessNamespace), "engine's init", "shared"),
		Devices: choose(!privileged && len(c.VolumeDevices)+len(c.Resources.Claims)+len(others(c.Resources.Limits)) == 0,
			"none", "some"),
		Mounts: mountsAxis(spec.Volumes, c.VolumeMounts),
	}
	if out.CoreDumps.Value == "0" {
		out.CoreDumps.Value = "none"
	}
	if server, command, ok := separation(c); ok {
		out.User, out.Separation = axis(engine.HardEnforced, command), axis(engine.HardEnforced, server)
		out.Capabilities = axis(engine.HardEnforced, "none, "+names(separating)+" of the program itself")
	}
	trustRuntime(&out, deref(spec.RuntimeClassName))
	return out
}

func agentOf(pod *corev1.Pod) corev1.Container {
	for _, c := range pod.Spec.Containers {
		if c.Name == agentName {
			return c
		}
	}
	return corev1.Container{}
}

// separation returns the two users that a program was told to become, which render gave the means and nothing more.
func separation(c corev1.Container) (server, command string, ok bool) {
	for _, v := range c.Env {
		switch v.Name {
		case engine.EnvServer:
			server = v.Value
		case engine.EnvCommand:
			command = v.Value
		}
	}
	s := deref(c.SecurityContext)
	caps := deref(s.Capabilities)
	return server, command, server != "" && command != "" && s.RunAsUser != nil && *s.RunAsUser == 0 &&
		!deref(s.Privileged) && slices.Contains(caps.Drop, "ALL") && slices.Equal(caps.Add, separating)
}

// trustRuntime lowers what a Pod promises to what the runtime that carries it out is known to keep. gVisor has its own
// kernel, to which the node's filter of system calls is not applied. Of others nothing is known.
func trustRuntime(isolation *engine.Isolation, class string) {
	if class == "" {
		return
	}
	gvisor := class == "gvisor" || class == "runsc"
	for name, axis := range isolation.All() {
		weak := !gvisor || name == "no_new_privileges" || name == "seccomp"
		if weak && axis.Level == engine.HardEnforced {
			axis.Level, axis.Value = engine.RuntimeShaped, axis.Value+", as "+class+" keeps it"
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

func userAxis(s corev1.SecurityContext) engine.Axis {
	if s.RunAsUser == nil {
		return axis(engine.NotEnforced, "the image's")
	}
	user := fmt.Sprintf("%d:%d", *s.RunAsUser, deref(s.RunAsGroup))
	if *s.RunAsUser == 0 { // root without capabilities still owns what root owns in a mount
		return axis(engine.RuntimeShaped, user)
	}
	return axis(engine.HardEnforced, user)
}

func capabilitiesAxis(s corev1.SecurityContext) engine.Axis {
	caps := deref(s.Capabilities)
	switch {
	case deref(s.Privileged):
		return axis(engine.NotEnforced, "all")
	case !slices.Contains(caps.Drop, "ALL"):
		return axis(engine.RuntimeShaped, "the node's default set")
	case len(caps.Add) > 0:
		return axis(engine.RuntimeShaped, names(caps.Add))
	}
	return axis(engine.HardEnforced, "none")
}

// names are capabilities as the kernel calls them.
func names(caps []corev1.Capability) string {
	list := make([]string, len(caps))
	for i, c := range caps {
		list[i] = "CAP_" + string(c)
	}
	return strings.Join(list, ",")
}

func seccompAxis(s corev1.SecurityContext) engine.Axis {
	profile := deref(s.SeccompProfile)
	switch {
	case deref(s.Privileged), profile.Type == corev1.SeccompProfileTypeUnconfined, profile.Type == "":
		return axis(engine.NotEnforced, "none")
	case profile.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return axis(engine.HardEnforced, "default")
	}
	return axis(engine.RuntimeShaped, "custom")
}

// memoryAxis: what is reserved whole has no swap.
func memoryAxis(r corev1.ResourceRequirements) engine.Axis {
	limit, asked := r.Limits.Memory().Value(), r.Requests.Memory().Value()
	switch {
	case limit <= 0:
		return axis(engine.NotEnforced, "unlimited")
	case limit != asked:
		return axis(engine.RuntimeShaped, strconv.FormatInt(limit, 10)+", swap of the node")
	}
	return axis(engine.HardEnforced, strconv.FormatInt(limit, 10))
}

func cpuAxis(limits corev1.ResourceList) engine.Axis {
	n := limits.Cpu().MilliValue()
	if n <= 0 {
		return axis(engine.NotEnforced, "unlimited")
	}
	return axis(engine.HardEnforced, strconv.FormatFloat(float64(n)/1000, 'g', -1, 64))
}

// others are resources besides memory and CPUs: devices.
func others(limits corev1.ResourceList) (list []string) {
	for key := range limits {
		if key != corev1.ResourceMemory && key != corev1.ResourceCPU && key != corev1.ResourceEphemeralStorage {
			list = append(list, string(key))
		}
	}
	return list
}

// flagAxis is a limit that agentd sets as process 1, before it starts the program.
func flagAxis(command []string, flag string) engine.Axis {
	for _, arg := range command {
		if value, ok := strings.CutPrefix(arg, flag); ok && len(command) > 0 && command[0] == podAgentd {
			return axis(engine.HardEnforced, value)
		}
	}
	return axis(engine.NotEnforced, "the node's")
}

func volumeOf(volumes []corev1.Volume, name string) corev1.Volume {
	for _, v := range volumes {
		if v.Name == name {
			return v
		}
	}
	return corev1.Volume{}
}

func inMemory(v corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory
}

// tmpfsAxis: the number of files is bounded by the memory limit alone.
func tmpfsAxis(volumes []corev1.Volume, mounts []corev1.VolumeMount) engine.Axis {
	var values []string
	for _, m := range mounts {
		v := volumeOf(volumes, m.Name)
		if !inMemory(v) {
			continue
		}
		size := "unlimited"
		if v.EmptyDir.SizeLimit != nil {
			size = strconv.FormatInt(v.EmptyDir.SizeLimit.Value(), 10)
		}
		values = append(values, m.MountPath+" "+size+"/unlimited")
	}
	slices.Sort(values)
	return axis(engine.RuntimeShaped, strings.Join(values, ", "))
}

func mountsAxis(volumes []corev1.Volume, mounts []corev1.VolumeMount) engine.Axis {
	level, values := engine.HardEnforced, []string{}
	for _, m := range mounts {
		v := volumeOf(volumes, m.Name)
		if inMemory(v) || m.MountPath == holdPath {
			continue
		}
		value := m.MountPath + " rw volume"
		if m.ReadOnly {
			value = m.MountPath + " ro volume"
		}
		if v.EmptyDir == nil || m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			level, value = engine.RuntimeShaped, value+" of the cluster"
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return axis(level, strings.Join(values, ", "))
}
