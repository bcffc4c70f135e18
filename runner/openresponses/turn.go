package openresponses

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"

	"holon/responses"
	"holon/responses/client"
)

// maxRefusal bounds the body of an answer that refuses a turn.
const maxRefusal = 256 << 10

// create is POST /v1/responses.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return s.respond(w, r, body, false)
}

// respond answers r as if body were that of POST /v1/responses. whole says that the input is the whole conversation.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, body []byte, whole bool) error {
	q, err := decode(r, body)
	if err != nil {
		return err
	}
	q.whole = whole
	if id, ok := strings.CutPrefix(q.Model, "agent/"); ok && s.o.Agents != nil {
		return s.o.Agents.Create(r.Context(), q.caller, id, q.key, body, w)
	}
	if err := s.hold(r.Context(), q); err != nil {
		return err
	}
	defer func() { q.settled() }()
	x, err := s.route(r.Context(), q)
	if err != nil {
		return err
	}
	if q.repeated {
		q.settled()
		return s.repeat(w, r, x, q)
	}
	if err := s.holdLine(r.Context(), q, x); err != nil {
		return err
	}
	return s.turn(w, r, x, q)
}

// edited is the client's body with the host's fields of holon, and with the response that it goes on from, which agent
// and the session know once no other turn can begin.
func (q *request) edited(ctx context.Context, agent *client.Client, x Session) (body []byte, err error) {
	if err := q.follow(ctx, agent, x); err != nil {
		return nil, err
	}
	if info := x.Info(); info.Closed { // agentd would begin a turn that it does not have
		if _, err := agent.Turn(ctx, q.Holon.TurnID); notFound(err) {
			return nil, q.closed(info.ID)
		}
	}
	body = q.body
	if q.follows != nil && *q.follows != "" {
		body, err = set(body, "previous_response_id", func(json.RawMessage) (json.RawMessage, error) {
			return responses.Marshal(*q.follows)
		})
		if err != nil {
			return nil, err
		}
	}
	fields := []field{{"session_id", x.AgentSession()}}
	if q.key == "" { // else the id follows from the key
		fields = append(fields, field{"turn_id", q.Holon.TurnID})
	}
	if dir := x.WorkDir(); dir != "" {
		fields = append(fields, field{"workspace_dir", dir})
	}
	return editHolon(body, fields)
}

// repeat asks for a turn that is there: agentd answers with it, or with the conflict of two requests.
func (s *Server) repeat(w http.ResponseWriter, r *http.Request, x Session, q *request) error {
	var cut error
	err := x.Do(r.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := q.send(ctx, agent, x, r, "/responses")
		if err == nil {
			x.Note(q.Holon.TurnID, resp.Header.Get(headerResponseID)) // a killed process may not have come to it
			cut = pass(w, resp)
		}
		return err
	})
	return cmp.Or(cut, err)
}

// send sends the request to agentd. r has its headers. What agentd does not find may be the response that the session
// goes on from, which somebody deleted: then the request goes on from one before.
func (q *request) send(ctx context.Context, agent *client.Client, x Session, r *http.Request,
	path string) (*http.Response, error) {
	body, err := q.edited(ctx, agent, x)
	if err != nil {
		return nil, err
	}
	header := forwarded(r.Header)
	if q.key != "" {
		header.Set(responses.HeaderIdempotencyKey, q.key)
	}
	resp, err := agent.Raw(ctx, http.MethodPost, path, header, body)
	if err != nil || q.looks || q.follows == nil || resp.StatusCode != http.StatusNotFound {
		return resp, err
	}
	_ = resp.Body.Close()
	q.looks, q.follows = true, nil
	return q.send(ctx, agent, x, r, path)
}

// turn makes a turn of a session and copies its answer.
func (s *Server) turn(w http.ResponseWriter, r *http.Request, x Session, q *request) error {
	p := newPost(r.Context(), x, q)
	err := s.watched(p, func(up upstream) error {
		resp, err := p.send(r, up)
		if err != nil {
			return err
		}
		if s.o.HoldEnds && resp.StatusCode == http.StatusOK {
			resp.Body = &heldEnd{ReadCloser: resp.Body, lines: bufio.NewReader(resp.Body), hold: p.awaitEnd,
				whole: !q.Request.Stream && !q.Request.Background}
		}
		return pass(w, resp)
	})
	if errors.Is(err, errUnanswered) {
		return s.repeat(w, r, x, q)
	}
	if id := p.id.Load(); id != nil && err != nil && !errors.Is(err, errCut) {
		w.Header().Set(headerShouldRetry, "false")
		w.Header().Set(headerResponseID, *id)
		return lost(err, *id)
	}
	return err
}

// lost is the end of a turn whose answer does not come.
func lost(err error, responseID string) error {
	e, ok := errors.AsType[*responses.Error](err)
	if !ok {
		return err
	}
	with := *e
	with.ResponseID = responseID
	return &with
}

// errUnanswered says that agentd made a turn, and broke off before it said so.
var errUnanswered = errors.New("the turn is over and was not answered")

