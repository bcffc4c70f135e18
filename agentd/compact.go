package agentd

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"holon/agentd/compaction"
	"holon/agentd/model"
	"holon/agentd/prompt"
	"holon/agentd/turn"
	"holon/agentd/turntoken"
	"holon/responses"
	"holon/responses/turns"
)

// keptMessages is how much of the user's own words a compaction keeps, in
// tokens: enough for every task that was typed, too little for pasted logs.
const keptMessages = 20_000

// maxCompactions bounds the compactions that ask a model at once. They wait for
// no turn: a conversation is compacted between its own turns.
const maxCompactions = 4

// compactConversation is POST /responses/compact. It stores nothing: what was
// compacted, if stored, stays as it is.
func (s *Server) compactConversation(w http.ResponseWriter, r *http.Request) {
	req, err := s.readRequest(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	token, err := modelToken(r.Header)
	if err != nil {
		s.fail(w, err)
		return
	}
	answer, err := s.compact(turntoken.With(r.Context(), token), req, w.Header())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.writeJSON(w, http.StatusOK, answer, turns.NamesOfTools(nil, answer.Output)...)
}

// compact checks the request and compacts its conversation when its turn has
// come. Once a model is asked, h tells the client not to try again by itself.
func (s *Server) compact(ctx context.Context, req *responses.Request, h http.Header) (*responses.Compacted, error) {
	if req.Model == "" {
		return nil, responses.Invalid("model", responses.CodeMissingParameter, "a compaction needs a model")
	}
	asked, err := s.parts.Models.Resolve(req.Model)
	if err != nil {
		return nil, err
	}
	items, err := s.whole(withoutSilence(req))
	if err != nil {
		return nil, err
	}
	parts := compaction.Split(items, compaction.Budget{Messages: keptMessages})
	if len(parts.Head) == 0 {
		return nil, responses.Invalid("input", responses.CodeMissingParameter,
			"there is nothing to compact: give input or previous_response_id")
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.running.Done()
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Turns.Timeout, turn.ErrTimeout)
	defer cancel()
	defer context.AfterFunc(s.lifetime, cancel)() // at the end of the grace of a shutdown
	ticket, err := s.compactions.Admit(responses.NewID(responses.PrefixCompaction))
	if err != nil {
		return nil, err
	}
	if err := s.compactions.Wait(ctx, ticket); err != nil {
		return nil, s.interrupted(ctx)
	}
	defer s.compactions.Leave(ticket)
	h.Set(headerShouldRetry, "false")
	return s.shorten(ctx, compaction.Summarizer{Transport: asked.Transport, Model: asked.Name,
		Guidance: value(req.Instructions), CacheKey: value(req.PromptCacheKey)}, parts)
}

// value is what p points to, "" for nothing.
func value(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// shorten makes the shorter conversation.
func (s *Server) shorten(ctx context.Context, model compaction.Summarizer,
	parts compaction.Parts) (*responses.Compacted, error) {
	summary, usage, err := model.Summarize(ctx, parts.Head)
	if err != nil {
		return nil, s.uncompacted(ctx, err)
	}
	blob, err := s.sealer.Seal(summary)
	if err != nil {
		return nil, responses.Internal("the summary cannot be sealed; the server's log has the details", err)
	}
	c := &responses.Compacted{ID: responses.NewID(responses.PrefixCompaction), Object: "response.compaction",
		CreatedAt: s.parts.Now().Unix(), Usage: usage}
	sealed := &responses.Compaction{ID: responses.NewID(responses.PrefixCompaction), Status: responses.ItemCompleted,
		EncryptedContent: blob}
	c.Output = append(append(append(c.Output, parts.Kept...), sealed), parts.After...)
	return c, nil
}

// whole returns the conversation of a request, from the latest compaction that it
// keeps on, and with the summaries of those that a client keeps opened. Calls may
// wait for their output.
func (s *Server) whole(req *responses.Request) ([]responses.Item, error) {
	history, _, _, err := s.recall(req.PreviousResponseID, nil)
	if err != nil {
		return nil, err
	}
	known := conversation{items: history, find: s.findItem, left: s.leftItem, waits: true}
	input, err := known.resolve(req.Input)
	if err != nil {
		return nil, err
	}
	identify(input)
	if history, err = s.sealer.Expand("previous_response_id", history); err != nil {
		return nil, err
	}
	if input, err = s.sealer.Expand("input", input); err != nil {
		return nil, err
	}
	_, history = prompt.Split(history)
	told := compaction.Receipts{Families: families()}.View(history).Items
	return slices.Concat(told, input), nil
}

// uncompacted says why a model gave no summary.
func (s *Server) uncompacted(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*model.Error](err); ok && ctx.Err() == nil {
		return failed.Response()
	}
	return s.interrupted(ctx)
}

// interrupted says why the end of ctx left a compaction undone.
func (s *Server) interrupted(ctx context.Context) error {
	switch {
	case s.lifetime.Err() != nil:
		return draining()
	case errors.Is(context.Cause(ctx), turn.ErrTimeout):
		return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDeadline,
			Message: "the compaction ran out of time"}
	}
	// its client is gone
	return &responses.Error{Type: responses.TypeServerError, Code: responses.CodeCancelled,
		Message: "the compaction was cancelled"}
}
