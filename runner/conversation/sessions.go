// Package conversation keeps the sessions of clients: a container with a private tree behind every conversation.
//
//	Start ─▶ record ─▶ Turn … Turn ─▶ Close ─▶ manifest ─▶ retention removes it
//	                     │
//	          log: turn, response, items, end ─▶ index: id ─▶ session
//
// A session has a directory on the host. Its record says whose it is and what it works on; its log has a line for each
// id and for the end of each turn, from which the index, the totals and the turns that are under way are computed.
// Containers are the pool's: it makes one when a turn or a read needs it, pauses it and stops it. The private tree is
// this package's and outlives its containers. agentd's state lies in the directory too, where the pool puts it.
//
// The invariants: a record is durable before its session is used, and a turn is in the log before it is asked for; an
// id leads to sessions of its owner alone, so that ids of others and unknown ids are the same; the operator's files
// change by Apply and Checkout only; a session is not removed before its change is kept and its manifest written. A
// process may be killed at any moment: records and logs stay readable, and what was begun is finished by the next one.
//
// Not promised: the order in which turns of one session that were asked for at once begin, which is agentd's; and item
// ids that a power cut took before the end of their turn.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/workspace/git"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/state/files"
)

// Defaults of Options.
const (
	defaultTTL  = 24 * time.Hour
	defaultKeep = 7 * 24 * time.Hour
)

// Options say what Sessions work with. Home, Pool, Borrowing and Log are needed.
type Options struct {
	Home  state.Home
	Pool  containers
	Roots []string // directories below which sessions may have a workspace, absolute

	Key          []byte // from which each owner's key of compaction items is derived; nil: each session has its own
	Image        string // of sessions that name none
	Engine       string // its name, for manifests
	Version      string // of holon, likewise
	Local        bool   // containers see the host's paths
	IncludeDirty bool   // trees begin with what is not committed
	Borrowing    func() git.Borrowing

	Max    int           // sessions that are open at once; 0: no bound
	Pause  time.Duration // after which the pool pauses an idle container, for Info; 0: it does not
	TTL    time.Duration // after which an idle session is closed; 0: defaultTTL; negative: never
	Keep   time.Duration // after which a closed one is removed; 0: defaultKeep; negative: never
	Limits Limits

	Files Files           // nil: all processes that may have the sessions have Home
	Left  map[string]bool // sessions that are not opened: what Home has of them is old

	Now func() time.Time // nil: time.Now
	Log *slog.Logger
}

// Sessions are those of all clients of a home, of which one process at a time has them. Its methods are safe for
// concurrent use.
type Sessions struct {
	opts     Options
	starting sync.Mutex    // over Start, from the check of its bounds until the session is there
	changed  chan struct{} // receives when the next deadline may be another
	touched  chan struct{} // receives when unsaved has one more
	host     string        // state.Home.Owner
	audit    sync.Mutex
	decided  time.Duration // see defaultDecided

	mu    sync.Mutex
	grown *sync.Cond            // of the index, or a turn has ended
	all   map[string]*Session   // by id
	index map[string][]*Session // by id of a response, a turn or an item; several where containers gave the same

	unsaved map[*Session]bool // empty without Options.Files
}

// Session is one conversation.
type Session struct {
	sessions *Sessions
	id       string
	steady   chan struct{} // holds a token while no turn may begin or end
	busy     chan struct{} // holds a token while its tree is in use
	writing  sync.Mutex    // over what is written to record and log, before mu

	// Under Sessions.mu.
	record record
	log    folded
	calls  map[string]*call // turns and reads that go on, by turn or a number
	next   int
}

// call is a turn or a read that goes on.
type call struct {
	cancel func(error)
	begun  bool          // agentd has accepted the turn
	over   bool          // and its watcher has seen its end, which the log is about to have
	kept   chan struct{} // closed when the turn is on the disk, or could not be brought there; nil: it is
}

