package openresponses

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"holon/internal/httpserver"
	"holon/responses"
	"holon/responses/client"
	"holon/runner/access"
)

const headerLastEvent = "Last-Event-ID"

// stored is GET, DELETE, cancel and input_items of a response.
func (s *Server) stored(w http.ResponseWriter, r *http.Request) error {
	id, caller := chi.URLParam(r, "id"), access.From(r.Context())
	owner := caller.Name
	if caller.Operator {
		owner = "" // anyone's
	}
	x, err := s.o.Sessions.OfResponse(owner, id)
	if notFound(err) && s.o.Agents != nil {
		found, err := s.o.Agents.Serve(r.Context(), caller, id, w, r)
		if found || err != nil {
			return err
		}
	}
	if notFound(err) {
		return responses.NotFound("id", responses.CodeNotFound, fmt.Sprintf("no stored response has the id %q", clip(id)))
	}
	if err != nil {
		return err
	}
	var body []byte
	if r.ContentLength != 0 { // one SDK asks in the body of a GET
		if body, err = readBounded(w, r, maxAside); err != nil {
			return err
		}
	}
	query, err := resumed(r)
	if err != nil {
		return err
	}
	return s.relay(w, r, x, query, body)
}

// resumed is the query of a request; a Last-Event-ID stands for starting_after of a stream.
func resumed(r *http.Request) (query string, err error) {
	query, last := r.URL.RawQuery, r.Header.Get(headerLastEvent)
	if last == "" || r.Method != http.MethodGet || r.URL.Query().Has("starting_after") {
		return query, nil
	}
	if n, err := strconv.ParseInt(last, 10, 64); err != nil || n < 0 {
		return "", responses.Invalid(headerLastEvent, responses.CodeInvalidValue,
			headerLastEvent+" must be a sequence number: an integer of at least 0")
	}
	values := url.Values{"starting_after": {last}}
	if !r.URL.Query().Has("stream") { // only readers of a stream have the header
		values.Set("stream", "true")
	}
	if query != "" {
		query += "&"
	}
	return query + values.Encode(), nil
}

// relay has the agentd of a session answer a request that makes no turn.
func (s *Server) relay(w http.ResponseWriter, r *http.Request, x Session, query string, body []byte) error {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/v1")
	if query != "" {
		path += "?" + query
	}
	var cut error
	err := x.Do(r.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := agent.Raw(ctx, r.Method, path, forwarded(r.Header), body)
		if err == nil && r.Method == http.MethodDelete && resp.StatusCode == http.StatusOK {
			x.Deleted(chi.URLParam(r, "id"))
		}
		if err == nil {
			cut = pass(w, resp)
		}
		return err
	})
	return cmp.Or(cut, err)
}

// countTokens is POST /v1/responses/input_tokens.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) error {
	x, q, err := s.aside(w, r)
	if err != nil {
		return err
	}
	var cut error
	err = x.Do(r.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := q.send(ctx, agent, x, r, "/responses/input_tokens")
		if err == nil {
			cut = pass(w, resp)
		}
		return err
	})
	return cmp.Or(cut, err)
}

// noTurn ends Session.Turn of a request that asks a model, with what a turn may take, and makes no turn. As an answer
// of agentd it says that there is nothing to wait for.
func noTurn() error {
	return responses.NotFound("", responses.CodeTurnNotFound, "the request makes no turn")
}

// compact is POST /v1/responses/compact.
func (s *Server) compact(w http.ResponseWriter, r *http.Request) error {
	x, q, err := s.aside(w, r)
	if err != nil {
		return err
	}
	var cut error
	done := false
	_, err = x.Turn(r.Context(), q.Holon.TurnID, q.Model, "",
		func(ctx context.Context, agent *client.Client, token string) (*responses.Response, error) {
			if done {
				return nil, noTurn()
			}
			resp, err := q.send(ctx, agent.WithModelToken(token), x, r, "/responses/compact")
			if err != nil {
				return nil, err
			}
			done, cut = true, pass(w, resp)
			return nil, noTurn()
		})
	if done { // the end of the turn that was none is no error
		return cut
	}
	return err
}

// aside reads a request about a conversation and finds the session that has it, or opens one.
func (s *Server) aside(w http.ResponseWriter, r *http.Request) (Session, *request, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, nil, err
	}
	q, err := decode(r, body)
	if err != nil {
		return nil, nil, err
	}
	q.Holon.TurnID, q.repeats, q.once = responses.NewID(responses.PrefixTurn), false, true
	x, err := s.route(r.Context(), q)
	return x, q, err
}

func (s *Server) models(r *http.Request) ([]responses.Model, error) {
	caller := access.From(r.Context())
	var list []responses.Model
	var err error
	if caller.Sessions { // else it can use none of a provider
		list, err = s.o.Models(r.Context())
	}
	if err != nil || s.o.Agents == nil {
		return list, err
	}
	agents, err := s.o.Agents.Models(r.Context(), caller)
	return slices.Concat(list, agents), err
}

func (s *Server) getModels(w http.ResponseWriter, r *http.Request) error {
	list, err := s.models(r)
	if err != nil {
		return err
	}
	return writeJSON(w, responses.ModelList{Object: "list", Data: append([]responses.Model{}, list...)})
}

func (s *Server) getModel(w http.ResponseWriter, r *http.Request) error {
	id := httpserver.PathValue(r, "*")
	list, err := s.models(r)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(m responses.Model) bool { return m.ID == id })
	if at < 0 {
		return responses.NotFound("model", responses.CodeModelNotFound, fmt.Sprintf("there is no model %q", clip(id)))
	}
	return writeJSON(w, list[at])
}

func writeJSON(w http.ResponseWriter, v any) error {
	body, err := responses.Marshal(v)
	if err != nil {
		return responses.Internal("the answer cannot be encoded", err)
	}
	w.Header().Set("Content-Type", "application/json")
	deadline(w)
	_, _ = w.Write(append(body, '\n')) // the client is gone
	return nil
}
