package openai

import (
	"encoding/json"
	"fmt"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// Bounds of one answer, far above the output of models.
const (
	maxItems     = 4096
	maxArguments = 16 << 20 // bytes of one call's
)

// assembly turns a provider's events into ours. The provider numbers its items and
// may interleave them; ours come one after the other. Content that a server sends
// only at the end of a part, an item or the answer is passed on then.
type assembly struct {
	provider  string
	forms     freeform
	requestID string

	queue *endpoint.ItemQueue
	items map[int]*item // by output index; nil for those that are ignored
	begun []*item       // in order of their beginning
	calls map[string]bool
}

func newAssembly(provider string, forms freeform, yield func(model.Event) bool) *assembly {
	return &assembly{provider: provider, forms: forms, queue: endpoint.NewItemQueue(yield), items: make(map[int]*item),
		calls: make(map[string]bool)}
}

// take handles one event. done is true after the provider's terminal event.
// Errors are *model.Error values or endpoint.ErrStopped.
func (a *assembly) take(data []byte) (done bool, err error) {
	if d, ok := readDelta(data); ok {
		return false, a.delta(d)
	}
	eventType := endpoint.EventType(data)
	if eventType == "error" {
		return false, endpoint.EventError(endpoint.DecodeFailure(data))
	}
	if eventType == "" {
		return false, protocolError("the provider sent an event that is no JSON object with a type")
	}
	if !known(eventType) {
		return false, nil // servers may add events
	}
	var ev wireEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return false, protocolError(fmt.Sprintf("the provider's %s event can't be read: %v", eventType, err))
	}
	if kind := deltaKind(eventType); kind != 0 {
		return false, a.delta(delta{kind, ev.OutputIndex, ev.Delta, logprobs(ev.Logprobs)})
	}
	return a.event(eventType, &ev)
}

// known reports whether the assembly acts on events of the type. Only those are
// decoded, so that others may have any shape.
func known(eventType string) bool {
	switch eventType {
	case "response.output_item.added", "response.output_item.done",
		"response.content_part.done", "response.reasoning_summary_part.done",
		"response.output_text.done", "response.refusal.done", "response.reasoning_summary_text.done",
		"response.reasoning_text.done", "response.reasoning.done",
		"response.function_call_arguments.done", "response.custom_tool_call_input.done",
		"response.output_text.annotation.added",
		"response.completed", "response.incomplete", "response.failed":
		return true
	}
	return deltaKind(eventType) != 0
}

func (a *assembly) event(eventType string, ev *wireEvent) (done bool, err error) {
	switch eventType {
	case "response.output_item.added":
		return false, a.added(ev.OutputIndex, ev.Item)
	case "response.output_item.done":
		return false, a.ended(ev.OutputIndex, ev.Item)
	case "response.content_part.done", "response.reasoning_summary_part.done":
		return false, a.partEnded(ev.OutputIndex, eventType == "response.reasoning_summary_part.done")
	case "response.output_text.done":
		return false, a.rest(ev.OutputIndex, model.TextDelta, ev.Text)
	case "response.refusal.done":
		return false, a.rest(ev.OutputIndex, model.RefusalDelta, ev.Refusal)
	case "response.reasoning_summary_text.done":
		return false, a.rest(ev.OutputIndex, model.SummaryDelta, ev.Text)
	case "response.reasoning_text.done", "response.reasoning.done":
		return false, a.rest(ev.OutputIndex, model.ReasoningDelta, ev.Text)
	case "response.function_call_arguments.done":
		return false, a.rest(ev.OutputIndex, model.CallDelta, ev.Arguments)
	case "response.custom_tool_call_input.done":
		return false, a.rest(ev.OutputIndex, model.CallDelta, ev.Input)
	case "response.output_text.annotation.added":
		return false, a.annotation(ev.OutputIndex, ev.Annotation)
	}
	if ev.Response == nil {
		return false, protocolError("the provider's terminal event has no response")
	}
	return true, a.terminal(eventType, ev.Response)
}

// terminal handles the event that ends the answer.
func (a *assembly) terminal(eventType string, r *wireResponse) error {
	if eventType == "response.failed" {
		if r.Error == nil {
			return endpoint.EventError(endpoint.Failure{})
		}
		return endpoint.EventError(*r.Error)
	}
	done := model.Event{Kind: model.Done, Stop: model.StopEnd, RequestID: r.ID}
	if done.RequestID == "" {
		done.RequestID = a.requestID
	}
	if r.Usage != nil {
		done.Usage = *r.Usage
	}
	if eventType == "response.incomplete" {
		var err error
		if done.Stop, err = stopReason(r); err != nil {
			return err
		}
	}
	if eventType == "response.completed" {
		for index, raw := range r.Output { // for servers that send items only here
			if err := a.ended(index, raw); err != nil {
				return err
			}
		}
	}
	if err := a.finish(eventType == "response.completed"); err != nil {
		return err
	}
	return a.queue.Emit(done)
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
	return "", protocolError(fmt.Sprintf("the provider left its answer incomplete for the reason %.64q", reason))
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

func protocolError(msg string) *model.Error {
	return &model.Error{Kind: model.KindProtocol, Code: responses.CodeModelError, Message: msg}
}