// Open reads the sessions of a home. Those whose files cannot be read are set aside, and named in the log.
func Open(ctx context.Context, o Options) (*Sessions, error) {
	o.TTL, o.Keep = cmp.Or(o.TTL, defaultTTL), cmp.Or(o.Keep, defaultKeep)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sessions{opts: o, changed: make(chan struct{}, 1), touched: make(chan struct{}, 1), decided: defaultDecided,
		all: make(map[string]*Session), index: make(map[string][]*Session), unsaved: make(map[*Session]bool)}
	s.grown = sync.NewCond(&s.mu)
	if err := s.resolveRoots(); err != nil {
		return nil, err
	}
	var err error
	if s.host, err = o.Home.Owner(); err != nil {
		return nil, err
	}
	dir := o.Home.SessionsDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of sessions: %w", err)
	}
	if _, err := landing.UndoKilled(ctx, []string{filepath.Join(dir, "*", changeDir),
		filepath.Join(dir, "*", changeDir+".checkout-*")}, false); err != nil {
		return nil, fmt.Errorf("undo what was being applied: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the sessions: %w", err)
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		switch name := e.Name(); {
		case strings.HasPrefix(name, removedPrefix):
			err = errors.Join(err, files.RemoveAll(filepath.Join(dir, name)))
		case state.CheckConversationID(name) == nil && !o.Left[name]:
			err = errors.Join(err, s.load(ctx, name))
		}
	}
	s.touch(slices.Collect(maps.Values(s.all))...)
	return s, errors.Join(err, s.disclaimUnowned(ctx))
}

// resolveRoots resolves the links of the allowed directories.
func (s *Sessions) resolveRoots() error {
	s.opts.Roots = slices.Clone(s.opts.Roots)
	for i, root := range s.opts.Roots {
		real, err := git.RealDirectory(root)
		if err != nil {
			return &state.Error{Code: runner.CodeUsage, Param: "--workspace-root", Err: err,
				Message: fmt.Sprintf("workspaces cannot be below %.200q", root), Hint: "name a directory that exists"}
		}
		s.opts.Roots[i] = real
	}
	return nil
}

// load reads one session. One that was not recorded to its end never began.
func (s *Sessions) load(ctx context.Context, id string) error {
	dir := s.opts.Home.SessionDir(id)
	if err := errors.Join(durable.Sweep(dir), durable.Sweep(filepath.Join(dir, changeDir))); err != nil {
		return err
	}
	r, err := readRecord(dir, id)
	if errors.Is(err, fs.ErrNotExist) && onlyEmpty(dir) {
		return files.RemoveAll(dir)
	}
	if err != nil {
		s.opts.Log.Warn("the record of a session cannot be used: the session is set aside", "directory", dir,
			"err", err)
		return setAside(dir, s.opts.Now())
	}
	x := s.newSession(*r)
	s.all[id] = x
	x.log, err = readLog(dir, r.CreatedAt)
	if err == nil {
		for known := range x.log.known {
			s.index[known] = append(s.index[known], x)
		}
		err = x.leaveTree()
		x.completeRewind()
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		s.opts.Log.Warn("the log of a session cannot be used, and is set aside", "session", id, "err", err)
	}
	if err := setAside(filepath.Join(dir, logFile), s.opts.Now()); err != nil {
		return err
	}
	x.log = newFolded(r.CreatedAt)
	err = errors.Join(x.rebuildLog(ctx), x.leaveTree())
	x.completeRewind()
	return err
}

