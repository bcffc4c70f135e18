package agentd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"holon/agentd/process"
	"holon/internal/toolchain"
	"holon/responses/turns"
)

// DebugContainer returns what `agentd debug container` shows: the user of
// this process, what it may do, which limits hold and, given a directory
// shared with the host, whether files pass both ways through it. It asks the
// kernel alone and changes nothing but files of shared. What cannot be seen is
// zero.
func DebugContainer(shared string) turns.Place {
	p := turns.Place{
		Version: Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Time: time.Now().UTC(),
		UID: os.Geteuid(), GID: os.Getegid(), Programs: programs(append(toolchain.Programs(), "git")...),
	}
	readStatus("/proc/self/status", &p)
	readCgroup("/sys/fs/cgroup", &p)
	if shared != "" {
		p.Shared = testMount(shared)
	}
	return p
}

// maxProbe bounds what is read of any file.
const maxProbe = 64 << 10

func probe(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProbe))
	return string(data), err
}

// readStatus takes what a process may do from its /proc/PID/status.
func readStatus(path string, p *turns.Place) {
	text, err := probe(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "CapEff":
			p.Capabilities = value
		case "NoNewPrivs":
			p.NoNewPrivileges = value == "1"
		case "Seccomp":
			p.Seccomp, _ = strconv.Atoi(value)
		}
	}
}

// readCgroup takes the limits from the container's own group, which is the root
// of what is mounted: version 2 has one tree, version 1 one for each controller.
func readCgroup(root string, p *turns.Place) {
	number := func(name string) int64 {
		text, err := probe(filepath.Join(root, name))
		if err != nil {
			return 0
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // "max" stays 0
		return n
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		p.CgroupVersion, p.Memory, p.Pids = 2, number("memory.max"), number("pids.max")
		if text, err := probe(filepath.Join(root, "cpu.max")); err == nil {
			if quota, period, ok := strings.Cut(strings.TrimSpace(text), " "); ok {
				p.CPUs = ratio(quota, period)
			}
		}
		return
	}
	if _, err := os.Stat(filepath.Join(root, "memory")); err != nil {
		return
	}
	p.CgroupVersion, p.Memory, p.Pids = 1, number("memory/memory.limit_in_bytes"), number("pids/pids.max")
	const none = 1 << 60 // version 1 says a number near the largest
	if p.Memory >= none {
		p.Memory = 0
	}
	if quota := number("cpu/cpu.cfs_quota_us"); quota > 0 {
		p.CPUs = ratio(fmt.Sprint(quota), fmt.Sprint(number("cpu/cpu.cfs_period_us")))
	}
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	d, perr := strconv.ParseFloat(period, 64)
	if err != nil || perr != nil || d <= 0 {
		return 0
	}
	return q / d
}

// programs looks for what commands need on PATH.
func programs(names ...string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if path := process.LookPath(name); path != "" {
			found[name] = path
		}
	}
	return found
}

// testMount shows that files pass both ways through dir: it reads the host's file,
// leaves a copy of it there, and writes, reads back and removes another.
func testMount(dir string) *turns.SharedFiles {
	text, err := probe(filepath.Join(dir, turns.SharedFromHost))
	if err == nil {
		err = writeNew(filepath.Join(dir, turns.SharedFromContainer), text)
	}
	if err == nil {
		err = writeAndRemove(filepath.Join(dir, turns.SharedSentinel), text)
	}
	result := &turns.SharedFiles{Read: text}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

// writeAndRemove shows that path keeps what is written to it and can be removed.
func writeAndRemove(path, text string) error {
	if err := writeNew(path, text); err != nil {
		return err
	}
	if back, err := os.ReadFile(path); err != nil {
		return err
	} else if string(back) != text {
		return fmt.Errorf("%s does not hold what was written to it", path)
	}
	return os.Remove(path)
}

// writeNew writes a file that must not exist.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