// watched runs a turn of the session, and converse, which sends the request and copies the answer, until the copy is
// whole. The turn may go on behind that.
func (s *Server) watched(p *post, converse func(up upstream) error) error {
	if !s.begin() {
		return draining()
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(p.client)) // the turn outlives its client
	ended, copied := make(chan error, 1), make(chan struct{})
	defer close(copied)
	go func() {
		defer s.turns.Done()
		defer end(nil)
		defer context.AfterFunc(s.ctx, func() { end(context.Cause(s.ctx)) })()
		_, err := p.session.Turn(ctx, p.request.Holon.TurnID, p.request.Model, p.request.prompt(), p.ask)
		close(p.over)
		ended <- err
		s.keep(ctx, p.session, copied)
	}()
	for {
		select {
		case up := <-p.asked:
			err := converse(up)
			up.stop()
			if err == nil || p.id.Load() != nil || errors.Is(err, errCut) {
				return err
			} // else the session says whether there is another agentd
		case err := <-ended:
			switch {
			case s.ctx.Err() != nil:
				return draining()
			case err == nil:
				return errUnanswered
			}
			return err
		case <-p.client.Done():
			end(context.Canceled)
			return p.client.Err()
		}
	}
}

// keep keeps the container of a turn that is over while a slow client reads the rest of its answer.
func (s *Server) keep(ctx context.Context, x Session, copied <-chan struct{}) {
	select {
	case <-copied:
		return
	default:
	}
	err := x.Do(ctx, func(ctx context.Context, _ *client.Client) error {
		select {
		case <-copied:
		case <-ctx.Done():
		}
		return nil
	})
	if err != nil {
		s.o.Log.Debug("the container of an answer was not kept", "session", x.Info().ID, "err", err)
	}
}

// post is a request to agentd for a turn: ask, which the session calls, waits until agentd has it, and the goroutine of
// the client sends it and copies the answer.
type post struct {
	client  context.Context // of the client's request
	request *request
	session Session
	asked   chan upstream
	took    chan taken // what became of it, once for each upstream
	over    chan struct{}
	id      atomic.Pointer[string]
}

// holdWithin bounds how long the end of an answer waits for that of the turn.
const holdWithin = time.Minute

// awaitEnd waits until the session has kept what became of the turn.
func (p *post) awaitEnd() {
	select {
	case <-p.over:
	case <-p.client.Done():
	case <-time.After(holdWithin):
	}
}

func newPost(client context.Context, x Session, q *request) *post {
	return &post{client: client, request: q, session: x, asked: make(chan upstream), took: make(chan taken, 1),
		over: make(chan struct{})}
}

// upstream is an agentd that is ready for the request.
type upstream struct {
	agent *client.Client
	token string          // of the turn, which agent sends
	ctx   context.Context // of the request
	stop  context.CancelFunc
}

// taken is what became of the request: the response that agentd makes, or why there is none.
type taken struct {
	first *responses.Response
	err   error
}

func (p *post) ask(ctx context.Context, agent *client.Client, token string) (*responses.Response, error) {
	up := upstream{agent: agent.WithModelToken(token), token: token}
	up.ctx, up.stop = context.WithCancel(context.WithoutCancel(ctx)) // a client that goes ends it only once it is taken
	select {
	case p.asked <- up:
	case <-ctx.Done():
		up.stop()
		return nil, context.Cause(ctx)
	}
	select {
	case t := <-p.took:
		return t.first, t.err
	case <-ctx.Done():
		up.stop()
		return nil, context.Cause(ctx)
	}
}

// accepted notes that agentd has the turn: the session knows the response before its client can. From now on the end of
// the client ends the request.
func (p *post) accepted(up upstream, id string) {
	if p.id.CompareAndSwap(nil, &id) {
		p.session.Note(p.request.Holon.TurnID, id)
		p.took <- taken{first: &responses.Response{ID: id, Status: responses.StatusInProgress}}
		p.request.settled()
		context.AfterFunc(p.client, up.stop)
	}
}

// failed notes why agentd has no turn, unless it has.
func (p *post) failed(err error) {
	if p.id.Load() == nil {
		select {
		case p.took <- taken{err: err}:
		default: // another reason was first
		}
	}
}

// send sends the request and returns the answer with its body unread.
func (p *post) send(r *http.Request, up upstream) (*http.Response, error) {
	ctx := httptrace.WithClientTrace(up.ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if id := h.Get(responses.HeaderResponseID); code == http.StatusProcessing && id != "" {
				p.accepted(up, id)
			}
			return nil
		}})
	resp, err := p.request.send(ctx, up.agent, p.session, r, "/responses")
	switch {
	case err != nil:
		p.failed(err)
		return nil, err
	case resp.Header.Get(headerResponseID) != "":
		p.accepted(up, resp.Header.Get(headerResponseID))
	case p.id.Load() == nil:
		p.refused(resp)
	}
	return resp, nil
}

// refused reads why agentd makes no turn, which the client gets as well.
func (p *post) refused(resp *http.Response) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err == nil {
		err = responses.DecodeEnvelope(resp.StatusCode, body)
	}
	p.failed(err)
}
