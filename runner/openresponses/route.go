package openresponses

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"holon/responses"
	"holon/responses/client"
	"holon/runner/access"
)

// request is a request for a turn, checked as agentd checks it.
type request struct {
	*responses.Request
	body     []byte // without opens
	caller   access.Caller
	opens    opens
	once     bool    // no request can continue what it begins
	whole    bool    // the input is the whole conversation
	repeated bool    // the session has the turn
	follows  *string // response that it goes on from although it does not name it, "" for none; nil: not known yet
	looks    bool    // it is made sure that agentd still has that response
	key      string  // "Idempotency-Key" for agentd and agents, unlike those of other callers; "" for none
	repeats  bool    // the caller chose the id of the turn, or the key, and the turn may be there
	settled  func()  // called once it is known whether the turn is there
}

// opens is what of a request is about the session that it opens. agentd does not take it.
type opens struct{ workspace, image string }

// decode checks the body of a request for a turn.
func decode(r *http.Request, body []byte) (q *request, err error) {
	q = &request{caller: access.From(r.Context())}
	if err := q.strip(body); err != nil {
		return nil, err
	}
	if q.Request, err = responses.DecodeRequest(q.body); err != nil {
		return nil, err
	}
	q.once = !q.Store
	return q, q.identify(r.Header)
}

// strip takes out of a body what is about the session, and refuses what it cannot be.
func (q *request) strip(body []byte) (err error) {
	if err := responses.CheckBody(body); err != nil {
		return err
	}
	q.body = body
	var given struct {
		Holon map[string]json.RawMessage `json:"holon"`
	}
	if responses.Unmarshal(body, &given) != nil {
		return nil // whoever reads the body next refuses it
	}
	if err := refuseHostFields(given.Holon); err != nil {
		return err
	}
	for key, to := range map[string]*string{"workspace": &q.opens.workspace, "image": &q.opens.image} {
		if raw, ok := given.Holon[key]; ok && (responses.Unmarshal(raw, to) != nil || *to == "") {
			e := responses.Invalid("holon."+key, responses.CodeInvalidValue, "holon."+key+" must be a text that is not empty")
			e.Hint = "leave it out for the default"
			return e
		}
	}
	if q.opens != (opens{}) {
		q.body, err = editHolon(body, []field{{"workspace", nil}, {"image", nil}})
	}
	return err
}

// refuseHostFields refuses keys of holon that the host sets itself, or that would name its files.
func refuseHostFields(holon map[string]json.RawMessage) error {
	for _, key := range []string{"response_id", "input_dir", "output_dir", "workspace_dir", "anchor_dir"} {
		if value, ok := holon[key]; ok && string(value) != "null" {
			e := responses.Invalid("holon."+key, responses.CodeInvalidValue, "holon."+key+" is for the host to choose")
			e.Hint = "leave it out; holon.workspace names a directory to work on"
			return e
		}
	}
	return nil
}

// identify gives the turn its id: the caller's, that of an Idempotency-Key, or a new one. The same key of two callers
// is two ids.
func (q *request) identify(h http.Header) error {
	key, err := responses.IdempotencyKey(h, q.Request)
	switch q.repeats = q.Holon.TurnID != "" || key != ""; {
	case err != nil:
		return err
	case key != "":
		sum := sha256.Sum256([]byte(q.caller.Name + "\n" + key))
		q.key = hex.EncodeToString(sum[:])
		q.Holon.TurnID = responses.TurnOfKey(q.key)
	case !q.repeats:
		q.Holon.TurnID = responses.NewID(responses.PrefixTurn)
	}
	return nil
}

// hold waits until no other request of the caller is about to make the turn, whose id the caller chose. What is asked
// for twice at once is one turn.
func (s *Server) hold(ctx context.Context, q *request) (err error) {
	q.settled = func() {}
	if q.repeats {
		q.settled, err = s.alone(ctx, q.caller.Name+"\n"+q.Holon.TurnID)
	}
	return err
}

// holdLine waits until no other request is about to make the next turn of the session: each continues the one before.
func (s *Server) holdLine(ctx context.Context, q *request, x Session) error {
	if !q.isNext() {
		return nil
	}
	release, err := s.alone(ctx, "\n"+x.Info().ID)
	if err == nil {
		settled := q.settled
		q.settled = func() { release(); settled() }
	}
	return err
}

// alone waits until the key is no other's, and has it until release is called, which may be more than once.
func (s *Server) alone(ctx context.Context, key string) (release func(), err error) {
	done := make(chan struct{})
	for {
		s.mu.Lock()
		other, held := s.making[key]
		if !held {
			s.making[key] = done
		}
		s.mu.Unlock()
		if !held {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return func() {}, ctx.Err()
		}
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.making, key)
		close(done)
	}), nil
}

// route finds the session that a request goes on with, and opens one where it begins a conversation.
func (s *Server) route(ctx context.Context, q *request) (x Session, err error) {
	if q.repeats {
		x, err = s.o.Sessions.OfTurn(q.caller.Name, q.Holon.TurnID)
		q.repeated = err == nil
		if q.repeated && !named(x, q.Holon.SessionID) {
			return nil, q.conflict()
		}
	}
	if !q.repeated && (err == nil || notFound(err)) {
		x, err = s.find(ctx, q)
	}
	return x, err
}

// isNext reports whether a request names its session and no response, and so is the session's next turn.
func (q *request) isNext() bool {
	return !q.whole && q.Holon.SessionID != "" && q.PreviousResponseID == ""
}

