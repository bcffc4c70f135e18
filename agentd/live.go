package agentd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// liveTurn is a turn of this process, from its first request until the last
// reader has left it.
type liveTurn struct {
	id     string
	digest string
	start  chan struct{} // closed when it is known whether the turn exists
	done   chan struct{} // closed when the turn is over

	// Set before start is closed.
	err      error // why there is no turn
	turn     *record.Turn
	response responses.Response // as it was acknowledged
	input    []responses.Item   // of the request
	base     base               // of the conversation that it continues
	inbox    *inbox             // of what the user says meanwhile
	fragile  bool               // the turn ends when the last client that waits for it goes
	cancel   context.CancelCauseFunc

	mu      sync.Mutex
	refs    int // the running turn and its readers
	clients int // that wait for the turn's end
	final   *responses.Response
	failure *responses.Error // why final is missing
	told    []responses.Item // the conversation with the turn, when it ran to its end

	progress progress
}

// view is what a request sees of a turn, live or finished.
type view struct {
	events   *record.Log
	runtime  *record.Log
	done     <-chan struct{}
	response responses.Response                             // when it was acknowledged
	input    []responses.Item                               // of the request; nil for what was opened from disk
	result   func() (*responses.Response, *responses.Error) // after done
	present  func(ctx context.Context) (responses.Response, error)
	memory   func() *memory        // after done: the conversation with this turn; nil when it is not at hand
	attach   func() (leave func()) // a client waits for the turn, until leave
	cancel   func(cause error)
	release  func()
}

// claim makes turnID this process's, or returns the turn that already has it.
func (s *Server) claim(turnID, digest string) (lt *liveTurn, owner bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lt, ok := s.live[turnID]; ok {
		return lt, false
	}
	lt = &liveTurn{id: turnID, digest: digest, start: make(chan struct{}), done: make(chan struct{}), refs: 1}
	s.live[turnID] = lt
	return lt, true
}

func (s *Server) forget(lt *liveTurn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[lt.id] == lt {
		delete(s.live, lt.id)
	}
}

func (s *Server) lookup(turnID string) *liveTurn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[turnID]
}

// began tells those who wait whether the turn exists.
func (lt *liveTurn) began(err error) {
	lt.err = err
	close(lt.start)
}

// await returns a view of a turn that another request began, or nil when that
// turn is over and must be looked up on disk.
func (lt *liveTurn) await(digest string) (*view, error) {
	if digest != "" && lt.digest != digest {
		return nil, conflict(lt.id)
	}
	<-lt.start
	if lt.err != nil {
		return nil, lt.err
	}
	return lt.view(), nil
}

// events returns the turn's event log, nil when the turn did not begin.
func (lt *liveTurn) events() *record.Log {
	if lt.turn == nil {
		return nil
	}
	return lt.turn.Events
}

func conflict(turnID string) error {
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeTurnConflict,
		Param:   "holon.turn_id",
		Message: fmt.Sprintf("the turn %s exists and was made by another request", turnID),
		Hint:    "choose another turn_id"}
}

// view adds a reader. It returns nil when there are no open files to read.
func (lt *liveTurn) view() *view {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.refs == 0 || lt.turn == nil {
		return nil
	}
	lt.refs++
	return &view{
		events: lt.turn.Events, runtime: lt.turn.Runtime, done: lt.done, response: lt.response, input: lt.input,
		result: lt.result, present: lt.present, memory: lt.memory, attach: lt.attach, cancel: lt.cancel,
		release: sync.OnceFunc(lt.release),
	}
}

// attach counts a client that waits for the turn. When the last one goes before
// the end, a fragile turn is cancelled.
func (lt *liveTurn) attach() (leave func()) {
	lt.mu.Lock()
	lt.clients++
	lt.mu.Unlock()
	return sync.OnceFunc(func() {
		lt.mu.Lock()
		lt.clients--
		abandoned := lt.fragile && lt.clients == 0
		lt.mu.Unlock()
		if abandoned {
			lt.cancel(turn.ErrCancelled) // a turn that is over does not mind
		}
	})
}

// release drops the turn's or a reader's hold on the files.
func (lt *liveTurn) release() {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.refs--; lt.refs == 0 {
		_ = lt.turn.Close() // the logs have ended; their errors were reported then
	}
}

func (lt *liveTurn) finish(final *responses.Response, failure *responses.Error, told []responses.Item) {
	lt.mu.Lock()
	lt.final, lt.failure, lt.told = final, failure, told
	lt.mu.Unlock()
	close(lt.done)
}