// setAside renames what cannot be used. What is not there is success.
func setAside(path string, now time.Time) error {
	err := os.Rename(path, path+damagedMark+fmt.Sprint(now.UnixMilli()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// onlyEmpty reports whether nothing but what Start makes before the record is in a directory.
func onlyEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

func (s *Sessions) newSession(r record) *Session {
	return &Session{sessions: s, id: r.ID, record: r, steady: make(chan struct{}, 1), busy: make(chan struct{}, 1),
		log:   newFolded(r.CreatedAt),
		calls: make(map[string]*call)}
}

// The codes of errors, in addition to those of package workspace and its own. A door maps them to statuses.
const (
	CodeNotFound   state.Code = "session_not_found"
	CodeClosed     state.Code = "session_closed"   // 409: no turn is begun there any more
	CodeConflict   state.Code = "session_conflict" // 409: an open session has the name, and works elsewhere
	CodeLimit      state.Code = "session_limit"    // 429: a *Limited
	CodeNotAllowed state.Code = "workspace_not_allowed"
	CodeNothing    state.Code = "no_workspace" // Apply, Checkout: of a session without one
)

func notFound(name string) error {
	return &state.Error{Code: CodeNotFound, Param: "session", Message: fmt.Sprintf("there is no session %.128q", name),
		Hint: "holon session list shows them"}
}

// precedes reports whether of two sessions of one name it is x: an open one, else the newest. A host that could not
// save one that it opened may bring a second one that is open.
func (x *Session) precedes(other *Session) bool {
	if open := x.record.open(); open != other.record.open() {
		return open
	}
	return x.id > other.id
}

// Find finds a session by its id or its owner's name for it: the open one, else the newest. With owner "" it may be
// anyone's.
func (s *Sessions) Find(owner, idOrName string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.all[idOrName]; x != nil && x.isOf(owner) {
		return x, nil
	}
	var found *Session
	for _, x := range s.all {
		if idOrName == "" || x.record.Name != idOrName || !x.isOf(owner) {
			continue
		}
		if found == nil || x.precedes(found) {
			found = x
		}
	}
	if found == nil {
		return nil, notFound(idOrName)
	}
	return found, nil
}

func (x *Session) isOf(owner string) bool { return owner == "" || x.record.Owner == owner }

// OfResponse finds the session of a response, OfTurn that of a turn, OfItem that of an item. The error is the same for
// an id of another owner and for one that is unknown. With owner "" it may be anyone's.
func (s *Sessions) OfResponse(owner, id string) (*Session, error) {
	return s.lookUp(owner, id, kindResponse, &state.Error{Code: responses.CodeNotFound, Param: "response_id",
		Message: fmt.Sprintf("there is no response %.128q", id)})
}

// OfTurn is described at OfResponse.
func (s *Sessions) OfTurn(owner, id string) (*Session, error) {
	return s.lookUp(owner, id, kindTurn, &state.Error{Code: responses.CodeTurnNotFound, Param: "turn_id",
		Message: fmt.Sprintf("there is no turn %.128q", id)})
}

// OfItem is described at OfResponse.
func (s *Sessions) OfItem(owner, id string) (*Session, error) {
	return s.lookUp(owner, id, kindItem, &state.Error{Code: responses.CodeItemNotFound, Param: "input",
		Message: fmt.Sprintf("there is no item %.128q", id)})
}

// catchUp bounds how long a look-up waits for items of the owner's turns that go on: a client may have read one from
// agentd's stream before the host has. Turns are in the index before they are asked for, and responses before their
// client can have read more than their beginning.
const catchUp = time.Second

// defaultDecided bounds how long a look-up waits until it is known whether agentd has a turn that was asked for,
// perhaps by a holon that was killed: what repeats that request must not be what begins it.
const defaultDecided = 30 * time.Second

func (s *Sessions) lookUp(owner, id string, of kind, missing *state.Error) (*Session, error) {
	late := false
	s.mu.Lock()
	defer s.mu.Unlock()
	patience := catchUp
	if of == kindTurn {
		patience = s.decided
	}
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.grown.Broadcast()
	})
	defer timer.Stop()
	for {
		waits := of == kindItem && s.runs(owner)
		for _, x := range s.index[id] {
			switch {
			case !x.isOf(owner) || x.log.known[id] != of:
			case of == kindTurn && !late && slices.Contains(x.log.going, id) && !x.begun(id):
				waits = true
			default:
				return x, nil
			}
		}
		if late || !waits {
			return nil, missing
		}
		s.grown.Wait()
	}
}

// runs reports whether a turn of the owner goes on. The caller holds mu.
func (s *Sessions) runs(owner string) bool {
	for _, x := range s.all {
		if x.begun("") && x.isOf(owner) {
			return true
		}
	}
	return false
}

// begun reports whether agentd has accepted a turn that goes on, any with "". The caller holds mu.
func (x *Session) begun(turnID string) bool {
	for id, c := range x.calls {
		if c.begun && (turnID == "" || turnID == id) {
			return true
		}
	}
	return false
}

// List describes the sessions of an owner, or of all with "", the newest first.
func (s *Sessions) List(owner string) []Info {
	s.mu.Lock()
	list := make([]*Session, 0, len(s.all))
	for _, x := range s.all {
		if x.isOf(owner) {
			list = append(list, x)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Compare(b.id, a.id) })
	infos := make([]Info, len(list))
	for i, x := range list {
		infos[i] = x.Info()
	}
	return infos
}

// wake has Run look for the next deadline again.
func (s *Sessions) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Sessions) now() turns.Time { return turns.At(s.opts.Now()) }
