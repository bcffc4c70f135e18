package local

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/procfs"
	"holon/runner/engine"
)

const (
	idVariable = "HOLON_LOCAL_ID" // marks every process of a program

	// outputDelay is how long a leader's exit waits for output that a process
	// it left behind still holds open; that process is killed anyway.
	outputDelay = 2 * time.Second
)

// child is a program that this process created. Its life is
//
//	created ──start──▶ running ──exit──▶ exited
//	   └──────abandon / remove────────────▶ exited (never ran)
//
// done is closed on the way into exited and at no other time.
type child struct {
	dir  string
	spec engine.Spec
	env  []string
	done chan struct{}

	mu      sync.Mutex
	record  record
	running bool
	ended   bool
}

func newChild(root string, env []string, spec engine.Spec) (*child, error) {
	id := rand.Text()
	c := &child{
		dir: filepath.Join(root, spec.Name), spec: spec, done: make(chan struct{}),
		record: record{
			Handle: engine.Handle{Version: engine.HandleVersion, Engine: name, ID: id, Name: spec.Name},
			Labels: maps.Clone(spec.Labels), User: *spec.User,
		},
	}
	c.record.Times.Created = time.Now().UTC()
	c.env = slices.Concat([]string{idVariable + "=" + id}, env, spec.Env) // first, where procfs.Environ finds it
	// The directory is the claim on the name, between processes too.
	err := os.Mkdir(c.dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil, &engine.Error{Code: engine.CodeConflict, Param: "name",
			Message: "a program named " + spec.Name + " exists",
			Hint:    "choose another name, or remove it"}
	}
	if err == nil {
		err = c.save()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create program %s: %w", spec.Name, err), os.RemoveAll(c.dir))
	}
	return c, nil
}

// start runs the program and returns when it is running or could not be.
func (c *child) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.ended {
		return &engine.Error{Code: engine.CodeConflict, Message: "program " + c.spec.Name + " was started before",
			Hint: "create a new one"}
	}
	log, err := openLog(c.dir)
	if err != nil {
		return fmt.Errorf("start program %s: %w", c.spec.Name, err)
	}
	started := make(chan error, 1)
	go c.run(c.command(log), log, started) // ends with the program; Stop, Remove and Close wait for done
	if err := <-started; err != nil {
		return &engine.Error{Code: engine.CodeCannotRun, Param: "args", Message: "cannot start " + c.spec.Args[0],
			Err:  err,
			Hint: "the program must exist, be executable, and be built for this machine"}
	}
	c.running = true
	return c.save()
}

func (c *child) command(log *boundedLog) *exec.Cmd {
	cmd := exec.Command(c.spec.Args[0], c.spec.Args[1:]...)
	cmd.Dir, cmd.Env = "/", c.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:    true, // its own group, away from the terminal's Ctrl-C
		Pdeathsig: syscall.SIGKILL,
	}
	self := engine.User{UID: os.Getuid(), GID: os.Getgid()}
	if user := *c.spec.User; user != self {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user.UID), Gid: uint32(user.GID)}
	}
	return cmd
}

// run is the program's own goroutine. It stays on one thread, because the
// kernel sends the death signal when the thread that forked ends.
func (c *child) run(cmd *exec.Cmd, log *boundedLog, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	err := cmd.Start()
	if err == nil {
		var leader procfs.Process
		leader, err = procfs.Identify(cmd.Process.Pid) // start holds the lock until it hears from us
		if err == nil {
			c.record.Leader = &leader
		} else {
			err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	started <- err
	if err != nil {
		return
	}
	awaitExit(cmd.Process.Pid)
	// The leader is a zombie until Wait, so no other process can have its number.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // no such group: nothing is left of it
	killMarked(c.record.Handle.ID)
	_ = cmd.Wait() // the exit is in ProcessState, even if copying the output failed
	c.finish(exitOf(cmd.ProcessState))
}

// awaitExit blocks until pid, a child of this process, has exited, and leaves
// it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func exitOf(state *os.ProcessState) engine.Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return engine.Exit{Code: 128 + int(status.Signal())}
	}
	return engine.Exit{Code: state.ExitCode()}
}

func (c *child) finish(exit engine.Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finishLocked(exit)
}

// finishLocked records the end; the caller holds the lock. A record that
// cannot be written is not fatal: it is only read by other processes, which
// see the leader gone. One that was removed, and perhaps replaced, stays so.
func (c *child) finishLocked(exit engine.Exit) {
	if c.ended {
		return
	}
	c.running, c.ended = false, true
	c.record.Exit = &exit
	if r, err := readRecord(c.dir); err == nil && r.Handle.ID == c.record.Handle.ID {
		_ = c.save()
	}
	close(c.done)
}

// signal sends sig to the leader if it runs.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		_ = c.record.Leader.Signal(sig) // it may have ended
	}
}

// abandon ends the program in any state and waits for it.
func (c *child) abandon() {
	c.mu.Lock()
	if !c.running {
		c.finishLocked(engine.Exit{Code: -1, Error: "removed before it was started"})
	}
	c.mu.Unlock()
	c.signal(syscall.SIGKILL)
	<-c.done
}

func (c *child) snapshot() record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record
}

// save writes the record; the caller holds the lock or owns c alone.
func (c *child) save() error {
	data, err := json.Marshal(c.record)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return durable.WriteFile(filepath.Join(c.dir, recordFile), data, 0o600)
}

// killMarked kills every process with the mark id, of those that this user may look at, until a look finds none: a
// process may fork while its siblings are being killed.
func killMarked(id string) {
	for range 100 {
		found := false
		for _, pid := range procfs.PIDs() {
			if procfs.Environ(pid, idVariable) == id {
				found = killIfMarked(pid, id) || found
			}
		}
		if !found {
			return
		}
	}
}

// killIfMarked looks again through a descriptor, so that the process that is
// killed is the one that has the mark. It reports whether it killed.
func killIfMarked(pid int, id string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return procfs.Environ(pid, idVariable) == id && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
