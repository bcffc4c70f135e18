package agentd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"holon/agentd/record"
	"holon/responses"
	"holon/responses/turns"
)

// view is a request's hold on a turn, running or over.
type view struct {
	*liveTurn
	released sync.Once
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
	lt := &liveTurn{done: make(chan struct{}), journal: journal, response: *final, final: final, refs: 1,
		stop: func(error) {}}
	close(lt.done)
	return &view{liveTurn: lt}, nil
}

// streamed are the events of a turn's stream that are visible now, undecoded. Each is valid until the next.
func streamed(journal *record.Journal) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		enough := errors.New("enough")
		err := journal.Lines(func(line []byte) error {
			if _, key, event, ok := turns.CutEntry(line); ok && key == turns.EntryStream && !yield(event, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(nil, err)
		}
	}
}

// lastResponse decodes the response that the last event of a stream carries.
func lastResponse(journal *record.Journal) (*responses.Response, error) {
	var last []byte
	for event, err := range streamed(journal) {
		if err != nil {
			return nil, err
		}
		last = append(last[:0], event...)
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

// present returns the response as it is now. While the turn runs, its output
// holds the items that are closed.
func (v *view) present(ctx context.Context) (responses.Response, error) {
	resp := v.response
	if v.turn != nil {
		resp.Status = v.turn.Record().Status
	}
	if resp.Status.Terminal() { // its end may be visible already; the rest is a moment
		select {
		case <-v.done:
		case <-ctx.Done():
			return responses.Response{}, context.Cause(ctx)
		}
	}
	switch final, failure := v.result(); {
	case failure != nil:
		return responses.Response{}, failure
	case final != nil:
		return *final, nil
	}
	for event, err := range streamed(v.journal) {
		if err == nil && responses.EventType(event) == responses.EventItemDone {
			var ev responses.Event
			ev, err = responses.DecodeEvent(event)
			resp.Output = append(resp.Output, ev.Item)
		}
		if err != nil {
			return responses.Response{}, responses.Internal("the turn's events cannot be read", err)
		}
	}
	resp.Output = slices.Clip(resp.Output)
	return resp, nil
}
