package anthropic

import (
	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
	"holon/responses/stream"
)

// stopReasons map the provider's reasons to stop, but for those that need more than
// a name: see finish.
var stopReasons = map[string]model.Stop{
	"end_turn": model.StopEnd, "tool_use": model.StopEnd, "stop_sequence": model.StopEnd, "pause_turn": model.StopEnd,
	"max_tokens": model.StopMaxTokens, "model_context_window_exceeded": model.StopMaxTokens,
}

// End implements endpoint.Ender. The mark alone ends an answer that says nothing, which is not one that was cut.
func (a *assembly) End(marked bool) error {
	if !marked || a.said {
		return stream.ErrTruncated
	}
	return a.finish()
}

// finish ends the answer for the reason that the provider gave.
func (a *assembly) finish() error {
	done := model.Event{Kind: model.Done, Stop: stopReasons[a.stop], Usage: a.usage.sum(), RequestID: a.requestID,
		Uncalled: a.stop == typeToolUse && len(a.calls) == 0}
	switch {
	case a.stop == "refusal":
		return a.refuse(done)
	case a.stop == "" && !a.said:
		done.Stop = model.StopEnd // of an answer that says nothing
	case a.stop == "":
		return endpoint.Malformed("the provider's answer ended without a reason")
	case done.Stop == "":
		return endpoint.Malformed("the provider's answer ended for the reason %.64q, which is not known", a.stop)
	case a.stop == "model_context_window_exceeded" && !a.said:
		return &model.Error{Kind: model.KindContextLength, Code: responses.CodeContextLength,
			Message: "the conversation leaves the model no room for an answer"}
	}
	if err := a.endItems(done.Stop); err != nil {
		return err
	}
	return a.pass(done)
}

// endItems ends what is open. A last call is complete, and run, only when the model
// itself stopped; a thought that was cut short cannot be sent back.
func (a *assembly) endItems(stop model.Stop) error {
	if stop == model.StopEnd {
		if err := a.endBlock(); err != nil {
			return err
		}
		return a.endCall()
	}
	switch a.kind {
	case typeThinking, typeRedacted:
		a.kind = ""
		return a.endThought(false)
	case typeToolUse:
		return nil
	}
	return a.endBlock()
}

// refuse ends an answer that the provider's safeguards stopped. Its calls are not
// run.
func (a *assembly) refuse(done model.Event) error {
	done.Stop = model.StopEnd
	if len(a.calls) > 0 {
		done.Stop = model.StopContentFilter
		return a.pass(done)
	}
	if err := a.endBlock(); err != nil {
		return err
	}
	if !a.text {
		if err := a.pass(model.Event{Kind: model.MessageBegin}); err != nil {
			return err
		}
	}
	if err := a.pass(model.Event{Kind: model.RefusalDelta, Text: a.explanation()}); err != nil {
		return err
	}
	return a.pass(done)
}

func (a *assembly) explanation() string {
	switch d := a.details; {
	case d != nil && d.Explanation != "":
		return d.Explanation
	case d != nil && d.Category != "":
		return "The model declined to answer (" + d.Category + ")."
	}
	return "The model declined to answer."
}
