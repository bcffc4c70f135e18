package answers

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/runner/access"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
)

const (
	headerResponseID  = "X-Response-Id"
	headerShouldRetry = "X-Should-Retry"
)

// Serve answers GET /v1/responses/{id}, also as a stream, DELETE, POST …/cancel and GET …/input_items for a response
// of an agent. found is false when the caller has none with that id: then nothing is answered.
func (a *Answers) Serve(ctx context.Context, c access.Caller, responseID string, w http.ResponseWriter,
	r *http.Request) (found bool, err error) {
	m, e, err := a.find(ctx, c, responseID)
	if err != nil || m.ID == "" {
		return false, err
	}
	_, below, _ := strings.Cut(r.URL.Path, "/"+responseID)
	cancel := r.Method == http.MethodPost && below == "/cancel"
	if !cancel && e.Status.Terminal() && !stored(m) {
		return false, nil
	}
	switch {
	case cancel:
		return true, a.cancel(ctx, c, m, w)
	case r.Method == http.MethodDelete && below == "":
		return true, a.delete(ctx, m, e, w)
	case r.Method == http.MethodGet && below == "/input_items":
		return true, inputItems(m, w, r)
	case r.Method == http.MethodGet && below == "":
		return true, a.get(ctx, m, w, r)
	}
	return true, responses.Invalid("", responses.CodeMethodNotAllowed, r.Method+" is not a method of this path")
}

// stored reports whether the client wants to read the response of a message again.
func stored(m ledger.Message) bool {
	req, err := responses.DecodeRequest(m.Request)
	return err == nil && req.Store
}

func (a *Answers) get(ctx context.Context, m ledger.Message, w http.ResponseWriter, r *http.Request) error {
	read, err := a.open(m)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if s := q.Get("stream"); s != "true" && s != "1" {
		return read.servePresent(ctx, w)
	}
	after := int64(-1)
	if given := cmp.Or(q.Get("starting_after"), r.Header.Get("Last-Event-ID")); given != "" {
		if after, err = strconv.ParseInt(given, 10, 64); err != nil || after < 0 {
			return responses.Invalid("starting_after", responses.CodeInvalidValue,
				"starting_after must be a number of at least 0")
		}
	}
	return read.serve(ctx, w, stream.Accepted(r.Header.Get("Accept")), after)
}

// cancel takes the message out of the queue, or aborts its turn, and answers with the final response. One that is over
// stays as it is.
func (a *Answers) cancel(ctx context.Context, c access.Caller, m ledger.Message, w http.ResponseWriter) error {
	for {
		e, err := ledger.Read(ctx, a.Store, func(v ledger.View) (ledger.Entry, error) { return v.Entry(m.ID) })
		switch {
		case err != nil:
		case e.Status == ledger.Queued:
			_, err = a.Steps.Remove(ctx, m.AgentID, m.ID, c.Name)
		case e.Status == ledger.Dequeued:
			err = a.abort(ctx, c, m, e)
		}
		if state.IsCode(err, scheduler.CodeNotQueued) || state.IsCode(err, scheduler.CodeNoRun) ||
			state.IsCode(err, scheduler.CodeRunMismatch) {
			continue // it moved on meanwhile
		}
		if err != nil {
			return refusal(err)
		}
		r, err := a.open(m)
		if err != nil {
			return err
		}
		resp, err := r.last(ctx)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, resp)
	}
}

func (a *Answers) abort(ctx context.Context, c access.Caller, m ledger.Message, e ledger.Entry) error {
	attempt, err := ledger.Read(ctx, a.Store, func(v ledger.View) (ledger.Attempt, error) {
		return v.Attempt(e.AttemptID)
	})
	if err == nil {
		_, _, err = a.Steps.Abort(ctx, scheduler.Abort{AgentID: m.AgentID, RunID: attempt.TurnID, By: c.Name,
			Reason: "the client cancelled the response"})
	}
	return err
}

