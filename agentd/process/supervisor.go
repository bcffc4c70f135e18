package process

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"holon/agentd/privilege"
	"holon/internal/redact"
)

// ErrClosed is returned by Start after Close has begun.
var ErrClosed = errors.New("the process supervisor is closed")

// Options configure a Supervisor. The zero value is usable.
type Options struct {
	// Logger receives problems that concern no caller; nil discards them.
	Logger *slog.Logger
	// Exclusive says that nothing else in this program starts processes. The supervisor then reaps every child it
	// does not know and ends every orphan that belongs to no live command. Leave it false inside a program (such as
	// a test) that also uses os/exec.
	Exclusive bool
	// Secrets are removed from the output of commands before it is kept, in memory or in a file; nil for none. A
	// reader of Piped output gets it unchanged.
	Secrets *redact.Set
	// Users has the user of commands; nil for this program's own user.
	Users *privilege.Users
	// Dir is where the traces of running commands are recorded, for [Supervisor.EndRecorded]. A command whose trace
	// cannot be recorded does not start. Empty means nowhere, and PID 1 records none: the kernel ends its commands
	// with it.
	Dir string
}

// Supervisor runs commands and owns all their processes. It is safe for concurrent use. Make one with New and end it
// with Close.
type Supervisor struct {
	log       *slog.Logger
	exclusive bool
	first     bool // this program is PID 1 of its namespace
	secrets   *redact.Set
	users     *privilege.Users
	prefix    string // first part of every command id of this supervisor

	dir, boot, space string // of traces

	// starting is held for reading from fork until the child is registered, and for writing while unknown children
	// are inspected, so that a child between the two is never mistaken for an orphan.
	starting sync.RWMutex
	reserve  sync.Once

	mu     sync.Mutex
	closed bool
	seq    uint64
	// firstStart is when the first command began, in the kernel's clock. Older processes cannot be ours.
	firstStart uint64
	live       map[int]*Process // by pid of the leader

	closing chan struct{}
	tasks   sync.WaitGroup // commands and the goroutines they started
	reaper  sync.WaitGroup
}

// New returns a running Supervisor. It makes this program the reaper of its descendants' orphans, if it is not PID 1
// and the kernel allows it.
func New(opts Options) *Supervisor {
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	first := os.Getpid() == 1
	if !first {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			log.Warn("orphans of commands cannot be adopted; only process groups are ended", "err", err)
		}
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	s := &Supervisor{
		log:       log,
		secrets:   opts.Secrets,
		users:     opts.Users,
		exclusive: opts.Exclusive,
		first:     first,
		prefix:    hex.EncodeToString(id[:]) + "-",
		dir:       opts.Dir,
		live:      make(map[int]*Process),
		closing:   make(chan struct{}),
	}
	s.boot, s.space = place()
	s.startReaper()
	return s
}

// Close ends every command and everything that escaped from one, and waits for it. Further starts are refused. It may
// be called more than once.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.tasks.Wait()
	s.reaper.Wait()
	if n := s.endTree(nil); n.survivors > 0 {
		return fmt.Errorf("%d processes could not be ended", n.survivors)
	}
	return nil
}

// Start starts c and returns at once. From then on the process belongs to the supervisor, which ends it with its whole
// tree when its leader exits, its deadline passes, it is stopped, or Close is called. The error is a *StartError, and
// then nothing of it is left, or ErrClosed.
func (s *Supervisor) Start(c Command) (*Process, error) {
	id, err := s.admit()
	if err != nil {
		return nil, err
	}
	if s.exclusive {
		s.reserve.Do(func() { reserveThreads(spareThreads) })
	}
	p, err := s.spawn(&c, id)
	if err != nil {
		s.tasks.Done()
		return nil, err
	}
	go p.supervise()
	return p, nil
}

// admit counts a command in, so that Close waits for it.
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

func (s *Supervisor) forget(p *Process) {
	s.forgetTrace(p)
	s.mu.Lock()
	if s.live[p.pid] == p {
		delete(s.live, p.pid)
	}
	s.mu.Unlock()
}
