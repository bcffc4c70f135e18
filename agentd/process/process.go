package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Defaults of [Options] and [Command].
const (
	DefaultGrace     = 5 * time.Second
	DefaultDrain     = 500 * time.Millisecond
	DefaultKeepBytes = 32 << 10
	DefaultLogBytes  = 64 << 20
)

// killWait bounds how long the death of a process is waited for after SIGKILL.
// Only a process stuck inside the kernel needs longer.
const killWait = 5 * time.Second

// ErrClosed is returned by Run after Close has begun.
var ErrClosed = errors.New("the process supervisor is closed")

// Options configure a Supervisor. The zero value is usable.
type Options struct {
	// Logger receives what no caller can be told; nil discards it.
	Logger *slog.Logger
	// Exclusive says that nothing else in this program starts processes. The
	// supervisor then reaps every child it does not know and ends every
	// orphan that belongs to no live command. Leave it false inside a program
	// (such as a test) that also uses os/exec.
	Exclusive bool
}

// Supervisor runs commands and owns every process that comes of them. It is
// safe for concurrent use. Make one with New and end it with Close.
type Supervisor struct {
	log       *slog.Logger
	exclusive bool
	prefix    string // first part of every command id of this supervisor

	// starting is held for reading from fork until the child is registered
	// and for writing while unknown children are looked at, so that a child
	// between the two is never mistaken for an orphan.
	starting sync.RWMutex

	mu     sync.Mutex
	closed bool
	seq    uint64
	// firstStart is the kernel start time of the first command: what is older
	// than that cannot be ours.
	firstStart uint64
	live       map[int]*running // by pid of the leader

	closing chan struct{}
	tasks   sync.WaitGroup // Runs and the goroutines they started
	reaper  sync.WaitGroup
}

// Command describes one command. Either Argv or Shell must be given.
type Command struct {
	Argv  []string // program and arguments; a bare name is looked up in Env's PATH
	Dir   string   // absolute working directory; must exist
	Env   []string // the complete environment; see Environ
	Stdin []byte   // nil means /dev/null

	Timeout time.Duration // 0 means none
	Grace   time.Duration // between SIGTERM and SIGKILL; 0 means DefaultGrace
	Drain   time.Duration // for output still in the pipes after the end; 0 means DefaultDrain

	// KeepBytes is how much of the beginning and, again, how much of the end of
	// each stream stays in memory; 0 means DefaultKeepBytes.
	KeepBytes int
	// StdoutPath and StderrPath are files that receive the raw bytes, up to
	// LogBytes each (0 means DefaultLogBytes). A file is created with its first
	// byte and must not exist before. Empty means no file.
	StdoutPath, StderrPath string
	LogBytes               int64
}

// Result tells how a command ended.
type Result struct {
	ExitCode int            // as a shell reports it: 128+n after signal n
	Signal   syscall.Signal // the signal that ended the leader, or 0
	TimedOut bool           // the deadline passed and the command was ended
	Canceled bool           // the context or the supervisor ended the command
	Duration time.Duration
	// Ended counts processes that the command had left running and that were ended.
	Ended int
	// Survivors counts processes that SIGKILL could not end in time.
	Survivors      int
	Stdout, Stderr Capture
}

// StartError says why a command could not be started. Nothing is left of it.
type StartError struct {
	Op   string // what was tried: "find", "open pipe", "start"
	Path string // the program or directory concerned
	Err  error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// New returns a running Supervisor. It makes this program the reaper of its
// descendants' orphans, if it is not PID 1 and the kernel allows it.
func New(opts Options) *Supervisor {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			log.Warn("orphans of commands cannot be adopted; only process groups are ended", "err", err)
		}
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	s := &Supervisor{
		log:       log,
		exclusive: opts.Exclusive,
		prefix:    hex.EncodeToString(id[:]) + "-",
		live:      make(map[int]*running),
		closing:   make(chan struct{}),
	}
	s.startReaper()
	return s
}

// Close ends every command, waits until the Runs have returned and ends what
// is left of them. Further Runs are refused. It may be called more than once.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.tasks.Wait()
	s.reaper.Wait()
	if n := s.endStrays(nil); n.survivors > 0 {
		return fmt.Errorf("%d processes could not be ended", n.survivors)
	}
	return nil
}

// Run runs c to its end and returns when nothing of it is left. A command that
// fails, times out or is cancelled is a Result; the error is a *StartError when
// it never ran, or ErrClosed.
func (s *Supervisor) Run(ctx context.Context, c Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Canceled: true, ExitCode: -1}, nil
	}
	p, err := s.start(&c)
	if err != nil {
		return Result{}, err
	}
	defer s.tasks.Done()

	res := Result{}
	s.await(ctx, p, c.Timeout, &res)
	ended := s.endStrays(p)
	res.Ended, res.Survivors = ended.killed, ended.survivors
	res.ExitCode, res.Signal = s.collect(p)
	res.Duration = time.Since(p.began)
	res.Stdout, res.Stderr = p.finish(orDefault(c.Drain, DefaultDrain))
	return res, nil
}

