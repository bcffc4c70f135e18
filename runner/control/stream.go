package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"holon/responses/stream"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// streamPage is how many events are read and sent at a time.
const streamPage = 100

// getStream is GET …/events/stream. Every stream reads the ledger by itself and shares nothing with others: one whose
// reader is slow stands still alone, until its connection is cut.
func (s *Server) getStream(w http.ResponseWriter, r *http.Request) {
	st := &eventStream{server: s, w: w, agentID: s.agentID(r)}
	first, err := st.open(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.stream(w, r, st, func() error { return st.run(r.Context(), first) })
}

// stream sends a stream of server-sent events, in one of the slots for streams.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, st *eventStream, run func() error) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		s.fail(w, r, &state.Error{Code: wire.CodeBusy, Message: "too many event streams are open",
			Hint: "close one, or come back later"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set(wire.HeaderEventEpoch, s.store.Epoch())
	err := run()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.counts.cut.Add(1)
		s.log.Info("the reader of an event stream was too slow", "agent", st.agentID)
	} else if err != nil && r.Context().Err() == nil {
		s.log.Error("an event stream ended", "agent", st.agentID, "err", err)
	}
}

// eventStream is one stream. query.AfterSeq is its cursor.
type eventStream struct {
	server  *Server
	w       http.ResponseWriter
	agentID string
	query   view.EventQuery
	frames  []byte // not yet sent
	item    string // message of the model of which text was sent
	sent    int    // bytes of it
}

// open finds where a stream begins and returns what is sent first. Nothing has been sent when it returns an error.
func (st *eventStream) open(r *http.Request) ([]wire.StreamControl, error) {
	q, resumes, err := st.ask(r)
	if err != nil {
		return nil, err
	}
	tail := st.query.Limit
	st.query.Limit = streamPage
	at, err := st.bounds(r.Context())
	if err != nil {
		return nil, err
	}
	if !resumes {
		if st.query.AfterSeq, err = st.beforeTail(r.Context(), tail, at.NewestSeq); err != nil {
			return nil, err
		}
	}
	reset := lost(st.query.AfterSeq, at)
	if s := st.server; s.parted(st.agentID, q["epoch"], st.query.AfterSeq) {
		reset = reasonEpoch
	}
	if reset == "" {
		at.Type, at.AfterSeq = wire.StreamOpen, st.query.AfterSeq
		return []wire.StreamControl{at}, nil
	}
	st.query.AfterSeq = at.NewestSeq
	at.Type, at.AfterSeq = wire.StreamOpen, at.NewestSeq
	again := at
	again.Type, again.Reason = wire.StreamReset, reset
	return []wire.StreamControl{at, again}, nil
}

// ask reads what is asked for, and whether it has a cursor.
func (st *eventStream) ask(r *http.Request) (q query, resumes bool, err error) {
	if q, err = queryOf(r, "after_seq", "epoch", "limit", "max_level", "projection"); err != nil {
		return nil, false, err
	}
	if st.query, err = q.events(); err != nil {
		return nil, false, err
	}
	_, resumes = q["after_seq"]
	if last := r.Header.Get("Last-Event-ID"); last != "" { // newer than the query of a reader that comes back by itself
		resumes = true
		st.query.AfterSeq, err = (query{"Last-Event-ID": last}).number("Last-Event-ID", math.MaxInt64)
	}
	return q, resumes, err
}

// reasonEpoch says that a reader's cursor is of a history that a restored backup replaced.
const reasonEpoch = "epoch_changed"

// parted reports whether a reader of an epoch, "" for one that names none, has read events that are not those that this
// ledger has up to its cursor.
func (s *Server) parted(agentID, epoch string, cursor int64) bool {
	return epoch != "" && cursor > s.store.SharedThrough(agentID, epoch)
}

// lost returns why the events after a cursor do not continue it, "" if they do. Cursor
// 0 asks for all events that are kept.
func lost(cursor int64, at wire.StreamControl) string {
	switch {
	case cursor > at.NewestSeq:
		return "cursor_ahead"
	case cursor > 0 && cursor < at.NewestSeq && (at.OldestSeq == 0 || cursor+1 < at.OldestSeq):
		return "cursor_pruned"
	}
	return ""
}

// bounds tells which events there are.
func (st *eventStream) bounds(ctx context.Context) (wire.StreamControl, error) {
	at := wire.StreamControl{Epoch: st.server.store.Epoch()}
	err := st.server.store.View(ctx, func(v ledger.View) error {
		page, err := st.server.view(v).Events(st.agentID, view.EventQuery{Limit: 1, Descending: true}, at.Epoch)
		if err != nil {
			return err
		}
		stored, err := v.AgentState(st.agentID)
		// Not the newest that is kept: retention may have taken all.
		at.OldestSeq, at.NewestSeq = page.OldestSeq, stored.EventSeq
		return err
	})
	return at, err
}

// beforeTail returns the cursor before the newest n events that pass the filter.
func (st *eventStream) beforeTail(ctx context.Context, n int, newest int64) (cursor int64, err error) {
	cursor = newest
	if n == 0 {
		return cursor, nil
	}
	err = st.server.store.View(ctx, func(v ledger.View) error {
		page, err := v.Events(st.agentID, ledger.EventQuery{Limit: n, Descending: true, MaxLevel: st.query.MaxLevel})
		if len(page.Events) > 0 {
			cursor = page.Events[len(page.Events)-1].Seq - 1
		}
		return err
	})
	return cursor, err
}

