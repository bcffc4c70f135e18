package agentd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"holon/agentd/record"
	"holon/responses"
	"holon/responses/turns"
)

// view is what a request sees of a turn, live or finished.
type view struct {
	source
	journal  *record.Journal
	done     <-chan struct{}
	response responses.Response // when it was acknowledged
	input    []responses.Item   // of the request; nil for what was opened from disk

	released sync.Once
}

// source is the turn behind a view.
type source interface {
	// result returns how the turn ended, once it is done.
	result() (*responses.Response, *responses.Error)
	// present returns the response as it is now.
	present(ctx context.Context) (responses.Response, error)
	// memory returns the conversation with the turn once it is done, nil when it
	// is not at hand.
	memory() *memory
	// attach counts a client that waits for the turn, until leave.
	attach() (leave func())
	// cancel ends the turn; it does nothing when the turn is over.
	cancel(cause error)
	// close ends the view's hold on the turn's files.
	close()
}

// release ends the view. It may be called more than once.
func (v *view) release() { v.released.Do(v.close) }

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
	journal, err := record.OpenJournal(dir)
	if err != nil {
		return nil, responses.Internal("the turn's events cannot be read", err)
	}
	final, err := lastResponse(journal)
	if err != nil {
		return nil, responses.Internal("the turn's events cannot be read", errors.Join(err, journal.Close()))
	}
	return finished(final, journal), nil
}

// finishedTurn is a turn that is over, with its open journal.
type finishedTurn struct {
	final   *responses.Response
	journal *record.Journal
}

// finished returns a view of a turn that is over.
func finished(final *responses.Response, journal *record.Journal) *view {
	done := make(chan struct{})
	close(done)
	return &view{source: &finishedTurn{final, journal}, journal: journal, done: done, response: *final}
}

func (f *finishedTurn) result() (*responses.Response, *responses.Error)     { return f.final, nil }
func (f *finishedTurn) present(context.Context) (responses.Response, error) { return *f.final, nil }
func (f *finishedTurn) memory() *memory                                     { return nil }
func (f *finishedTurn) attach() (leave func())                              { return func() {} }
func (f *finishedTurn) cancel(error)                                        {}
func (f *finishedTurn) close()                                              { _ = f.journal.Close() } // it was only read

// lastResponse decodes the response that the last event of a stream carries.
func lastResponse(journal *record.Journal) (*responses.Response, error) {
	var last []byte
	if err := journal.Lines(func(line []byte) error {
		if _, key, value, ok := turns.CutEntry(line); ok && key == turns.EntryStream {
			last = append(last[:0], value...) // the slice is the journal's
		}
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
