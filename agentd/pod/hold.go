// Package pod is what agentd does in a Pod of the kubernetes engine, next to serving.
//
//	init container    Prepare: makes the places of the mounts in a volume, and puts agentd there
//	container files   Wait; the host runs Unpack, Pack, Start and Stop in it
//	container agent   Hold: process 1, which starts the program once it is told to, and ends with it
//
// The containers share a volume and the network namespace, in which Hold listens on an abstract socket. It obeys
// processes of its own user alone, so that commands of another user can neither start nor end the program.
//
// Process 1 is not the program itself, because the kernel protects process 1 from what its own container sends: only an
// init that stays outside of the program can kill it while the Pod, and so its files, stay.
package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// EnvHeld is in the environment of the program that Hold starts: it is alone in its container.
const EnvHeld = "HOLON_HELD"

// Exit codes of Hold when the program did not end by itself.
const (
	exitCannotRun = 127
	exitSignal    = 128 // and the signal
)

// holder is the abstract socket of Hold.
const holder = "@holon-hold"

// Limits are those of the program's processes: open files, bytes of a file and bytes of a core dump.
type Limits struct {
	OpenFiles, FileSize, Core uint64
}

// Program is what Hold starts. Of two variables of one name the first counts; the image's stay below these.
type Program struct {
	Args []string `json:"args"` // the first is an absolute path
	Env  []string `json:"env"`
}

// request is one of a connection to Hold.
type request struct {
	Program *Program      `json:"program,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"` // of a request without a program: to end it
}

// answer is that to a request with a program. A request to end it gets none: the connection ends with Hold.
type answer struct {
	Error string `json:"error,omitempty"`
}

// Hold is process 1: it starts a program when it is told to, and returns its exit code. When ctx ends it passes that on
// as SIGTERM.
func Hold(ctx context.Context, limits Limits) (code int, err error) {
	if err := limits.set(); err != nil {
		return 0, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: holder, Net: "unix"})
	if err != nil {
		return 0, fmt.Errorf("listen for the host: %w", err)
	}
	defer listener.Close()
	h := &hold{ended: make(chan int, 1), gone: make(chan struct{})}
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			go h.serve(conn)
		}
	}()
	select {
	case code = <-h.ended:
	case <-ctx.Done():
		if !h.signal(syscall.SIGTERM) {
			return exitSignal + int(syscall.SIGTERM), nil
		}
		code = <-h.ended
	}
	close(h.gone)
	return code, nil
}

// set lowers the limits of this process, which what it starts has too.
func (l Limits) set() error {
	for resource, most := range map[int]uint64{unix.RLIMIT_NOFILE: l.OpenFiles, unix.RLIMIT_FSIZE: l.FileSize,
		unix.RLIMIT_CORE: l.Core} {
		var now syscall.Rlimit
		err := syscall.Getrlimit(resource, &now)
		most = min(most, now.Max)
		if err == nil {
			err = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
		}
		if err != nil {
			return fmt.Errorf("limit the program: %w", err)
		}
	}
	return nil
}

type hold struct {
	ended chan int      // the exit code of the program, or that it cannot be started
	gone  chan struct{} // closed when Hold returns

	mu      sync.Mutex
	started bool
	pid     int // 0: there is no program
}

// serve obeys one connection.
func (h *hold) serve(conn *net.UnixConn) {
	defer conn.Close()
	var r request
	if !ofOwnUser(conn) || json.NewDecoder(conn).Decode(&r) != nil {
		return
	}
	if r.Program == nil {
		h.stop(r.Grace)
		return
	}
	pid, err := h.start(*r.Program)
	var a answer
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(a) // before the end of this process, which the next lines may be
	switch {
	case err == nil:
		h.reap(pid)
	case !errors.Is(err, errStarted):
		h.ended <- exitCannotRun
	}
}

// ofOwnUser reports whether the other side has the rights of this process.
func ofOwnUser(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return controlErr == nil && err == nil && int(peer.Uid) == os.Geteuid()
}

var errStarted = errors.New("it was started before")

// start starts the program, once.
func (h *hold) start(p Program) (pid int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started {
		return 0, errStarted
	}
	h.started = true
	if len(p.Args) == 0 {
		p.Args = []string{""}
	}
	process, err := os.StartProcess(p.Args[0], p.Args, &os.ProcAttr{Dir: "/", Env: environ(p.Env, os.Environ()),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, err
	}
	h.pid = process.Pid
	return h.pid, process.Release()
}

// environ is the program's environment: own, above what the image has.
func environ(own, image []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, kv := range slices.Concat(own, []string{EnvHeld + "=1"}, image) {
		name, _, _ := strings.Cut(kv, "=")
		if !seen[name] && !strings.HasPrefix(name, "KUBERNETES_") {
			out = append(out, kv)
		}
		seen[name] = true
	}
	return out
}

// reap collects what ends in the container, until the program has.
func (h *hold) reap(program int) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) || err == nil && pid != program {
			continue
		}
		h.mu.Lock()
		h.pid = 0
		h.mu.Unlock()
		if err == nil && status.Signaled() {
			h.ended <- exitSignal + int(status.Signal())
		} else {
			h.ended <- status.ExitStatus()
		}
		return
	}
}

// signal signals the program, and reports whether there is one.
func (h *hold) signal(s syscall.Signal) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pid != 0 && syscall.Kill(h.pid, s) == nil
}

// stop ends the program, and returns when all is gone.
func (h *hold) stop(grace time.Duration) {
	if !h.signal(syscall.SIGTERM) {
		return
	}
	select {
	case <-h.gone:
		return
	case <-time.After(grace):
	}
	_ = syscall.Kill(-1, syscall.SIGKILL) // process 1, which this is, is not of them
	<-h.gone
}
