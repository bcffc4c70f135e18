package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/load"
)

// caller is a user of a daemon, on one of its transports.
type caller struct {
	base, token string
	http        *http.Client
}

func killProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) } // it may have ended

func (c *caller) do(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(req)
}

// call makes a request to a daemon that answers, and reads the answer.
func (c *caller) call(ctx context.Context, method, path string, header http.Header) (status int, body []byte,
	err error) {
	resp, err := c.do(ctx, method, path, header, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// listedSession is what a list has of a session.
type listedSession struct {
	ID, Status string
}

func (c *caller) sessions(ctx context.Context) ([]listedSession, error) {
	status, body, err := c.call(ctx, http.MethodGet, "/holon/sessions", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the sessions are not listed: %d %s", status, body)
	}
	var list struct{ Data []listedSession }
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	return list.Data, err
}

// Ways of a request to get its answer.
const (
	viaSSE        = "sse"
	viaNDJSON     = "ndjson"
	viaBackground = "background"
	viaJSON       = "json"
	viaWebSocket  = "websocket"
)

// Ways of a request to be known again.
const (
	byHeader = "key"
	byTurnID = "turn_id"
	byNone   = "no key"
)

// inquiry is a request of a client, and what came of it.
type inquiry struct {
	caller    *caller
	key       string
	model     string
	agent     bool
	word      string
	via, by   string
	name      string   // of its session, "" for none
	workspace string   // likewise
	previous  *inquiry // which it continues
	double    bool     // it is sent twice at once
	drop      int      // the client goes away after so many events, and comes back; 0: it stays
	lastEvent bool     // and then says so in a header
	cancel    int      // it cancels after so many events; 0: it does not
	remove    bool     // it deletes the response after its end

	id      string
	next    int64  // sequence number
	seen    []byte // lines of its stream
	status  string
	refused string
	unknown error
	deleted bool
}

func (q *inquiry) String() string {
	return fmt.Sprintf("%s %s %s of %s, drop %d, cancel %d, delete %v, double %v, id %s, status %s, refused %s, %v",
		q.word, q.via,
		q.by, q.caller.base, q.drop, q.cancel, q.remove, q.double, q.id, q.status, q.refused, q.unknown)
}

// drawTalk makes the requests of a client: a conversation, of which some go on from an older response.
func (d *daemon) drawTalk() (talk []*inquiry) {
	r := d.r
	who, name, workspace := one(r, d.socket, d.port), "", one(r, "", d.repo.dir)
	toAgent := r.chance(6)
	if r.chance(3) && !toAgent {
		name = fmt.Sprintf("talk-%d", d.number)
	}
	for n := range 1 + r.rng.IntN(3) {
		d.number++
		q := &inquiry{caller: who, key: fmt.Sprintf("key-%d-%d", r.number, d.number), model: d.serve.Model(),
			word: one(r, sayQuick, sayRun, saySlow, sayLong, sayStream),
			via:  one(r, viaSSE, viaSSE, viaNDJSON, viaBackground, viaJSON, viaWebSocket),
			by:   one(r, byHeader, byHeader, byTurnID, byTurnID, byNone), name: name, lastEvent: r.chance(2)}
		if n == 0 {
			q.workspace = workspace
		} else if name == "" || r.chance(2) {
			q.previous = talk[r.rng.IntN(n)]
		}
		if r.chance(3) {
			q.drop = 1 + r.rng.IntN(40)
		}
		if r.chance(6) {
			q.cancel = 1 + r.rng.IntN(30)
		}
		q.remove, q.double = r.chance(10), r.chance(5)
		if toAgent {
			q.agent, q.model, q.word, q.by, q.workspace, q.previous = true, "agent/"+d.agents[0], sayAgent, byNone, "", nil
			q.via, q.double = one(r, viaSSE, viaBackground, viaJSON), false
		}
		if q.via == viaWebSocket && q.by == byHeader {
			q.by = byTurnID // a message has no header
		}
		q.double = q.double && q.by != byNone && q.via != viaWebSocket
		talk = append(talk, q)
		r.tell("%s: %s of %s via %s by %s, drop %d, cancel %d, delete %v, double %v", q.key, q.word, q.model, q.via, q.by,
			q.drop,
			q.cancel, q.remove, q.double)
	}
	return talk
}

// follow makes the requests of a client one after the other.
func follow(ctx context.Context, talk []*inquiry) error {
	for _, q := range talk {
		if p := q.previous; p != nil && (p.id == "" || p.deleted) {
			return nil // there is nothing to continue
		}
		if err := q.ask(ctx); err != nil {
			return fmt.Errorf("%s (%s): %w", q.key, q, err)
		}
	}
	return nil
}

// broken is the end of an answer before its own, or that there was none.
type broken struct {
	error
	sent bool // the request may have been taken
}

// ask makes a request until its outcome is known, across restarts. Each branch is one of the ends that a request may
// have.
func (q *inquiry) ask(ctx context.Context) error {
	for q.status == "" {
		var err error
		if q.id == "" {
			err = q.submit(ctx)
		} else {
			err = q.resume(ctx)
		}
		b, cut := errors.AsType[broken](err)
		switch {
		case err == nil && q.status != "":
		case q.refused != "":
			return q.mayRefuse()
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case err != nil && !cut:
			return err
		case q.id == "" && cut && b.sent && q.by == byNone:
			q.unknown = err
			return nil
		}
		if q.status != "" {
			break
		}
		if err := load.Pause(ctx, 15*time.Millisecond); err != nil {
			return errors.Join(context.Cause(ctx), b.error)
		}
	}
	if q.remove {
		return q.delete(ctx)
	}
	return nil
}

// mayRefuse fails unless it is what a client has to expect.
func (q *inquiry) mayRefuse() error {
	switch q.refused {
	case responses.CodeSessionClosed: // one that an operator closed
		return nil
	case responses.CodePreviousNotFound, "item_not_found":
		if q.previous != nil && q.previous.deleted {
			return nil
		}
	}
	return fmt.Errorf("it was refused: %s", q.refused)
}

func (q *inquiry) framing() stream.Framing {
	if q.via == viaNDJSON {
		return stream.NDJSON
	}
	return stream.SSE
}

// request is the body of the request, and its headers.
func (q *inquiry) request() (http.Header, []byte) {
	body, holon := object{"model": q.model, "input": q.word + " as " + q.key + ", please."}, object{}
	header := http.Header{}
	switch q.via {
	case viaSSE, viaNDJSON:
		body["stream"] = true
		header.Set("Accept", q.framing().ContentType())
	case viaBackground:
		body["background"] = true
	}
	switch q.by {
	case byHeader:
		header.Set("Idempotency-Key", q.key)
	case byTurnID:
		holon["turn_id"] = "turn_" + q.key
	}
	if q.previous != nil {
		body["previous_response_id"] = q.previous.id
	}
	if q.name != "" {
		holon["session_id"] = q.name
	}
	if q.workspace != "" {
		holon["workspace"] = q.workspace
	}
	if len(holon) > 0 {
		body["holon"] = holon
	}
	if q.via == viaWebSocket {
		body["type"] = "response.create"
	}
	text, _ := json.Marshal(body) // strings
	return header, text
}

func (q *inquiry) submit(ctx context.Context) (failed error) {
	header, body := q.request()
	if q.via == viaWebSocket {
		return q.converse(ctx, body)
	}
	if q.double {
		twin := make(chan string, 1)
		go func() { twin <- q.repeat(ctx, header, body) }()
		defer func() {
			if id := <-twin; id != "" && q.id != "" && id != q.id {
				failed = fmt.Errorf("the same request was taken as %s and %s", q.id, id)
			}
		}()
	}
	resp, err := q.caller.do(ctx, http.MethodPost, "/responses", header, body)
	if err != nil {
		return broken{err, !strings.Contains(err.Error(), "dial")}
	}
	return q.read(ctx, resp, q.via == viaSSE || q.via == viaNDJSON)
}

// repeat makes the request once more, and returns the id of its response, if it has one.
func (q *inquiry) repeat(ctx context.Context, header http.Header, body []byte) string {
	resp, err := q.caller.do(ctx, http.MethodPost, "/responses", header, body)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return resp.Header.Get(responses.HeaderResponseID)
}

func (q *inquiry) resume(ctx context.Context) error {
	header := http.Header{"Accept": {q.framing().ContentType()}}
	path := "/responses/" + q.id + "?stream=true"
	switch {
	case q.next == 0:
	case q.lastEvent:
		header.Set("Last-Event-ID", fmt.Sprint(q.next-1))
	default:
		path += fmt.Sprintf("&starting_after=%d", q.next-1)
	}
	resp, err := q.caller.do(ctx, http.MethodGet, path, header, nil)
	if err != nil {
		return broken{err, true}
	}
	return q.read(ctx, resp, true)
}

var errDropped = errors.New("the client went away")

// read reads an answer.
func (q *inquiry) read(ctx context.Context, resp *http.Response, streamed bool) error {
	defer resp.Body.Close()
	known := resp.Header.Get(responses.HeaderResponseID)
	if resp.StatusCode != http.StatusOK {
		return q.readRefusal(resp, known)
	}
	if q.id != "" && known != "" && known != q.id {
		return fmt.Errorf("the response %s is now %s", q.id, known)
	}
	if streamed {
		for event, err := range stream.NewDecoder(resp.Body, q.framing()).Events() {
			if err != nil {
				return broken{err, true}
			}
			if err := q.take(ctx, event); err != nil {
				return err
			}
		}
		return broken{io.ErrUnexpectedEOF, true}
	}
	if q.id == "" && known != "" {
		q.id = known // the events are read when it is over
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return broken{err, true}
	}
	r, err := responses.DecodeResponse(body)
	if err != nil {
		return fmt.Errorf("the answer is no response: %w: %.300s", err, body)
	}
	if q.id = r.ID; q.via == viaJSON && !r.Status.Terminal() {
		return fmt.Errorf("the answer is a response that is %s", r.Status)
	}
	return broken{errDropped, true} // its events are read next
}

// readRefusal reads the error that a request was answered with. It may pass where the server has no room, or failed.
func (q *inquiry) readRefusal(resp *http.Response, known string) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return broken{err, true}
	}
	e := responses.DecodeEnvelope(resp.StatusCode, body)
	if q.id == "" {
		q.id = cmp.Or(known, e.ResponseID)
	}
	full := resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests
	if full || resp.StatusCode >= 500 {
		return broken{e, !full}
	}
	q.refused = codeOf(e)
	return e
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e.Code
	}
	return err.Error()
}

