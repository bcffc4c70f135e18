// Package answers serves the turns of long-lived agents as responses of the Open Responses API.
//
//	POST agent/<id> ─▶ check ─▶ Admit ─▶ queue ─▶ turn of the agent ─▶ events.ndjson
//	                              │                                        │
//	                           message ─▶ created, queued ─▶ response ◀────┘
//
// The input becomes a message of the agent's queue, and the id of the message is that of the response: there is no
// index, and nothing to recover. A response begins with the events response.created and response.queued, which follow
// from the message; then come the events of the turn, byte for byte as agentd wrote them, except that they do not name
// a response of somebody else that the agent goes on from; and a turn that was cut, or never begun, gets its terminal
// event from what the ledger says became of the message.
//
// The invariants: a response has the same events whenever and however often it is read, and one terminal event, which
// is shown only after the ledger has the end of the turn, so that what is shown last can be continued at once. A caller
// sees the responses to its own messages, and an operator all; other ids are unknown. Only an operator's message is an
// instruction; that
// of another token is evidence from a channel (runtime specification, "Origin Rules"). The agent's own frame, which is
// its instructions, model and sampling, is not for a client to change.
//
// A client that goes away leaves its message where it is: an agent works on, and the response can be read later. A
// response can be read as long as the ledger has its message and the session its turn's files.
package answers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"holon/responses"
	"holon/responses/stream"
	"holon/runner/access"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
)

// Prefix begins the names of agents among models.
const Prefix = "agent/"

// steps are those of an agent that a client takes: *scheduler.Scheduler.
type steps interface {
	Admit(ctx context.Context, draft ledger.Message) (scheduler.Admission, error)
	Remove(ctx context.Context, agentID, messageID, by string) (ledger.Entry, error)
	Abort(ctx context.Context, ab scheduler.Abort) (a ledger.Attempt, changed bool, err error)
	Withhold(ctx context.Context, agentID, messageID string) error
}

// Options say what an Answers works with. All are required.
type Options struct {
	Store ledger.Store
	Steps steps
	// OpenTurnFile opens a file that a turn of an agent leaves, also while it runs.
	OpenTurnFile func(agentID, turnID, name string) (*os.File, error)
	Log          *slog.Logger
}

// Answers serves the responses of agents. Its methods are safe for concurrent use, and keep nothing between calls.
type Answers struct{ Options }

// New returns an Answers.
func New(o Options) *Answers { return &Answers{o} }

// Create admits the input of a request to an agent, and answers with the response: its events, itself as it is now when
// it is made in the background, or as it is when it is over. The same request with a key of the caller's that is not ""
// has the same response. The error, an *responses.Error, is for a request of which nothing was admitted or answered.
func (a *Answers) Create(ctx context.Context, c access.Caller, agentID, key string, body []byte,
	w http.ResponseWriter) error {
	if err := a.checkAgent(ctx, c, agentID); err != nil {
		return err
	}
	req, err := decode(body)
	if err != nil {
		return err
	}
	draft, err := message(c, agentID, key, req)
	if err != nil {
		return err
	}
	if err := a.checkPrevious(ctx, c, draft, req); err != nil {
		return err
	}
	admitted, err := a.Steps.Admit(ctx, draft)
	if err != nil {
		return refusal(err)
	}
	m, err := ledger.Read(ctx, a.Store, func(v ledger.View) (ledger.Message, error) {
		return v.Message(admitted.MessageID)
	})
	if err != nil {
		return refusal(err)
	}
	w.Header().Set(headerResponseID, m.ResponseID())
	w.Header().Set(headerShouldRetry, "false") // sent again it would be another message
	r, err := a.open(m)
	if err != nil {
		return err
	}
	switch {
	case req.Stream:
		return r.serve(ctx, w, stream.SSE, -1)
	case req.Background:
		return r.servePresent(ctx, w)
	}
	return r.serveEnd(ctx, w)
}

// checkAgent refuses an agent that the caller cannot address: unknown, private and not the caller's are all alike.
func (a *Answers) checkAgent(ctx context.Context, c access.Caller, agentID string) error {
	agent, err := ledger.Read(ctx, a.Store, func(v ledger.View) (ledger.Agent, error) { return v.Agent(agentID) })
	switch {
	case state.IsCode(err, ledger.CodeNotFound), err == nil && !addressable(c, agent):
		e := responses.NotFound("model", responses.CodeModelNotFound, "there is no agent "+clip(agentID))
		e.Hint = "GET /v1/models lists the agents that you can address"
		return e
	case err != nil:
		return responses.Internal("the agent cannot be read", err)
	}
	return nil
}

func addressable(c access.Caller, a ledger.Agent) bool {
	return c.MayAddress(a.ID) && a.Visibility != ledger.Private && a.Ownership != ledger.ParentSupervised
}

