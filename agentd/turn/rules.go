package turn

import (
	"fmt"

	"holon/agentd/tools"
	"holon/responses"
)

// Kinds of errors of calls that are not run; the model is told in the place of
// a result.
const (
	kindNotAllowed = "tool_not_allowed"
	kindLimit      = "tool_call_limit"
)

// maxRejectedRounds bounds how often in a row a model may do nothing but make
// calls that it may not make.
const maxRejectedRounds = 3

// rules decide which calls of a model count: tool_choice, parallel_tool_calls
// and max_tool_calls of the request, for tools of the container and functions of
// the client alike. That providers are told the same is a hint to the model and
// replaces nothing here (Open Responses, "tool_choice").
type rules struct {
	choice   responses.ToolChoice
	allowed  map[string]bool // nil: all
	parallel bool
	limit    *int // calls of the whole turn
	made     int  // calls that were let through
	round    int  // of them in this round
}

// verdict is what becomes of a call.
type verdict uint8

const (
	admitted verdict = iota
	rejected         // the model is told why, and may go on
	overLimit
	surplus // as if it had not been made
)

func newRules(q *responses.Request) rules {
	r := rules{choice: q.ToolChoice, parallel: q.ParallelToolCalls, limit: q.MaxToolCalls}
	if q.ToolChoice.Allowed != nil {
		r.allowed = make(map[string]bool, len(q.ToolChoice.Allowed))
		for _, name := range q.ToolChoice.Allowed {
			r.allowed[name] = true
		}
	}
	return r
}

// judge decides on a call as it begins. why is for the model, when it is told.
func (r *rules) judge(name string) (v verdict, why *tools.Error) {
	name = tools.Clip(name, 64)
	reject := func(message string) (verdict, *tools.Error) {
		return rejected, &tools.Error{Kind: kindNotAllowed, Message: message, RecoveryHint: "go on without it"}
	}
	switch {
	case !r.parallel && r.round > 0:
		return surplus, nil
	case r.choice.Mode == "none":
		return reject("no tool may be called in this response")
	case r.allowed != nil && !r.allowed[name]:
		return reject(fmt.Sprintf("the tool %q may not be called in this response", name))
	case r.choice.Name != "" && !r.met() && name != r.choice.Name:
		return reject(fmt.Sprintf("the tool %q must be called first", r.choice.Name))
	case r.limit != nil && r.made >= *r.limit:
		return overLimit, &tools.Error{Kind: kindLimit,
			Message: fmt.Sprintf("not run: this response may make at most %d tool calls", *r.limit)}
	}
	r.made++
	r.round++
	return admitted, nil
}

// forced reports whether the model must call a tool.
func (r *rules) forced() bool { return r.choice.Mode == "required" || r.choice.Name != "" }

// met reports whether a tool was called that had to be.
func (r *rules) met() bool { return r.made > 0 }

// toolChoice is the tool choice of the next round. A call that was forced and made is not forced again,
// because that would never end. The allowed tools stay the same.
func (r *rules) toolChoice() responses.ToolChoice {
	if r.forced() && r.met() {
		return responses.ToolChoice{Allowed: r.choice.Allowed}
	}
	return r.choice
}