// take takes the next event: each comes once, in order.
func (q *inquiry) take(ctx context.Context, line []byte) error {
	var ev struct {
		Type     string
		Number   *int64 `json:"sequence_number"`
		Response struct{ ID, Status string }
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		return fmt.Errorf("an event is no JSON: %w: %.200s", err, line)
	}
	if q.status != "" {
		return fmt.Errorf("an event comes after the end: %.200s", line)
	}
	if ev.Number == nil || *ev.Number != q.next {
		return fmt.Errorf("the event %d has another number: %.200s", q.next, line)
	}
	if ev.Response.ID != "" && q.id != "" && ev.Response.ID != q.id {
		return fmt.Errorf("the response %s is now %s", q.id, ev.Response.ID)
	}
	if ev.Response.ID != "" {
		q.id = ev.Response.ID
	}
	q.next++
	q.seen = append(append(q.seen, bytes.TrimSpace(line)...), '\n')
	if responses.Terminal(ev.Type) {
		q.status = ev.Response.Status
		return nil
	}
	if int(q.next) == q.cancel {
		path := "/responses/" + q.id + "/cancel"
		go func() { _, _, _ = q.caller.call(ctx, http.MethodPost, path, nil) }() // it may be lost
	}
	if int(q.next) == q.drop {
		return broken{errDropped, true}
	}
	return nil
}

