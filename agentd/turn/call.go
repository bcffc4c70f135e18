package turn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
)

// ownCall is a call that the container answers.
type ownCall struct {
	responses.ToolCall
	arguments string       // as the model wrote them; the ToolCall has no secrets in its own
	why       *tools.Error // why it may not be made; nil when it may
	unknown   *tools.Error // what it gives, since there is no such tool; nil when there is
}

// call is what its tool is asked.
func (c *ownCall) call() tools.Call {
	return tools.Call{ID: c.CallID, Name: c.Name, Arguments: json.RawMessage(c.arguments)}
}

// beginCall opens a call. A client's function is streamed for the client to
// run; everything else, also a call that may not be made, stays off the stream,
// where it would be mistaken for a request to the client (decision 5).
func (s *sampler) beginCall(ev model.Event) error {
	if err := s.endItem(responses.PhaseCommentary); err != nil {
		return err
	}
	if n := len(ev.CallID); n < 1 || n > 64 {
		return malformed("the model made a call whose id does not have 1 to 64 characters")
	}
	callID := s.ownCallID(ev.CallID)
	v, why := s.rules.judge(ev.Name)
	if v == surplus {
		s.drop = true
		return s.Journal.Event(s.Scope.Warning(turns.Notice{Code: "surplus_tool_call", Component: "turn",
			Recoverable: true,
			Message:     "a call of " + tools.Clip(ev.Name, 64) + " was left out: parallel_tool_calls is false"}))
	}
	s.round.overLimit = s.round.overLimit || v == overLimit
	if v == admitted && s.clientTools[ev.Name] {
		s.args = 0
		return s.Emitter.BeginFunctionCall(callID, ev.Name)
	}
	name := ev.Name
	if !s.env.Secrets.Empty() && !slices.Contains(s.toolNames(), name) { // the model made it up
		name = s.env.Secrets.Text(name)
	}
	s.call = &ownCall{why: why, unknown: s.unknown(ev.Name)}
	id := responses.NewID(responses.PrefixToolCall)
	s.round.mark = cmp.Or(s.round.mark, id)
	s.call.ToolCall = responses.ToolCall{ID: id, CallID: callID, Name: toolName(name),
		Status: responses.ItemInProgress, Round: s.round.mark}
	return nil
}

// unknown is the error of a call of a tool that there is not, nil for one that there is. Its hint has the client's
// functions too.
func (r *runner) unknown(name string) *tools.Error {
	names := r.toolNames()
	if slices.Contains(names, name) {
		return nil
	}
	slices.Sort(names)
	name = toolName(name)
	return &tools.Error{Kind: tools.KindUnknownTool, Message: fmt.Sprintf("there is no tool named %q", name),
		Details:      map[string]any{"requested": name, "available": names},
		RecoveryHint: "use one of: " + strings.Join(names, ", ")}
}

// ownCallID returns an id that no other call of the conversation has: the
// model's, or a new one where that was used before. Some providers count their
// calls from the beginning in every answer, and an output must answer one call.
func (r *runner) ownCallID(id string) string {
	if r.callIDs == nil {
		r.callIDs = make(map[string]bool)
		for _, item := range r.input {
			switch item := item.(type) {
			case *responses.FunctionCall:
				r.callIDs[item.CallID] = true
			case *responses.ToolCall:
				r.callIDs[item.CallID] = true
			}
		}
	}
	if r.callIDs[id] {
		id = responses.NewID(responses.PrefixCallID)
	}
	r.callIDs[id] = true
	return id
}

// toolName makes a name that a model invented fit for the history: a provider
// refuses a conversation with any other.
func toolName(name string) string {
	valid := func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}
	name = strings.Map(valid, name)
	return cmp.Or(name[:min(len(name), 64)], "_")
}

func (s *sampler) arguments(delta string) error {
	if s.call != nil || s.drop {
		return nil // its end repeats them
	}
	s.args += len(delta)
	return s.Emitter.Arguments(delta)
}

// endCall closes a call and gets its complete arguments.
func (s *sampler) endCall(arguments string) error {
	if s.drop {
		s.drop = false
		return nil
	}
	if s.call == nil {
		if s.args == 0 { // the provider sent no deltas
			if err := s.Emitter.Arguments(arguments); err != nil {
				return err
			}
		}
		s.round.handedOver++
		if err := s.endItem(""); err != nil {
			return err
		}
		return s.keep() // the client may answer it, however the turn ends
	}
	s.call.arguments = strings.ToValidUTF8(arguments, "\uFFFD")
	s.call.Arguments = string(s.env.Secrets.JSON([]byte(s.call.arguments), nil))
	s.round.calls = append(s.round.calls, s.call)
	s.call = nil
	return nil
}

// clean returns a result of a tool without known secrets.
func (r *runner) clean(result []byte) []byte {
	if r.env.Secrets.Empty() {
		return result
	}
	return r.env.Secrets.JSON(result, turns.Constants, turns.ToolNames(r.toolNames()))
}

// toolNames returns the names of all tools of the turn, the client's included.
func (r *runner) toolNames() []string {
	names := slices.Collect(maps.Keys(r.clientTools))
	for _, def := range r.Tools.Definitions() {
		names = append(names, def.Name)
	}
	return names
}