// checkPrevious refuses a response to go on from that is not known to the caller, and outputs of calls that the agent's
// last one did not make. Whether it is the last one is decided when the message is admitted.
func (a *Answers) checkPrevious(ctx context.Context, c access.Caller, draft ledger.Message,
	req *responses.Request) error {
	agentID, repeated := draft.AgentID, false
	last, err := ledger.Read(ctx, a.Store, func(v ledger.View) (last ledger.AgentState, err error) {
		if draft.Key != "" {
			_, repeated, err = v.MessageByKey(agentID, draft.Key)
		}
		if err == nil {
			last, err = v.AgentState(agentID)
		}
		return last, err
	})
	if err != nil {
		return refusal(err)
	}
	if repeated { // what holds now need not have held then
		return nil
	}
	if id := req.PreviousResponseID; id != "" {
		m, _, err := a.find(ctx, c, id)
		if err != nil {
			return err
		}
		ofOthers := c.Operator && last.LastResponse() == id // of a turn that no client asked for
		if m.AgentID != agentID && !ofOthers {
			return responses.PreviousNotFound(id)
		}
	}
	for i, item := range req.Input {
		output, ok := item.(*responses.FunctionCallOutput)
		switch {
		case !ok:
		case req.PreviousResponseID == "":
			return responses.Invalid("previous_response_id", responses.CodeMissingParameter,
				"an output of a function comes with the response that called it")
		case req.PreviousResponseID == last.LastResponse() && !slices.Contains(last.ClientCalls, output.CallID):
			return responses.Invalid(fmt.Sprintf("input[%d].call_id", i), responses.CodeCallNotFound,
				"the response has no function_call with the call_id "+clip(output.CallID))
		}
	}
	return nil
}

// find returns the message that gets a response, and where it is; a message without an id when the caller may see none.
func (a *Answers) find(ctx context.Context, c access.Caller, responseID string) (m ledger.Message, e ledger.Entry,
	err error) {
	if c.Name == "" || !strings.HasPrefix(responseID, responses.PrefixResponse) {
		return m, e, nil
	}
	var agent ledger.Agent
	err = a.Store.View(ctx, func(v ledger.View) (err error) {
		if m, err = v.Message(ledger.OfResponse(responseID)); err != nil || m.ResponseID() == "" {
			return err
		}
		if e, err = v.Entry(m.ID); err == nil {
			agent, err = v.Agent(m.AgentID)
		}
		return err
	})
	switch {
	case state.IsCode(err, ledger.CodeNotFound), err == nil && (m.ResponseID() == "" ||
		speaker(m) != c.Name && !c.Operator || !addressable(c, agent) || e.Withheld):
		return ledger.Message{}, e, nil
	case err != nil:
		return m, e, responses.Internal("the response cannot be read", err)
	}
	return m, e, nil
}

// Models lists the agents that a caller can address.
func (a *Answers) Models(ctx context.Context, c access.Caller) ([]responses.Model, error) {
	agents, err := ledger.Read(ctx, a.Store, ledger.View.Agents)
	if err != nil {
		return nil, responses.Internal("the agents cannot be read", err)
	}
	list := []responses.Model{}
	for _, agent := range agents {
		if agent.Visibility != "" && addressable(c, agent) { // a damaged one has its id alone
			list = append(list, responses.Model{ID: Prefix + agent.ID, Object: "model", Created: agent.CreatedAt.Unix(),
				OwnedBy: "holon"})
		}
	}
	return list, nil
}

// refusal is an error of the runtime as one of the protocol. What it says of a stopped agent or a full queue, and what
// to do about it, stays.
func refusal(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return responses.AsError(err)
	}
	out := &responses.Error{Type: responses.TypeInvalidRequest, Code: string(e.Code), Param: e.Param, Message: e.Message,
		Hint: e.Hint, Cause: err}
	switch e.Code {
	case scheduler.CodeInvalidMessage:
		if out.Code = responses.CodeInvalidValue; strings.HasPrefix(e.Param, "body") {
			out.Param = "input"
		}
	case scheduler.CodeKeyConflict:
		return responses.IdempotencyConflict()
	case scheduler.CodeQueueFull:
		out.Type = responses.TypeTooManyRequests
	case scheduler.CodeAgentStopped, scheduler.CodeAgentArchived:
		out.Param = "model"
	case scheduler.CodeNotLast:
	default:
		return responses.Internal("the agent's records cannot be read or written", err)
	}
	return out
}

const maxShown = 64 // bytes of a name of the client's in an error

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxShown)], "") }

// stall is how long a reader may keep a part of an answer waiting.
const stall = 2 * time.Minute