// converse makes the request on a WebSocket of its own.
func (q *inquiry) converse(ctx context.Context, body []byte) error {
	o := &websocket.DialOptions{HTTPClient: q.caller.http, HTTPHeader: http.Header{}}
	if q.caller.token != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+q.caller.token)
	}
	conn, _, err := websocket.Dial(ctx, q.caller.base+"/responses", o)
	if err != nil {
		return broken{err, false}
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(16 << 20)
	if err := conn.Write(ctx, websocket.MessageText, body); err != nil {
		return broken{err, true}
	}
	for q.status == "" {
		_, line, err := conn.Read(ctx)
		if err != nil {
			return broken{err, true}
		}
		if responses.EventType(line) == responses.EventError {
			return q.refusal(line)
		}
		if err := q.take(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// refusal is the answer to a message that is not taken.
func (q *inquiry) refusal(line []byte) error {
	var frame struct {
		Status int
		Error  struct {
			Code       string
			ResponseID string `json:"response_id"`
		}
	}
	if err := json.Unmarshal(line, &frame); err != nil {
		return err
	}
	err := fmt.Errorf("refused: %.300s", line)
	if frame.Status >= 500 || frame.Status == http.StatusTooManyRequests {
		return broken{err, frame.Status != http.StatusServiceUnavailable}
	}
	q.refused = frame.Error.Code
	return err
}

// delete deletes the response, until that is known to be done.
func (q *inquiry) delete(ctx context.Context) error {
	for {
		status, body, err := q.caller.call(ctx, http.MethodDelete, "/responses/"+q.id, nil)
		switch {
		case err == nil && (status == http.StatusOK || status == http.StatusNotFound):
			q.deleted = true
			return nil
		case err == nil && status < 500:
			return fmt.Errorf("deleting it: %d %s", status, body)
		}
		if err := load.Pause(ctx, 15*time.Millisecond); err != nil {
			return err
		}
	}
}
