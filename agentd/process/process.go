package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killWait bounds the wait for the death of a process after SIGKILL. Only a process stuck inside the kernel needs
// longer.
const killWait = 5 * time.Second

// cause is why the supervisor ends a command.
type cause int

const (
	none cause = iota
	timedOut
	canceled
	stopped
)

// Process is a started command. Its methods are safe for concurrent use.
type Process struct {
	s     *Supervisor
	id    string
	pid   int    // leader, and the id of its session and group
	start uint64 // of the leader, in the kernel's clock; no process of the command is older
	began time.Time

	timeout, grace time.Duration

	in  *input  // nil without input
	out *stream // with a terminal, both streams
	err *stream // nil with a terminal

	piped *output // nil unless the caller reads out

	exited chan struct{} // closed when the leader can be reaped

	mu      sync.Mutex
	cause   cause
	patient time.Duration // between SIGTERM and SIGKILL, once cause is set
	killed  bool
	ending  chan struct{} // closed when cause is set
	killing chan struct{} // closed when killed is set

	done   chan struct{}
	result Result // written by supervise before done is closed
}

// Done is closed when the command and all its processes are gone and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Result returns how the command ended. It waits for Done.
func (p *Process) Result() Result {
	<-p.done
	return p.result
}

// Stop sends SIGTERM to the command's whole tree, kills what is left of it after grace (0 means the command's own), and
// returns at once. Later calls change nothing; to insist, call Kill.
func (p *Process) Stop(grace time.Duration) { p.end(stopped, orDefault(grace, p.grace)) }

// Kill ends the command's whole tree with SIGKILL and returns at once.
func (p *Process) Kill() {
	p.mu.Lock()
	if !p.killed {
		p.killed = true
		close(p.killing)
	}
	p.mu.Unlock()
	p.end(stopped, p.grace)
}

// Output returns the standard output of a command that was started Piped. Read it to its end, or Close it; both may be
// called at once. Reads end with the command at the latest, with an error or io.EOF.
func (p *Process) Output() io.ReadCloser { return p.piped }

// Snapshot returns what the command has written so far. With a terminal, stderr is empty.
func (p *Process) Snapshot() (stdout, stderr Capture) {
	stdout = p.out.snapshot()
	if p.err != nil {
		stderr = p.err.snapshot()
	}
	return stdout, stderr
}

// end records the first cause; supervise acts on it.
func (p *Process) end(c cause, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == none {
		p.cause, p.patient = c, grace
		close(p.ending)
	}
}

// supervise waits for the command's end and cleans up after it.
func (p *Process) supervise() {
	defer p.s.tasks.Done()
	defer close(p.done)
	res := &p.result
	if p.await() {
		p.terminate()
		res.TimedOut, res.Canceled, res.Stopped = p.cause == timedOut, p.cause == canceled, p.cause == stopped
	}
	ended := p.s.endTree(p)
	res.Ended, res.Survivors = ended.killed, ended.survivors
	res.ExitCode, res.Signal = exitCode(ended.status)
	res.Duration = time.Since(p.began)
	if p.in != nil {
		_ = p.in.close() // it may be closed already
	}
	deadline := time.Now().Add(drain)
	if p.piped != nil {
		p.piped.abandon(deadline)
	}
	res.Stdout = p.out.finish(deadline)
	if p.err != nil {
		res.Stderr = p.err.finish(deadline)
	}
}

// await returns when the leader has ended by itself, and then false, or is to be ended.
func (p *Process) await() bool {
	var deadline <-chan time.Time
	if p.timeout > 0 {
		t := time.NewTimer(p.timeout)
		defer t.Stop()
		deadline = t.C
	}
	select {
	case <-p.exited:
		return false
	case <-deadline:
		p.end(timedOut, p.grace)
	case <-p.s.closing:
		p.end(canceled, p.grace)
	case <-p.ending:
	}
	return true
}

// terminate asks the whole tree to end and leaves SIGKILL to endTree. The grace is for all of the tree: a shell dies at
// once, while the program it started may still be cleaning up.
func (p *Process) terminate() {
	grace := time.NewTimer(p.patient)
	defer grace.Stop()
	if isClosed(p.killing) {
		return
	}
	p.askGroup()
	asked := make(map[birth]bool)
	for pause := time.Millisecond; p.s.askMembers(p, asked); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-p.killing:
			return
		case <-grace.C:
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// watch reports the leader's exit without reaping it: as long as it is a zombie, its pid is a safe name for the group.
// A pidfd is waited for by the runtime's poller; without one, waiting takes a thread.
func (p *Process) watch(pidfd *os.File) {
	defer close(p.exited)
	if pidfd != nil {
		defer pidfd.Close()
		if awaitReadable(pidfd) == nil {
			return
		}
	}
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// awaitReadable returns when f, which is in non-blocking mode, can be read.
func awaitReadable(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var polled error
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		var n int
		for {
			if n, polled = unix.Poll(fds, 0); !errors.Is(polled, unix.EINTR) {
				return polled != nil || n > 0
			}
		}
	})
	return errors.Join(err, polled)
}

// exitCode returns the exit code as a shell reports it.
func exitCode(ws syscall.WaitStatus) (int, syscall.Signal) {
	if ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal()
	}
	return ws.ExitStatus(), 0
}
