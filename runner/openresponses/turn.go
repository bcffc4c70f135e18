package openresponses

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"

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
	return s.Respond(w, r, body)
}

// Respond answers r as if body were that of POST /v1/responses.
func (s *Server) Respond(w http.ResponseWriter, r *http.Request, body []byte) error {
	q, err := decode(r, body)
	if err != nil {
		return err
	}
	if id, ok := strings.CutPrefix(q.Model, "agent/"); ok && s.o.Agents != nil {
		return s.o.Agents.Create(r.Context(), q.caller, id, body, w)
	}
	x, repeated, err := s.route(r.Context(), q)
	if err != nil {
		return err
	}
	if repeated {
		return s.repeat(w, r, x, q)
	}
	return s.turn(w, r, x, q)
}

// edited is the client's body with the host's fields of holon.
func edited(x Session, q *request) ([]byte, error) {
	fields := []field{{"turn_id", q.Holon.TurnID}, {"session_id", x.AgentSession()}}
	if dir := x.WorkDir(); dir != "" {
		fields = append(fields, field{"workspace_dir", dir})
	}
	return editHolon(q.body, fields)
}

// repeat asks for a turn that is there: agentd answers with it, or with the conflict of two requests.
func (s *Server) repeat(w http.ResponseWriter, r *http.Request, x Session, q *request) error {
	var cut error
	err := x.Do(r.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := q.send(ctx, agent, x, r, "/responses")
		if err == nil {
			cut = pass(w, resp)
		}
		return err
	})
	return cmp.Or(cut, err)
}

// send sends the request to agentd. r has its headers.
func (q *request) send(ctx context.Context, agent *client.Client, x Session, r *http.Request,
	path string) (*http.Response, error) {
	body, err := edited(x, q)
	if err != nil {
		return nil, err
	}
	return agent.Raw(ctx, http.MethodPost, path, forwarded(r.Header), body)
}

// turn makes a turn of a session and copies its answer.
func (s *Server) turn(w http.ResponseWriter, r *http.Request, x Session, q *request) error {
	if !s.begin() {
		return draining()
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(r.Context())) // the turn outlives its client
	p := &post{request: q, session: x, asked: make(chan upstream), took: make(chan taken, 1)}
	ended, copied := make(chan error, 1), make(chan struct{})
	defer close(copied)
	go func() {
		defer s.turns.Done()
		defer end(nil)
		defer context.AfterFunc(s.ctx, func() { end(context.Cause(s.ctx)) })()
		_, err := x.Turn(ctx, q.Holon.TurnID, q.Model, p.ask)
		ended <- err
		s.keep(ctx, x, copied)
	}()
	for {
		select {
		case up := <-p.asked:
			resp, err := p.send(r, up)
			if err == nil {
				defer up.stop()
				return pass(w, resp)
			}
			if up.stop(); p.id.Load() != nil {
				return p.lost(w, err)
			} // else the session says whether there is another agentd
		case err := <-ended:
			return err
		case <-r.Context().Done():
			end(context.Canceled)
			return r.Context().Err()
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

// post is a request to agentd for a turn: ask, which the session calls, waits until agentd has it, and send, which the
// goroutine of the client calls, sends it and copies the answer.
type post struct {
	request *request
	session Session
	asked   chan upstream
	took    chan taken // of the first that is known
	id      atomic.Pointer[string]
}

// upstream is an agentd that is ready for the request.
type upstream struct {
	agent *client.Client
	ctx   context.Context // of the request
	stop  context.CancelFunc
}

// taken is what became of the request: the response that agentd makes, or why there is none.
type taken struct {
	first *responses.Response
	err   error
}

func (p *post) ask(ctx context.Context, agent *client.Client, token string) (*responses.Response, error) {
	up := upstream{agent: agent.WithModelToken(token)}
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

// accepted notes that agentd has the turn. From now on the end of the client ends the request.
func (p *post) accepted(r *http.Request, up upstream, id string) {
	if p.id.CompareAndSwap(nil, &id) {
		p.took <- taken{first: &responses.Response{ID: id, Status: responses.StatusInProgress}}
		context.AfterFunc(r.Context(), up.stop)
	}
}

// send sends the request and returns the answer with its body unread.
func (p *post) send(r *http.Request, up upstream) (*http.Response, error) {
	ctx := httptrace.WithClientTrace(up.ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if id := h.Get(responses.HeaderResponseID); code == http.StatusProcessing && id != "" {
				p.accepted(r, up, id)
			}
			return nil
		}})
	resp, err := p.request.send(ctx, up.agent, p.session, r, "/responses")
	switch {
	case err != nil:
		if p.id.Load() == nil {
			p.took <- taken{err: err}
		}
		return nil, err
	case resp.Header.Get(headerResponseID) != "":
		p.accepted(r, up, resp.Header.Get(headerResponseID))
	case p.id.Load() == nil:
		p.refused(resp)
	}
	return resp, nil
}

// lost is the end of a turn whose answer does not come.
func (p *post) lost(w http.ResponseWriter, err error) error {
	id := *p.id.Load()
	w.Header().Set(headerShouldRetry, "false")
	w.Header().Set(headerResponseID, id)
	if e, ok := errors.AsType[*responses.Error](err); ok {
		with := *e
		with.ResponseID = id
		return &with
	}
	return err
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
	p.took <- taken{err: err}
}
