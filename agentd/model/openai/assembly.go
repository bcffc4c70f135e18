package openai

import (
	"cmp"
	"encoding/json"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
	"holon/responses/stream"
)

const (
	maxItems     = endpoint.MaxItems
	maxArguments = endpoint.MaxArguments
)

// assembly turns a provider's events into ours. The provider numbers its items and
// may interleave them; ours come one after the other. Content that a server sends
// only at the end of a part, an item or the answer is passed on then.
type assembly struct {
	provider  string
	asked     model.Request
	forms     freeform
	requestID string
	begunAs   string // id of the answer

	queue *endpoint.ItemQueue
	items map[int]*item // by output index; nil for those that are ignored
	begun []*item       // in order of their beginning
	calls endpoint.CallIDs
}

func newAssembly(provider string, forms freeform, yield func(model.Event) bool) *assembly {
	return &assembly{provider: provider, forms: forms, queue: endpoint.NewItemQueue(yield), items: make(map[int]*item),
		calls: make(endpoint.CallIDs)}
}

// Take implements endpoint.Answer: it handles one event. The last is the provider's
// terminal event.
func (a *assembly) Take(data []byte) (last bool, err error) {
	if d, ok := readDelta(data); ok {
		return false, a.delta(d)
	}
	eventType := endpoint.EventType(data)
	if eventType == "" {
		return false, endpoint.Malformed("the provider sent an event that is no JSON object with a type")
	}
	if eventType == "error" {
		return false, endpoint.EventError(endpoint.DecodeFailure(data))
	}
	kind, handle := deltaKind(eventType), handlers[eventType]
	if kind == 0 && handle == nil {
		return false, nil // servers may add events, of any shape
	}
	var ev wireEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return false, endpoint.Malformed("the provider's %s event can't be read: %v", eventType, endpoint.Unreadable(err))
	}
	if kind != 0 {
		return false, a.delta(delta{ev.place(kind), ev.OutputIndex, ev.Delta, logprobs(ev.Logprobs)})
	}
	return responses.Terminal(eventType), handle(a, &ev)
}

type handler func(a *assembly, ev *wireEvent) error

// handlers are what the assembly does for the events other than deltas.
var handlers = map[string]handler{
	"response.created":           (*assembly).opened,
	"response.output_item.added": func(a *assembly, ev *wireEvent) error { return a.added(ev.OutputIndex, ev.Item) },
	"response.output_item.done":  func(a *assembly, ev *wireEvent) error { return a.ended(ev.OutputIndex, ev.Item) },

	"response.content_part.done": func(a *assembly, ev *wireEvent) error {
		return a.partEnded(ev.OutputIndex, ev.ContentIndex, false)
	},
	"response.reasoning_summary_part.done": func(a *assembly, ev *wireEvent) error {
		return a.partEnded(ev.OutputIndex, ev.SummaryIndex, true)
	},
	"response.output_text.annotation.added": func(a *assembly, ev *wireEvent) error {
		return a.annotation(ev.OutputIndex, ev.Annotation)
	},

	"response.output_text.done":             rest(model.TextDelta),
	"response.refusal.done":                 rest(model.RefusalDelta),
	"response.reasoning_summary_text.done":  rest(model.SummaryDelta),
	"response.reasoning_text.done":          rest(model.ReasoningDelta),
	"response.reasoning.done":               rest(model.ReasoningDelta),
	"response.function_call_arguments.done": rest(model.CallDelta),
	"response.custom_tool_call_input.done":  rest(model.CallDelta),

	responses.EventCompleted:  end(responses.EventCompleted),
	responses.EventIncomplete: end(responses.EventIncomplete),
	responses.EventFailed:     end(responses.EventFailed),
}

// rest handles an event with a whole text, which is in one of its keys.
func rest(kind model.EventKind) handler {
	return func(a *assembly, ev *wireEvent) error {
		return a.rest(ev.OutputIndex, ev.place(kind), ev.Text+ev.Refusal+ev.Arguments+ev.Input)
	}
}

func end(eventType string) handler {
	return func(a *assembly, ev *wireEvent) error {
		if ev.Response == nil {
			return endpoint.Malformed("the provider's terminal event has no response")
		}
		return a.terminal(eventType, ev.Response)
	}
}

// opened handles the event that begins the answer, which some servers repeat.
func (a *assembly) opened(ev *wireEvent) error {
	if ev.Response == nil || ev.Response.ID == "" {
		return nil
	}
	if len(a.items) > 0 && a.begunAs != "" && ev.Response.ID != a.begunAs {
		return endpoint.Malformed("the provider began another answer, %.64q, in the middle of one", ev.Response.ID)
	}
	a.begunAs = ev.Response.ID
	return nil
}

// terminal handles the event that ends the answer.
func (a *assembly) terminal(eventType string, r *wireResponse) error {
	if r.Usage != nil {
		a.asked.Count(*r.Usage, true)
	}
	if eventType == responses.EventFailed {
		if r.Error == nil {
			return endpoint.EventError(endpoint.Failure{})
		}
		return endpoint.EventError(*r.Error)
	}
	done := model.Event{Kind: model.Done, Stop: model.StopEnd, RequestID: cmp.Or(r.ID, a.requestID)}
	if r.Usage != nil {
		done.Usage = *r.Usage
	}
	if eventType == responses.EventIncomplete {
		var err error
		if done.Stop, err = stopReason(r); err != nil {
			return err
		}
	}
	if eventType == responses.EventCompleted {
		if err := a.output(r.Output); err != nil {
			return err
		}
	}
	if err := a.finish(eventType == responses.EventCompleted); err != nil {
		return err
	}
	return a.queue.Emit(done)
}

// End implements endpoint.Ender. The mark alone ends an answer that says nothing, which is not one that was cut.
func (a *assembly) End(marked bool) error {
	if !marked || len(a.items) > 0 {
		return stream.ErrTruncated
	}
	return a.terminal(responses.EventCompleted, &wireResponse{})
}

// stopReason returns why an answer is incomplete.
func stopReason(r *wireResponse) (model.Stop, error) {
	reason := ""
	if r.IncompleteDetails != nil {
		reason = r.IncompleteDetails.Reason
	}
	switch reason {
	case responses.ReasonMaxOutputTokens, "max_tokens":
		return model.StopMaxTokens, nil
	case responses.ReasonContentFilter:
		return model.StopContentFilter, nil
	}
	return "", endpoint.Malformed("the provider left its answer incomplete for the reason %.64q", reason)
}

// finish ends the items that the provider did not end. Calls among them are
// complete, and run, only in a complete answer.
func (a *assembly) finish(complete bool) error {
	for _, it := range a.begun {
		if it.Ended() {
			continue
		}
		err := a.endText(it)
		switch {
		case err != nil:
		case !complete:
		case it.kind == reasoning:
			err = a.queue.Push(&it.QueuedItem, model.Event{Kind: model.ReasoningEnd})
		case it.kind == call:
			err = a.endCall(it)
		}
		if err == nil {
			err = a.queue.End(&it.QueuedItem)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