// running is a command whose leader has not been reaped.
type running struct {
	id     string
	pid    int    // leader, and the id of its session and group
	start  uint64 // kernel start time of the leader, in clock ticks
	began  time.Time
	grace  time.Duration
	cmd    *exec.Cmd
	exited chan struct{} // closed when the leader can be reaped
	out    *stream
	err    *stream
}

func (s *Supervisor) start(c *Command) (*running, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, &StartError{"find", "program", errors.New("no program is given")}
	}
	path, err := lookPath(c.Argv[0], c.Dir, c.Env)
	if err != nil {
		return nil, &StartError{"find", c.Argv[0], err}
	}
	id, err := s.admit()
	if err != nil {
		return nil, err
	}
	p, err := s.spawn(c, path, id)
	if err != nil {
		s.tasks.Done()
		return nil, err
	}
	return p, nil
}

// admit counts a Run in, so that Close waits for it.
func (s *Supervisor) admit() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", ErrClosed
	}
	s.seq++
	s.tasks.Add(1)
	return s.prefix + strconv.FormatUint(s.seq, 10), nil
}

func (s *Supervisor) spawn(c *Command, path, id string) (*running, error) {
	keep := c.KeepBytes
	if keep <= 0 {
		keep = DefaultKeepBytes
	}
	limit := c.LogBytes
	if limit <= 0 {
		limit = DefaultLogBytes
	}
	out, outW, err := newStream(keep, c.StdoutPath, limit)
	if err != nil {
		return nil, &StartError{"open pipe", path, err}
	}
	errS, errW, err := newStream(keep, c.StderrPath, limit)
	if err != nil {
		out.abandon(outW)
		return nil, &StartError{"open pipe", path, err}
	}
	cmd := &exec.Cmd{
		Path: path, Args: c.Argv, Dir: c.Dir,
		// The id comes first: it is read back from /proc within a bound.
		Env:    append([]string{commandIDVar + "=" + id}, c.Env...),
		Stdout: outW, Stderr: errW,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   orDefault(c.Drain, DefaultDrain), // for the copying of Stdin only
	}
	if c.Stdin != nil {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	p := &running{id: id, grace: orDefault(c.Grace, DefaultGrace), cmd: cmd, exited: make(chan struct{}), out: out, err: errS}
	if err := s.fork(p); err != nil {
		out.abandon(outW)
		errS.abandon(errW)
		return nil, &StartError{"start", path, err}
	}
	outW.Close()
	errW.Close()
	out.copy()
	errS.copy()
	go p.watch()
	return p, nil
}

// fork starts the leader and registers it before anyone may judge it.
func (s *Supervisor) fork(p *running) error {
	s.starting.RLock()
	defer s.starting.RUnlock()
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.pid = p.cmd.Process.Pid
	if st, err := readStat(p.pid); err == nil {
		p.start = st.start
	}
	s.mu.Lock()
	s.live[p.pid] = p
	if s.firstStart == 0 {
		s.firstStart = p.start
	}
	s.mu.Unlock()
	return nil
}

// watch reports the leader's exit without reaping it: as long as it is a
// zombie, its pid is a safe name for the group.
func (p *running) watch() {
	defer close(p.exited)
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// collect reaps the leader and returns its status.
func (s *Supervisor) collect(p *running) (int, syscall.Signal) {
	select {
	case <-p.exited:
	default:
		// It outlived SIGKILL, so it hangs in the kernel. Leave its status to a
		// goroutine; the process stays registered until then.
		s.log.Error("a command does not end", "pid", p.pid)
		go func() {
			<-p.exited
			p.cmd.Wait()
			s.forget(p)
		}()
		return 128 + int(unix.SIGKILL), unix.SIGKILL
	}
	// Wait's error repeats the status, or tells of a stdin nobody read.
	_ = p.cmd.Wait()
	s.forget(p)
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return -1, 0
	case ws.Signaled():
		return 128 + int(ws.Signal()), ws.Signal()
	default:
		return ws.ExitStatus(), 0
	}
}

func (s *Supervisor) forget(p *running) {
	s.mu.Lock()
	delete(s.live, p.pid)
	s.mu.Unlock()
}

// await returns when the leader has ended by itself or has been made to.
func (s *Supervisor) await(ctx context.Context, p *running, timeout time.Duration, res *Result) {
	var deadline <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		deadline = t.C
	}
	select {
	case <-p.exited:
		return
	case <-deadline:
		res.TimedOut = true
	case <-ctx.Done():
		res.Canceled = true
	case <-s.closing:
		res.Canceled = true
	}
	s.terminate(p)
}

// terminate asks the group to end, and leaves the insisting to endStrays. The
// grace belongs to the whole group: a shell dies at once, while the program it
// started may still be putting its things in order.
func (s *Supervisor) terminate(p *running) {
	_ = unix.Kill(-p.pid, unix.SIGTERM)
	_ = unix.Kill(-p.pid, unix.SIGCONT) // a stopped process acts on SIGTERM only when continued
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	select {
	case <-p.exited:
	case <-grace.C:
		return
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for groupAlive(p.pid) {
		select {
		case <-poll.C:
		case <-grace.C:
			return
		}
	}
}

// finish closes both streams and returns what they hold.
func (p *running) finish(drain time.Duration) (stdout, stderr Capture) {
	deadline := time.Now().Add(drain)
	return p.out.finish(deadline), p.err.finish(deadline)
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