// prompt is the last message of the user in a request whose response is stored.
func (q *request) prompt() string {
	for _, item := range slices.Backward(q.Input) {
		if m, ok := item.(*responses.Message); ok && m.Role == responses.RoleUser && q.Store {
			return m.Text()
		}
	}
	return ""
}

// conflict is the error of a request with the turn of another one.
func (q *request) conflict() error {
	if q.key != "" {
		return responses.IdempotencyConflict()
	}
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeTurnConflict, Param: "holon.turn_id",
		Message: "the turn " + clip(q.Holon.TurnID) + " was made in another session", Hint: "use a new id for a new request"}
}

// find finds the session of a request for a turn that is not there, or opens it.
func (s *Server) find(ctx context.Context, q *request) (Session, error) {
	x, err := s.continued(q)
	switch {
	case err != nil:
		return nil, err
	case x != nil && x.Info().Closed:
		return nil, q.closed(x.Info().ID)
	case x != nil && q.opens == (opens{}):
		return x, nil
	case x != nil && x.Info().Name != "" && x.Info().Name == q.Holon.SessionID:
		// Start says whether the session of that name works on that
	case x != nil:
		e := responses.Invalid("holon", responses.CodeInvalidValue, "a session that is open keeps its workspace and image")
		e.Hint = "leave holon.workspace and holon.image out"
		return nil, e
	case !q.caller.Sessions:
		e := responses.Invalid("model", responses.CodeForbidden, "the token may open no session")
		e.Hint = "name an agent: agent/ID"
		return nil, e
	}
	return s.o.Sessions.Start(ctx, Ask{Owner: q.caller.Name, Name: q.Holon.SessionID, Model: q.Model,
		Workspace: q.opens.workspace, Image: q.opens.image, Once: q.once})
}

// maxLookBack bounds how many responses of a session are looked at for one that its next turn can continue.
const maxLookBack = 32

// follow has a request that names its session and no response be the session's next turn: it continues the last
// response that can be continued, or that is still made, which agentd refuses. A request for a turn that is there
// continues what that did.
func (q *request) follow(ctx context.Context, agent *client.Client, x Session) error {
	if q.follows != nil || !q.isNext() {
		return nil
	}
	if q.repeated {
		rec, err := agent.Turn(ctx, q.Holon.TurnID)
		if err == nil {
			q.follows = rec.PreviousResponseID
		}
		return unlessNotFound(err) // agentd says so itself
	}
	none := ""
	line := x.Line()
	if !q.looks && len(line) > 0 {
		q.follows = &line[len(line)-1]
		return nil
	}
	for _, id := range slices.Backward(line[max(0, len(line)-maxLookBack):]) {
		resp, err := agent.GetResponse(ctx, id)
		if unlessNotFound(err) != nil {
			return err
		}
		if err == nil && resp.Status != responses.StatusFailed && resp.Status != responses.StatusCancelled {
			q.follows = &id
			return nil
		} // else it is not stored, deleted or no conversation
	}
	q.follows = &none
	return nil
}

func unlessNotFound(err error) error {
	if notFound(err) {
		return nil
	}
	return err
}

// continued finds the session that a request continues, nil for none.
func (s *Server) continued(q *request) (Session, error) {
	if id := q.PreviousResponseID; id != "" {
		x, err := s.o.Sessions.OfResponse(q.caller.Name, id)
		if notFound(err) || err == nil && !named(x, q.Holon.SessionID) {
			return nil, unknownPrevious(id)
		}
		return x, err
	}
	if name := q.Holon.SessionID; name != "" {
		x, err := s.o.Sessions.Find(q.caller.Name, name)
		if notFound(err) || err == nil && x.Info().Closed && x.Info().ID != name {
			return nil, nil // the name of a new session
		}
		return x, err
	}
	for i, item := range q.Input {
		ref, ok := item.(*responses.ItemReference)
		if !ok {
			continue
		}
		x, err := s.o.Sessions.OfItem(q.caller.Name, ref.ID)
		if notFound(err) || err == nil && x.Info().Closed {
			return nil, responses.NotFound(fmt.Sprintf("input[%d].id", i), responses.CodeItemNotFound,
				fmt.Sprintf("no stored item has the id %q; send the item itself", clip(ref.ID)))
		}
		return x, err
	}
	return nil, nil
}

// named reports whether a session has a name or an id, or none is given.
func named(x Session, name string) bool {
	return name == "" || x.Info().Name == name || x.Info().ID == name
}

// notFound reports whether err says that an id names nothing of the caller.
func notFound(err error) bool {
	if e := ofHost(err); e != nil {
		return e.Type == responses.TypeNotFound
	}
	e, ok := errors.AsType[*responses.Error](err)
	return ok && e.Type == responses.TypeNotFound
}

func unknownPrevious(id string) error {
	return responses.NotFound("previous_response_id", responses.CodePreviousNotFound,
		fmt.Sprintf("no stored response has the id %q", clip(id)))
}

// closed is the error of a request to a session that is closed.
func (q *request) closed(id string) error {
	param := "previous_response_id"
	if q.PreviousResponseID == "" {
		param = "holon.session_id"
	}
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeSessionClosed, Param: param,
		Message: fmt.Sprintf("the session %s is closed", id),
		Hint:    "begin a conversation without " + param + ", in a new session"}
}
