package agentruntime

import (
	"fmt"
	"strings"
)

// note counts what happened to an open thing, as far as a rule asks for it later.
func (o *object) note(e *Event) {
	o.seen[e.Type]++
	switch {
	case strings.HasPrefix(e.Type, "routing."):
		o.noteRoute(e)
	case strings.HasPrefix(e.Type, "model."):
		o.noteModel(e)
	}
	switch e.Type {
	case "permission.evaluated", "permission.resolved":
		o.text["decision"], o.text["decision_source"] = e.text("decision"), e.text("decision_source")
	case "tool.started", "tool.args":
		if e.field("safe_args") != nil || e.field("input_ref") != nil {
			o.seen["args"]++
		}
		if e.field("policy") != nil {
			o.seen["policy"]++
			o.text["policy"] = e.text("policy")
		}
	case "rate_limit.hit":
		o.seen[e.Type+" "+e.IDs[ModelRequest]]++
	case "action.required":
		o.text["expires_at"] = e.text("expires_at")
	case "turn.started": // again: what its last attempt was about to ask is not asked
		o.asks("")
	case "cost.recorded":
		used := e.tokens()
		o.spent.in, o.spent.out = o.spent.in+used.in, o.spent.out+used.out
		o.seen[costOf(e.IDs[ModelRequest])]++
		o.use(e)
	}
}

func (o *object) noteRoute(e *Event) {
	if e.Type == "routing.fallback.applied" {
		delete(o.text, "advanced")
		o.text["fallback"] = e.text("to")
		return
	}
	if n, ok := e.number("candidate_count"); ok {
		o.text["candidates"] = fmt.Sprint(n)
	}
}

func (o *object) noteModel(e *Event) {
	switch e.Type {
	case "model.requested":
		o.asks(requestedModel(e))
		o.attempt, _ = e.number("attempt")
		if round, ok := e.number("round"); ok && e.field("purpose") == nil {
			o.round = round
		}
	case "model.failed":
		o.text["model_outcome"], o.text["model_category"] = e.text("outcome"), e.text("failure_category")
		o.text["advanced"] = fmt.Sprint(e.field("advanced_to_fallback"))
		if status, _ := e.number("http_status"); status == 429 {
			o.limited = append(o.limited, e.IDs[ModelRequest])
		}
	case "model.completed":
		o.text["model_outcome"] = "completed"
		o.use(e)
	}
}

// asks notes which model a turn asks now.
func (o *object) asks(model string) {
	o.text["model"] = model
	delete(o.text, "advanced")
	delete(o.text, "fallback")
}

// use notes the usage of a model request.
func (o *object) use(e *Event) {
	if e.IDs[ModelRequest] == "" || e.field("usage") == nil {
		return
	}
	if o.used == nil {
		o.used = map[string]tokens{}
	}
	o.used[e.IDs[ModelRequest]] = e.tokens()
}
