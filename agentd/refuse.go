package agentd

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"

	"holon/agentd/record"
	"holon/responses"
)

// refuse refuses what is wrong whatever the model. It returns the request without input
// that says nothing.
func (s *Server) refuse(req *responses.Request, mem *memory) (*responses.Request, error) {
	if err := errors.Join(checkBackground(req), s.refuseSecretIDs(req.Holon)); err != nil {
		return nil, err
	}
	if req = s.withDefaults(withoutSilence(req)); len(req.Input) == 0 && !req.NoModel {
		if err := s.checkUnfinished(req.PreviousResponseID, mem); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// withDefaults returns the request with the server's defaults.
func (s *Server) withDefaults(req *responses.Request) *responses.Request {
	with := *req
	with.Holon.Isolation = cmp.Or(req.Holon.Isolation, s.cfg.Turns.Isolation)
	with.ShowToolCalls = req.ShowToolCalls || s.cfg.Turns.ShowToolCalls
	return &with
}

// refuseSecretIDs refuses ids that hold a known secret: they name directories and stand
// in every record, where they are not hidden.
func (s *Server) refuseSecretIDs(h responses.Holon) error {
	for _, id := range []struct{ param, value string }{{"holon.turn_id", h.TurnID}, {"holon.session_id", h.SessionID}} {
		if s.parts.Secrets.Text(id.value) != id.value {
			e := responses.Invalid(id.param, responses.CodeInvalidValue, id.param+" holds a value that is secret here")
			e.Hint = "choose another id"
			return e
		}
	}
	return nil
}

// checkUnfinished refuses a request that says nothing, unless it lets the response id go
// on, which is incomplete: a model is never asked with words that no one said.
func (s *Server) checkUnfinished(id string, mem *memory) error {
	var status responses.Status
	switch {
	case id == "":
	case mem.holds(id):
		status = mem.status
	default:
		stored, err := s.store.Load(id)
		if errors.Is(err, record.ErrNotFound) {
			return nil // thread says so, in the words for it
		}
		if err != nil {
			return responses.Internal("the stored response cannot be read", err)
		}
		status = stored.Response.Status
	}
	if status == responses.StatusIncomplete {
		return nil
	}
	e := responses.Invalid("input", responses.CodeMissingParameter, "the request has no input")
	e.Hint = "say something in input; only an incomplete response goes on without, when previous_response_id names it"
	return e
}

// withoutSilence returns the request, without its input if that says nothing.
func withoutSilence(req *responses.Request) *responses.Request {
	if len(req.Input) == 0 || says(req.Input) {
		return req
	}
	silent := *req
	silent.Input = nil
	return &silent
}

// says reports whether there is more in items than messages without content, thoughts and what models are not shown.
func says(items []responses.Item) bool {
	return slices.ContainsFunc(items, func(item responses.Item) bool {
		switch item.(type) {
		case *responses.Reasoning, *responses.OpaqueItem:
			return false
		}
		m, ok := item.(*responses.Message)
		return !ok || slices.ContainsFunc(m.Content, func(p responses.Part) bool {
			switch p.Type {
			case responses.PartInputImage, responses.PartInputFile, responses.PartInputVideo:
				return true
			}
			return strings.ContainsFunc(p.Text+p.Refusal, visible)
		})
	})
}

// visible reports whether a character says something: it is not a space, and not one of
// those that have no width.
func visible(r rune) bool {
	return !unicode.IsSpace(r) && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r)
}