func (lt *liveTurn) result() (*responses.Response, *responses.Error) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.final, lt.failure
}

// find returns a view of the turn turnID, live or on disk, or nil.
func (s *Server) find(turnID string) (*view, error) {
	if lt := s.lookup(turnID); lt != nil {
		if v, err := lt.await(""); v != nil || err != nil {
			return v, err
		}
	}
	return s.onDisk(turnID, "")
}

// onDisk returns a view of a finished turn, nil when there is none, and a
// conflict when another request made it. An empty digest fits any request.
func (s *Server) onDisk(turnID, digest string) (*view, error) {
	dir, rec, err := s.locate(turnID)
	if rec == nil || err != nil {
		return nil, err
	}
	if digest != "" && rec.RequestDigest != digest {
		return nil, conflict(turnID)
	}
	return openFinished(dir)
}

// openFinished returns a view of a turn whose process is gone or done.
func openFinished(dir string) (*view, error) {
	events, err := record.OpenLog(filepath.Join(dir, turns.EventsFile))
	if err != nil {
		return nil, responses.Internal("the turn's events cannot be read", err)
	}
	runtime, err := record.OpenLog(filepath.Join(dir, turns.RuntimeFile))
	if err != nil {
		return nil, responses.Internal("the turn's events cannot be read", errors.Join(err, events.Close()))
	}
	final, err := lastResponse(events)
	if err != nil {
		return nil, responses.Internal("the turn's events cannot be read",
			errors.Join(err, events.Close(), runtime.Close()))
	}
	v := finished(events, final)
	v.runtime, v.release = runtime, sync.OnceFunc(func() { _ = errors.Join(events.Close(), runtime.Close()) })
	return v, nil
}

// finished returns a view of a turn that is over, without its runtime events.
func finished(events *record.Log, final *responses.Response) *view {
	done := make(chan struct{})
	close(done)
	return &view{
		events: events, done: done, response: *final,
		result:  func() (*responses.Response, *responses.Error) { return final, nil },
		present: func(context.Context) (responses.Response, error) { return *final, nil },
		memory:  func() *memory { return nil },
		attach:  func() func() { return func() {} },
		cancel:  func(error) {},
		release: sync.OnceFunc(func() { _ = events.Close() }), // it was only read
	}
}

// lastResponse decodes the response that the last event of a stream carries.
func lastResponse(events *record.Log) (*responses.Response, error) {
	var last []byte
	if err := events.Lines(func(line []byte) error {
		last = append(last[:0], line...) // the slice is the log's
		return nil
	}); err != nil {
		return nil, err
	}
	ev, err := responses.DecodeEvent(last)
	if err != nil {
		return nil, err
	}
	if ev.Response == nil || !responses.Terminal(ev.Type) {
		return nil, fmt.Errorf("the stream breaks off with %s", ev.Type)
	}
	return ev.Response, nil
}

// A turn whose directory the caller chose is found by a note in the state
// directory; all others by their id.

// remember notes where a turn is whose directory does not follow from its id.
func (s *Server) remember(turnID, dir string) error {
	if dir == s.defaultDir(turnID) {
		return nil
	}
	notes := filepath.Join(s.cfg.Dirs.State, "turns")
	if err := os.MkdirAll(notes, 0o700); err != nil {
		return fmt.Errorf("remember the turn's directory: %w", err)
	}
	return durable.WriteFile(filepath.Join(notes, turnID), []byte(dir+"\n"), 0o600)
}

// locate returns a turn's directory and record, or nil when there is no such
// turn. A note is only a hint: its turn may have been refused after all.
func (s *Server) locate(turnID string) (dir string, rec *turns.Record, err error) {
	dirs := []string{s.defaultDir(turnID)}
	if data, err := os.ReadFile(filepath.Join(s.cfg.Dirs.State, "turns", turnID)); err == nil {
		dirs = append(dirs, strings.TrimSuffix(string(data), "\n"))
	}
	for _, dir := range dirs {
		rec, err := record.ReadRecord(dir)
		switch {
		case err == nil && rec.TurnID == turnID:
			return dir, rec, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", nil, responses.Internal("the turn's record cannot be read", err)
		}
	}
	return "", nil, nil
}

func (s *Server) defaultDir(turnID string) string {
	return filepath.Join(s.cfg.Dirs.Output, "turns", turnID)
}
