package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
)

// Follow says which events to follow.
type Follow struct {
	After    int64  // events newer than this; negative: than the newest there is now
	Tail     int    // with a negative After: this many of the newest as well
	Epoch    string // of the snapshot that After is of; "": unknown
	MaxLevel int    // of Display.Level; 0: all
	Text     bool   // also what a model writes, before it is an event

	// Patience is how long a daemon may be away until Follow gives up; 0: 30 s.
	Patience time.Duration
	// Away is called once each time that the daemon is away for longer than a restart of its listener takes, with the
	// patience; nil: no one wants to know.
	Away func(patience time.Duration)
}

// Item is an event, a text, or a reset: the events before it do not connect to those that
// follow. A client that keeps a picture takes a new snapshot then, and skips the events
// that the snapshot contains.
type Item struct {
	Event *view.EventEnvelope
	Reset *wire.StreamControl
	Text  *wire.Text // of a message that is not an event yet; it is not repeated
}

// Waits of Follow.
const (
	defaultPatience = 30 * time.Second
	firstRetry      = 50 * time.Millisecond
	lastRetry       = 2 * time.Second
	untilAway       = time.Second
	silence         = 60 * time.Second // without a byte; the server says something every 15 s
)

// Follow yields the events of an agent as they come, each once and in order. A
// connection that breaks is made anew from the last event on, also across a
// restart of the daemon. The sequence ends only with an error: the context's, or
// a *state.Error.
func (c *Client) Follow(ctx context.Context, agentID string, f Follow) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s := following{client: c, follow: f, yield: yield}
		path, err := c.agent(ctx, agents, agentID, "/events/stream")
		if err != nil {
			yield(Item{}, err)
			return
		}
		s.run(ctx, path)
	}
}

// following is one Follow. It belongs to one goroutine.
type following struct {
	client   *Client
	follow   Follow
	yield    func(Item, error) bool
	gone     bool // the consumer has had enough
	answered bool // something came on this connection
}

// run connects again and again.
func (s *following) run(ctx context.Context, path string) {
	err := s.follow.Retry(ctx, func() (bool, error) {
		s.answered = false
		err := s.once(ctx, path)
		if s.gone {
			return true, nil
		}
		return s.answered, err
	})
	if !s.gone {
		s.yield(Item{}, err)
	}
}

// Read reads something else of a daemon that is followed, and waits for one that is away as Follow does.
func (f Follow) Read(ctx context.Context, read func() error) error {
	return f.Retry(ctx, func() (bool, error) { return false, read() })
}

// Retry calls once until it succeeds, the daemon has been away for too long, or what fails will fail again. once says
// whether the daemon answered at all.
func (f Follow) Retry(ctx context.Context, once func() (answered bool, err error)) error {
	patience := cmp.Or(f.Patience, defaultPatience)
	wait, away, announced := firstRetry, time.Now(), f.Away == nil
	for {
		answered, err := once()
		if err == nil {
			return nil
		}
		if answered {
			wait, away, announced = firstRetry, time.Now(), f.Away == nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !passing(err) || time.Since(away) >= patience {
			return err
		}
		if !announced && time.Since(away) > untilAway {
			announced = true
			f.Away(patience)
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
		wait = min(2*wait, lastRetry)
	}
}

// passing reports whether the same request may work later.
func passing(err error) bool {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e.Code == responses.CodeServerUnreachable || e.Code == responses.CodeServerDisconnected ||
			e.Code == responses.CodeDraining
	}
	e, ok := errors.AsType[*state.Error](err)
	return ok && (e.Code == wire.CodeUnreachable || e.Code == wire.CodeDisconnected || wire.Retryable(e.Code))
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// once reads one connection to its end, which is never without a reason.
func (s *following) once(ctx context.Context, path string) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := s.client.do(reading, http.MethodGet, path+"?"+s.query(), nil,
		http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()
	for data, err := range stream.NewDecoder(&watched{resp.Body, watch}, stream.SSE).Data() {
		if err != nil {
			break
		}
		if err := s.take(data); err != nil || s.gone {
			return err
		}
		s.answered = true
	}
	return s.client.broken(ctx, io.ErrUnexpectedEOF)
}

// watched puts its timer off with every read.
type watched struct {
	r     io.Reader
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.timer.Reset(silence)
	return n, err
}

func (s *following) query() string {
	v := url.Values{}
	if s.follow.After >= 0 {
		v.Set("after_seq", strconv.FormatInt(s.follow.After, 10))
	} else if s.follow.Tail > 0 {
		v.Set("limit", strconv.Itoa(s.follow.Tail))
	}
	if s.follow.Epoch != "" {
		v.Set("epoch", s.follow.Epoch)
	}
	if s.follow.MaxLevel > 0 {
		v.Set("max_level", strconv.Itoa(s.follow.MaxLevel))
	}
	return v.Encode()
}

// take handles one frame. The server ends a stream with stream_end, and the
// connection breaks after it.
func (s *following) take(data []byte) error {
	var head struct {
		Type string `json:"type"`
		Seq  int64  `json:"event_seq"`
	}
	var err error
	read := func(into any) bool {
		err = json.Unmarshal(data, into)
		return err == nil
	}
	if read(&head) {
		var text wire.Text
		var frame wire.StreamControl
		var event view.EventEnvelope
		switch {
		case head.Type == wire.StreamEnd:
		case head.Type == wire.StreamText:
			if read(&text) && s.follow.Text {
				s.gone = !s.yield(Item{Text: &text}, nil)
			}
		case head.Type == wire.StreamOpen, head.Type == wire.StreamReset:
			if !read(&frame) {
				break
			}
			s.follow.After, s.follow.Epoch = frame.AfterSeq, frame.Epoch
			if head.Type == wire.StreamReset {
				s.gone = !s.yield(Item{Reset: &frame}, nil)
			}
		case head.Seq > s.follow.After && read(&event): // else there was one like it before
			s.follow.After = event.EventSeq
			s.gone = !s.yield(Item{Event: &event}, nil)
		}
	}
	if err != nil {
		return s.client.bad("an event stream", err)
	}
	return nil
}