// delete hides a response from its client. The agent's record and conversation keep the turn.
func (a *Answers) delete(ctx context.Context, m ledger.Message, e ledger.Entry, w http.ResponseWriter) error {
	if !e.Status.Terminal() {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeResponseInProgress, Param: "id",
			Message: "the response " + m.ResponseID() + " is not over", Hint: "cancel it first"}
	}
	if err := a.Steps.Withhold(ctx, m.AgentID, m.ID); err != nil {
		return refusal(err)
	}
	return answer(w, http.StatusOK, map[string]any{"id": m.ResponseID(), "object": "response", "deleted": true})
}

// serve answers with the events after a number.
func (r *reader) serve(ctx context.Context, w http.ResponseWriter, f stream.Framing, after int64) error {
	out := &sender{w: w, rc: http.NewResponseController(w)}
	w.Header().Set("Content-Type", f.ContentType())
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	var buf []byte
	seen := int64(-1)
	err := r.read(ctx, true, func(line []byte) error {
		if seen++; seen <= after {
			return nil
		}
		buf = f.Append(buf[:0], line)
		return out.send(buf)
	}, func() error { return out.send(f.AppendPing(nil)) })
	if err == nil {
		err = out.send(f.AppendEnd(nil))
	}
	if !out.began || err == nil {
		return err
	}
	if ctx.Err() == nil {
		r.Log.Warn("the stream of a response broke off", "response", r.m.ResponseID(), "err", err)
	}
	return nil // the head of the answer is out: the reader sees that it has no end
}

// servePresent answers with the response as it is now, with the output so far.
func (r *reader) servePresent(ctx context.Context, w http.ResponseWriter) error {
	var events []responses.Event
	var newest []byte
	err := r.read(ctx, false, func(line []byte) error {
		newest = append(newest[:0], line...)
		ev, err := responses.DecodeEvent(line)
		events = append(events, ev)
		return err
	}, nil)
	if err != nil {
		return err
	}
	if last(events[len(events)-1]) {
		resp, err := responseOf(newest)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, resp)
	}
	em, err := responses.Resume(slices.Values(events), nil)
	if err != nil {
		return responses.Internal("the events of the turn are not what agentd writes", err)
	}
	return answer(w, http.StatusOK, em.Response())
}

// serveEnd answers with the response when it is over; with an error when it failed, as agentd does.
func (r *reader) serveEnd(ctx context.Context, w http.ResponseWriter) error {
	data, err := r.last(ctx)
	if err != nil {
		return err
	}
	resp, err := responses.DecodeResponse(data)
	if err != nil {
		return responses.Internal("the response is not what agentd writes", err)
	}
	if e := resp.Error; resp.Status == responses.StatusFailed && e != nil {
		return &responses.Error{Type: e.Type, Code: e.Code, Message: e.Message, ResponseID: resp.ID,
			Param: r.at.entry.Param}
	}
	return answer(w, http.StatusOK, data)
}

// last waits for the end of the response and returns it.
func (r *reader) last(ctx context.Context) (resp json.RawMessage, err error) {
	var end []byte
	err = r.read(ctx, true, func(line []byte) error { end = append(end[:0], line...); return nil },
		func() error { return nil })
	if err != nil {
		return nil, err
	}
	return responseOf(end)
}

// responseOf is the response that an event has in it.
func responseOf(event []byte) (json.RawMessage, error) {
	var e struct {
		Response json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, responses.Internal("the last event cannot be read", err)
	}
	return e.Response, nil
}

func answer(w http.ResponseWriter, status int, body any) error {
	data, err := responses.Marshal(body)
	if err != nil {
		return responses.Internal("the answer cannot be encoded", err)
	}
	w.Header().Set("Content-Type", "application/json")
	out := &sender{w: w, rc: http.NewResponseController(w)}
	w.WriteHeader(status)
	_ = out.send(data) // the client is gone; the response can be read again
	return nil
}

// sender writes to a client, which gets a while for each part.
type sender struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	began bool
}

func (s *sender) send(data []byte) error {
	s.began = true
	_ = s.rc.SetWriteDeadline(time.Now().Add(stall)) // a recorder in a test has none
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	return s.rc.Flush()
}
