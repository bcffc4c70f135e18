// Package sessions owns the sessions of a home, each by its key: a run, an agent or a conversation of a client.
//
//	Start ─▶ Turn … Turn ─▶ Close        Start writes session.json before there is a container, Close removes it
//	TakeUp ─▶ Rejoin ─────▶ Leave        what a killed process left, from session.json
//	Sweeper                              what no session.json names
//
// It has the only code for what a session holds on the disk, for taking it up, for the end of a turn that no process
// watched, and for removing what has no owner. When a session is started and stopped, what is kept of it and what is
// reported is the policy of its callers: oneshot for runs, pool for agents and conversations.
//
// The invariants: session.json is durable before what it names exists, and goes after it; a turn is recorded before it
// is asked for; and the files of a container are believed only where its commands could not write them, or where they
// are what this host saw. The package takes no lease: a run is held by the lease of its directory, the agents and the
// conversations of a home by the daemon of that home, or by the one among several that has their lease (state/ledger).
package sessions

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"holon/internal/redact"
	"holon/runner"
	"holon/runner/gateway"
	"holon/state"
	"holon/state/files"
)

// Manager makes sessions and takes them up.
type Manager struct {
	Home    state.Home
	Secrets *redact.Set // gets the token of each turn while it runs; nil for none
	Log     *slog.Logger
	AtOnce  bool // a session makes several turns at a time; all that go on when it is taken up are rejoined
	Claim   *Claim
}

// Session is a runner.Session with its record.
type Session struct {
	*runner.Session
	manager *Manager
	key     Key
	awaits  sync.Once      // over what a session that was taken up has to know before its first turn
	next    gateway.Secret // token of a turn that is on record and was not asked for yet

	mu     sync.Mutex // over the record, its file and what follows
	record *Record
	over   map[string]bool   // turns that have ended, until another is asked for
	lines  int               // of the file of turns; 0: it has to be made anew
	tokens map[string]string // of turns; secrets until another is asked for, or the session is given up
}

func newSession(m *Manager, key Key, record *Record) *Session {
	return &Session{manager: m, key: key, record: record, over: make(map[string]bool), tokens: make(map[string]string)}
}

// Start makes the container of a session. record has what only the caller knows. On error nothing is left.
func (m *Manager) Start(ctx context.Context, key Key, record *Record, cfg runner.Config) (*Session, error) {
	name, sockets := key.newContainer()
	cfg.ID, cfg.SocketDir = name, m.Home.IPCDir(sockets)
	s := newSession(m, key, record)
	if record.TurnID != "" { // its token is recorded along with the container
		s.next, record.Grant = gateway.NewToken()
	}
	return s.open(cfg, func(cfg runner.Config) (*runner.Session, error) {
		started, err := runner.Start(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, m.RemoveRecord(key))
		}
		if s.Session = started; record.Made != nil {
			s.seal("")
		}
		return started, nil
	})
}

// TakeUp takes up what record says that another process held: see runner.TakeUp.
func (m *Manager) TakeUp(ctx context.Context, key Key, record *Record, cfg runner.Config, serve bool) (*Session,
	error) {
	s := newSession(m, key, record)
	return s.open(cfg, func(cfg runner.Config) (*runner.Session, error) {
		return runner.TakeUp(ctx, cfg, record.Held, serve)
	})
}

func (s *Session) open(cfg runner.Config, open func(runner.Config) (*runner.Session, error)) (_ *Session, err error) {
	m, key := s.manager, s.key
	dir := m.Dir(key)
	cfg.Dir, cfg.Hold = filepath.Join(dir, "session"), s.hold
	cfg.EgressRecord = filepath.Join(dir, runner.EgressFile)
	cfg.Labels = m.labels(key, cfg.Labels)
	if key.kind == Runs { // notes belong to the results of a run
		cfg.NotesRecord = filepath.Join(dir, runner.NotesFile)
	}
	s.Session, err = open(cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// hold records what the session holds from now on.
func (s *Session) hold(held runner.Held) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Held = held
	return s.save()
}

// Save writes the record, whose caller has changed its own part.
func (s *Session) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save()
}

func (s *Session) save() error { return s.record.write(s.manager.Dir(s.key)) }

// Close ends the session in good order and gives up what it holds, its record last. With keep, what was written stays.
func (s *Session) Close(ctx context.Context, keep bool) error {
	defer s.forgetTokens()
	err := s.Stop(ctx)
	if err == nil && s.key.kind == Conversations {
		s.seal("") // agentd stored the ends of the turns that it cut, which their clients read
	}
	if err == nil && !keep { // what may still run has its files
		err = files.RemoveAll(s.manager.SessionDir(s.key))
	}
	err = errors.Join(err, s.Session.Close(ctx))
	if err == nil {
		err = s.manager.RemoveRecord(s.key)
	}
	return err
}

// Leave lets go of the session for another process to take up.
func (s *Session) Leave(ctx context.Context) error {
	defer s.forgetTokens()
	return s.Session.Leave(ctx)
}

// Abandon gives up everything but the tree and what was written, which its record still names.
func (s *Session) Abandon(ctx context.Context) error {
	return errors.Join(s.LeaveTree(), s.Session.Close(ctx))
}
