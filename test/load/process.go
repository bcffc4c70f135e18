package load

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
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

// Tail is the end of what it printed.
func (p *Process) Tail() []byte {
	data, _ := os.ReadFile(p.log) // it explains, if it is there
	return bytes.TrimSpace(data[max(0, len(data)-6000):])
}
