package agentd

import (
	"context"
	"fmt"
	"sync"

	"holon/agentd/record"
	"holon/agentd/turn"
	"holon/responses"
)

// liveTurn is a turn of this process, from its first request until the last
// reader has left it, or one that is over, with its open journal.
type liveTurn struct {
	id     string
	digest string
	start  chan struct{} // closed when it is known whether the turn exists
	done   chan struct{} // closed when the turn is over

	// Set before start is closed.
	err      error        // why the turn does not exist
	turn     *record.Turn // nil for one of disk
	journal  *record.Journal
	response responses.Response      // as it was acknowledged
	input    []responses.Item        // of the request
	stored   storedPrefix            // of the conversation that it continues
	inbox    *inbox                  // of what the user says meanwhile
	fragile  bool                    // the turn ends when the last client that waits for it goes
	stop     context.CancelCauseFunc // of its context; it does nothing when the turn is over

	mu           sync.Mutex
	refs         int // the running turn and its readers
	clients      int // that wait for the turn's end
	final        *responses.Response
	failure      *responses.Error // why final is missing
	conversation []responses.Item // the conversation with the turn, when it ran to its end
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

// began reports to waiting requests whether the turn exists.
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
	if lt.refs == 0 || lt.journal == nil {
		return nil
	}
	lt.refs++
	return &view{liveTurn: lt}
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
			lt.stop(turn.ErrCancelled)
		}
	})
}

// close drops the turn's or a reader's hold on the files.
func (lt *liveTurn) close() {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.refs--; lt.refs == 0 {
		_ = lt.journal.Close() // it has ended; its errors were reported then
	}
}

func (lt *liveTurn) finish(final *responses.Response, failure *responses.Error, told []responses.Item) {
	lt.mu.Lock()
	lt.final, lt.failure, lt.conversation = final, failure, told
	lt.mu.Unlock()
	close(lt.done)
}

func (lt *liveTurn) result() (*responses.Response, *responses.Error) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.final, lt.failure
}
