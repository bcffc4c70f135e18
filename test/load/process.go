package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holon/internal/procfs"
)

type Process struct {
	Done chan struct{} // closed when it has been waited for

	cmd *exec.Cmd
	log string
}

// Start starts a program in a session of its own, so that what kills it, or the terminal's Ctrl-C, kills nothing else.
// What it prints is appended to the file log.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	p := &Process{Done: make(chan struct{}), cmd: cmd, log: log}
	go func() {
		defer close(p.Done)
		_ = cmd.Wait()  // ProcessState says how it ended
		_ = out.Close() // only appended to
	}()
	return p, nil
}

func (p *Process) Name() string { return filepath.Base(p.cmd.Path) }

// PID is its number, 0 of none.
func (p *Process) PID() int {
	if p == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *Process) Signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }

// Kill ends it as nothing can be handled, and waits.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

// End asks it to end, in good order.
func (p *Process) End() error {
	p.Signal(syscall.SIGTERM)
	code, err := p.Wait()
	if err == nil && code != 0 {
		err = fmt.Errorf("%s ended with %d after SIGTERM\n%s", p.Name(), code, p.Tail())
	}
	return err
}

func (p *Process) Wait() (int, error) {
	select {
	case <-p.Done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(Patience):
	}
	p.Signal(syscall.SIGQUIT) // its goroutines tell why
	select {
	case <-p.Done:
	case <-time.After(5 * time.Second):
		p.Kill()
	}
	return -1, fmt.Errorf("%s did not end within %s\n%s", p.Name(), Patience, p.Tail())
}

// Ready waits until probe finds nothing wrong, or the program has ended.
func (p *Process) Ready(ctx context.Context, probe func() error) error {
	err := Eventually(ctx, Patience, func() error {
		select {
		case <-p.Done:
			return final{fmt.Errorf("it has ended: %s", p.cmd.ProcessState)}
		default:
			return probe()
		}
	})
	if err != nil {
		err = fmt.Errorf("%s does not become ready: %w\n%s", p.Name(), err, p.Tail())
	}
	return err
}

// Tail is the end of what it printed.
func (p *Process) Tail() []byte {
	if p == nil {
		return nil
	}
	data, _ := os.ReadFile(p.log) // it explains, if it is there
	return bytes.TrimSpace(data[max(0, len(data)-6000):])
}

// InContainers finds the processes in containers, and their shims, which are
// started with the container's id.
func InContainers(ids []string) (pids []int) {
	for _, pid := range procfs.PIDs() {
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)) // it may have ended
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		for _, id := range ids {
			if bytes.Contains(group, []byte(id)) || bytes.Contains(line, []byte(id)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

func Tree(root int) []int {
	children := make(map[int][]int)
	for _, st := range procfs.All() {
		children[st.Parent] = append(children[st.Parent], st.PID)
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// Proportional is the proportional set size of a process, in bytes.
func Proportional(pid int) float64 { return kilobytes(pid, "smaps_rollup", "Pss:") }

// Resident is the resident set size of a process, in bytes.
func Resident(pid int) float64 { return kilobytes(pid, "status", "VmRSS:") }

func kilobytes(pid int, file, key string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // it may have ended
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			kib, _ := strconv.ParseFloat(f[1], 64) // the kernel writes numbers
			return kib * 1024
		}
	}
	return 0
}

// Time is the processor time that processes have used, to ten milliseconds.
func Time(pids []int) (used time.Duration) {
	for _, pid := range pids {
		if st, err := procfs.ReadStat(pid); err == nil { // else it has ended
			used += time.Duration(st.CPU) * time.Second / procfs.ClockTicks
		}
	}
	return used
}
