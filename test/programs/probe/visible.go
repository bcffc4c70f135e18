package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// visible is what a container must not see or touch of the machine and of other
// containers.
func visible() map[string]func() error {
	return map[string]func() error{
		"host-processes":  hostProcesses,
		"host-sockets":    hostSockets,
		"other-sessions":  otherSessions,
		"docker-socket":   dockerSocket,
		"host-files":      hostFiles,
		"kcore":           func() error { return readSome("/proc/kcore") },
		"keys":            func() error { return readSome("/proc/keys") },
		"timer-list":      func() error { return readSome("/proc/timer_list") },
		"firmware":        func() error { return notEmpty("/sys/firmware") },
		"kernel-messages": func() error { return open("/dev/kmsg", unix.O_RDONLY) },
		"memory-device":   func() error { return open("/dev/mem", unix.O_RDONLY) },
		"disks":           disks,
		"core-pattern":    func() error { return write("/proc/sys/kernel/core_pattern", "|/tmp/x") },
		"modprobe":        func() error { return write("/proc/sys/kernel/modprobe", "/tmp/x") },
		"sysctl":          func() error { return write("/proc/sys/vm/overcommit_memory", "1") },
		"sysrq":           func() error { return write("/proc/sysrq-trigger", "b") },
		"uevent-helper":   func() error { return write("/sys/kernel/uevent_helper", "/tmp/x") },
		"release-agent":   releaseAgent,
		"cgroup-limit":    cgroupLimit,
		"cgroup-make":     cgroupMake,
		"write-root":      func() error { return os.WriteFile("/x", nil, 0o600) },
		"write-etc":       func() error { return os.WriteFile("/etc/x", nil, 0o600) },
		"write-passwd":    func() error { return write("/etc/passwd", "root2::0:0::/:/bin/sh\n") },
		"write-agentd":    func() error { return os.WriteFile("/holon/bin/agentd", nil, 0o700) },
		"replace-agentd":  func() error { return os.Rename("/holon/bin/agentd", "/tmp/agentd") },
		"write-input":     func() error { return os.WriteFile("/holon/input/x", nil, 0o600) },
		"write-objects":   writeObjects,
		"write-skills":    func() error { return os.WriteFile("/holon/skills/x", nil, 0o600) },
		"shared-memory":   sharedMemory,
		"kill-host":       func() error { return unix.Kill(4194303, 0) },
	}
}

func readSome(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := f.Read(make([]byte, 16))
	if n == 0 {
		return errors.Join(unix.ENODATA, err) // hidden behind something empty
	}
	return err
}

func notEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		return unix.ENODATA
	}
	return err
}

// hostProcesses finds processes that are neither agentd nor below it.
func hostProcesses() error {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	var foreign []string
	for _, path := range paths {
		comm, err := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		if err == nil && !slices.Contains([]string{"agentd", "bash", "sh", "probe"}, strings.TrimSpace(string(comm))) {
			foreign = append(foreign, strings.TrimSpace(string(comm)))
		}
	}
	if len(foreign) == 0 {
		return unix.ESRCH
	}
	return fmt.Errorf("sees %q", foreign)
}

// hostSockets looks for sockets of other network namespaces, abstract ones too.
func hostSockets() error {
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		// The names of sockets that the host serves here do not tell their place on the host.
		own := len(fields) == 8 && (strings.HasPrefix(fields[7], "/holon/ipc/") ||
			strings.HasPrefix(fields[7], "/proc/self/fd/"))
		if len(fields) == 8 && fields[0] != "Num" && !own {
			return fmt.Errorf("sees %s", fields[7])
		}
	}
	return unix.ENOENT
}

// otherSessions: the directories of sockets are this session's alone, with the scenario that its model plays.
func otherSessions() error {
	for dir, names := range map[string][]string{"/holon/ipc": {"agent.sock"},
		"/holon/host": {"model.sock", "host.sock", "egress.sock"}} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if dir == "/holon/host" && e.Name() == "scenario.yaml" && e.Type().IsRegular() {
				continue
			}
			if e.Type()&os.ModeSocket == 0 || !slices.Contains(names, e.Name()) {
				return fmt.Errorf("sees %s", e.Name())
			}
		}
	}
	return unix.ENOENT
}

func dockerSocket() error {
	for _, path := range []string{"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
		"/run/podman/podman.sock"} {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			return nil
		}
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.ENOENT
}

// hostFiles looks for what only the machine has.
func hostFiles() error {
	for _, path := range []string{"/root/.ssh", "/var/lib/docker", "/boot/vmlinuz", "/etc/shadow-"} {
		if f, err := os.Open(path); err == nil {
			f.Close()
			return fmt.Errorf("sees %s", path)
		}
	}
	data, err := os.ReadFile("/etc/shadow")
	if err == nil {
		return fmt.Errorf("reads %d bytes of /etc/shadow", len(data))
	}
	return err
}

func disks() error {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0 {
			return fmt.Errorf("sees %s", e.Name())
		}
	}
	return unix.ENOENT
}

func releaseAgent() error {
	found, err := filepath.Glob("/sys/fs/cgroup/*/release_agent")
	if err != nil || len(found) == 0 {
		return errors.Join(unix.ENOENT, err)
	}
	for _, path := range found {
		if err = write(path, "/tmp/x"); err == nil {
			return nil
		}
	}
	return err
}

func cgroupLimit() error {
	for _, path := range []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"} {
		if err := write(path, "-1"); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return unix.ENOENT
}

func cgroupMake() error {
	for _, dir := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		if err := os.Mkdir(dir+"/x", 0o700); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return unix.ENOENT
}

// writeObjects plants an object in the user's repository.
func writeObjects() error {
	dirs, err := filepath.Glob("/holon/objects/*")
	if err != nil || len(dirs) == 0 {
		return errors.New("no objects are here")
	}
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "pack", "x.pack"), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sharedMemory looks for segments of others.
func sharedMemory() error {
	data, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir("/dev/shm")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "program" {
			return fmt.Errorf("sees %s", e.Name())
		}
	}
	if lines := strings.Count(string(data), "\n"); lines > 1 {
		return fmt.Errorf("sees %d segments", lines-1)
	}
	return unix.ENOENT
}