// run sends until the client goes, the server ends or the reader is too slow.
func (st *eventStream) run(ctx context.Context, first []wire.StreamControl) error {
	for _, f := range first {
		if err := st.frame(f); err != nil {
			return err
		}
	}
	if err := st.flush(); err != nil {
		return err
	}
	ended, err := st.tail(ctx, func() (bool, <-chan struct{}, error) {
		before, wrote := st.server.host.Writing(st.agentID)
		more, err := st.page(ctx)
		if err == nil && !more {
			err = st.text(before.ItemID)
		}
		return more, wrote, err
	})
	if ended {
		return st.end()
	}
	return err
}

// tail sends a page after another as events come, until the client goes, the server ends or the reader is too slow.
// page says whether there may be more, and gives a channel that is closed when there is, although there is no event.
func (st *eventStream) tail(ctx context.Context,
	page func() (more bool, changed <-chan struct{}, err error)) (ended bool, err error) {
	quiet := time.NewTimer(st.server.limits.KeepAlive)
	defer quiet.Stop()
	for {
		recorded := st.server.store.Changed(st.agentID)
		more, changed, err := page()
		if err != nil {
			return false, err
		}
		if more && ctx.Err() == nil && !st.server.ended() {
			continue
		}
		quiet.Reset(st.server.limits.KeepAlive)
		select {
		case <-recorded:
		case <-changed:
		case <-quiet.C:
			st.frames = append(st.frames, ": nothing new\n\n"...)
			if err := st.flush(); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, nil
		case <-st.server.ending:
			return true, nil
		}
	}
}

// text sends what the model writes now, unless it has begun since item was written: events that come before it may not
// have been sent.
func (st *eventStream) text(item string) error {
	now, _ := st.server.host.Writing(st.agentID)
	if now.ItemID == "" || now.ItemID != item || st.query.MaxLevel > 0 && st.query.MaxLevel < record.LevelProgress {
		return nil
	}
	if st.item != item {
		st.item, st.sent = item, 0
	}
	if len(now.Text) == st.sent {
		return nil
	}
	text := wire.Text{Type: wire.StreamText, TurnID: now.TurnID, MessageID: now.MessageID, ItemID: item, Offset: st.sent,
		Text: string(now.Text[st.sent:])}
	st.sent = len(now.Text)
	return errors.Join(st.add(0, wire.StreamText, text), st.flush())
}

func (s *Server) ended() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// page sends the events after the cursor, and reports whether there may be more.
func (st *eventStream) page(ctx context.Context) (more bool, err error) {
	var page view.EventPage
	var newest int64
	err = st.server.store.View(ctx, func(v ledger.View) (err error) {
		if page, err = st.server.view(v).Events(st.agentID, st.query, st.server.store.Epoch()); err != nil {
			return err
		}
		stored, err := v.AgentState(st.agentID)
		newest = stored.EventSeq
		return err
	})
	if err != nil {
		return false, ignoreCancelled(ctx, err)
	}
	at := wire.StreamControl{Type: wire.StreamReset, Epoch: page.Epoch, OldestSeq: page.OldestSeq, NewestSeq: newest,
		AfterSeq: newest}
	if at.Reason = lost(st.query.AfterSeq, at); at.Reason != "" { // retention was faster than this reader
		st.query.AfterSeq = newest
		return true, errors.Join(st.frame(at), st.flush())
	}
	for i := range page.Events {
		if err := st.add(page.Events[i].EventSeq, "", &page.Events[i]); err != nil {
			return false, err
		}
		st.query.AfterSeq = page.Events[i].EventSeq
	}
	if more = len(page.Events) == page.Limit; !more {
		st.query.AfterSeq = max(st.query.AfterSeq, newest) // what the filter left out need not be looked at again
	}
	return more, st.flush()
}

func ignoreCancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil // the client is gone
	}
	return err
}

// end tells the reader to come back.
func (st *eventStream) end() error {
	err := st.frame(wire.StreamControl{Type: wire.StreamEnd, Epoch: st.server.store.Epoch(), AfterSeq: st.query.AfterSeq,
		Reason: "shutdown"})
	return errors.Join(err, st.flush())
}

func (st *eventStream) frame(f wire.StreamControl) error {
	seq := int64(0)
	if f.Type == wire.StreamReset {
		seq = f.AfterSeq // so that a reader that knows no resets goes on from here
	}
	return st.add(seq, f.Type, f)
}

// add adds a server-sent event. Events of agents have no name, so that every reader gets them.
func (st *eventStream) add(id int64, name string, of any) error {
	data, err := json.Marshal(of)
	if err != nil {
		return fmt.Errorf("encode a frame of agent %s: %w", st.agentID, err)
	}
	at := ""
	if id > 0 {
		at = strconv.FormatInt(id, 10)
	}
	st.frames = stream.AppendEvent(st.frames, at, name, st.server.opts.Hide(data))
	return nil
}

// flush sends what is there. A reader that takes nothing for too long gets an error that wraps os.ErrDeadlineExceeded.
func (st *eventStream) flush() error {
	if len(st.frames) == 0 {
		return nil
	}
	err := st.server.write(st.w, st.frames)
	if st.frames = st.frames[:0]; cap(st.frames) > 1<<20 {
		st.frames = nil // one large page must not pin its buffer
	}
	return err
}
