package process

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// spawn starts c. It does not use os/exec, which would wait, reap and copy a second time.
func (s *Supervisor) spawn(c *Command, id string) (_ *Process, err error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, &StartError{"find", "program", errors.New("no program is given")}
	}
	p := &Process{
		s: s, id: id,
		timeout: c.Timeout, grace: orDefault(c.Grace, defaultGrace),
		exited: make(chan struct{}), ending: make(chan struct{}), killing: make(chan struct{}),
		done: make(chan struct{}),
	}
	path, files := "", files{}
	s.users.Do(func() { // pipes and terminals are the command's too
		if path, err = lookPath(c.Argv[0], c.Dir, c.Env); err != nil {
			err = &StartError{"find", c.Argv[0], err}
			return
		}
		files, err = p.connect(c)
	})
	if err != nil {
		return nil, err
	}
	pidfd := -1
	attr := &syscall.ProcAttr{
		Dir: c.Dir, Env: unique(s.named(c.Env, p)), Files: files.child[:],
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY, PidFD: &pidfd},
	}
	program, argv := path, c.Argv
	if s.users != nil {
		attr.Dir = "" // which agentd may not be allowed to enter
		program, argv = s.users.Command(path, c.Dir, c.Argv, attr.Sys)
	}
	err = s.fork(p, program, argv, attr)
	files.closeChild()
	if err != nil {
		p.disconnect()
		return nil, startError(path, c.Dir, err)
	}
	if c.Piped && !c.TTY {
		p.piped = p.out.reader()
	} else {
		p.out.copy()
	}
	if p.err != nil {
		p.err.copy()
	}
	go p.watch(pollable(pidfd, "pidfd"))
	return p, nil
}

// fork starts the leader and registers it before its children may be inspected.
func (s *Supervisor) fork(p *Process, path string, argv []string, attr *syscall.ProcAttr) error {
	s.starting.RLock()
	defer s.starting.RUnlock()
	p.began, p.start = time.Now(), procfs.SinceBoot()
	if err := s.recordTrace(p); err != nil {
		return err
	}
	pid, _, err := syscall.StartProcess(path, argv, attr)
	if err != nil {
		s.forgetTrace(p)
		return err
	}
	p.pid = pid
	s.mu.Lock()
	s.live[pid] = p
	if s.firstStart == 0 {
		s.firstStart = p.start
	}
	s.mu.Unlock()
	if err := s.recordTrace(p); err != nil { // there was room for it before
		s.log.Error("the trace of a command is lost", "pid", pid, "err", err)
	}
	return nil
}

// startError blames the directory if it is the cause, since the kernel reports the same error for both.
func startError(path, dir string, err error) error {
	if _, ok := errors.AsType[*StartError](err); ok {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		if fi, statErr := os.Stat(dir); statErr != nil || !fi.IsDir() {
			path = dir
		}
	}
	return &StartError{"start", path, err}
}

// named adds the id of a command to its environment, where traces are recorded.
func (s *Supervisor) named(env []string, p *Process) []string {
	if !s.records() {
		return env
	}
	return append(slices.Clone(env), idVariable+"="+p.id)
}

// unique returns env with the last value of each name: programs disagree on which of two equal names counts.
func unique(env []string) []string {
	last := make(map[string]int, len(env))
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		last[name] = i
	}
	out := make([]string, 0, len(env))
	for i, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok && last[name] == i {
			out = append(out, kv)
		}
	}
	return out
}

// files are a command's descriptors 0, 1 and 2.
type files struct {
	child [3]uintptr
	owned []int // to be closed on our side once the command has them
}

func (f *files) closeChild() {
	for _, fd := range f.owned {
		unix.Close(fd)
	}
}

// connect opens the command's input and output.
func (p *Process) connect(c *Command) (f files, err error) {
	defer func() {
		if err != nil {
			f.closeChild()
			p.disconnect()
		}
	}()
	keep, limit := orDefault(c.KeepBytes, defaultKeepBytes), orDefault(c.LogBytes, defaultLogBytes)
	newSink := func(path string) capture {
		return capture{keep: keep, path: path, limit: limit, budget: c.Budget, scrub: p.s.secrets.Stream()}
	}
	if c.TTY {
		return p.connectTerminal(newSink(c.StdoutPath))
	}
	stdin, err := p.openInput(c)
	if err != nil {
		return f, &StartError{"open", "standard input", err}
	}
	f.child[0], f.owned = stdin, append(f.owned, int(stdin))
	for i, path := range []string{c.StdoutPath, c.StderrPath} {
		r, w, err := pipe()
		if err != nil {
			return f, &StartError{"open", "pipe", err}
		}
		f.child[1+i], f.owned = uintptr(w), append(f.owned, w)
		st := newStream(pollable(r, "output"), newSink(path))
		if i == 0 {
			p.out = st
		} else {
			p.err = st
		}
	}
	return f, nil
}

// openInput returns the end of standard input that the command reads.
func (p *Process) openInput(c *Command) (uintptr, error) {
	if !c.Input {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return uintptr(fd), err
	}
	r, w, err := pipe()
	if err != nil {
		return 0, err
	}
	p.in = newInput(pollable(w, "input"), false)
	return uintptr(r), nil
}

// disconnect closes our ends of a command that never started.
func (p *Process) disconnect() {
	for _, s := range []*stream{p.out, p.err} {
		if s != nil {
			s.r.Close()
		}
	}
	if p.in != nil {
		p.in.w.Close()
	}
}

// pipe returns both ends of a pipe that no other command inherits.
func pipe() (r, w int, err error) {
	var fds [2]int
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds[0], fds[1], err
}

// pollable returns fd as a file whose reads and writes need no thread and have deadlines, or nil if fd is negative.
// Only our end of a pipe is made pollable.
func pollable(fd int, name string) *os.File {
	if fd < 0 {
		return nil
	}
	_ = unix.SetNonblock(fd, true) // it would still work, with a thread
	return os.NewFile(uintptr(fd), name)
}
