package anthropic

import (
	"cmp"
	"encoding/json"

	"holon/agentd/model"
	"holon/responses"
	"holon/responses/stream"
)

// stopReasons map the provider's reasons to stop, but for those that need more than
// a name: see finish.
var stopReasons = map[string]model.Stop{
	"end_turn": model.StopEnd, "tool_use": model.StopEnd, "stop_sequence": model.StopEnd, "pause_turn": model.StopEnd,
	"max_tokens": model.StopMaxTokens, "model_context_window_exceeded": model.StopMaxTokens,
}

// End implements endpoint.Answer. The reason to stop is the last that an answer has, and the mark [DONE] ends one too.
func (a *assembly) End(marked bool) error {
	if !marked && a.stop == "" {
		return stream.ErrTruncated
	}
	a.finish()
	return a.queue.Err()
}

// finish ends the answer for the reason that the provider gave.
func (a *assembly) finish() {
	done := model.Event{Kind: model.Done, Stop: stopReasons[a.stop], Usage: a.usage.sum(), RequestID: a.requestID,
		Uncalled: a.stop == typeToolUse && len(a.calls) == 0}
	switch {
	case a.stop == "refusal":
		a.refuse(done)
		return
	case done.Stop == "": // no reason, or one that is not known
		done.Stop, done.Reason = model.StopEnd, a.stop
		if (a.held || a.kind == typeToolUse) && !json.Valid([]byte(cmp.Or(a.buffer.String(), a.input, "{}"))) {
			done.Stop = model.StopMaxTokens // the call is not whole
		}
	case a.stop == "model_context_window_exceeded" && !a.emitted:
		a.queue.Fail(&model.Error{Kind: model.KindContextLength, Code: responses.CodeContextLength,
			Message: "the conversation leaves the model no room for an answer"})
	}
	a.endItems(done.Stop)
	a.queue.Emit(done)
}

// endItems ends what is open. A last call is complete, and run, only when the model
// itself stopped; a thought that was cut short cannot be sent back.
func (a *assembly) endItems(stop model.Stop) {
	switch {
	case stop == model.StopEnd:
		a.endBlock()
		a.endCall()
	case a.kind == typeThinking || a.kind == typeRedacted:
		a.kind = ""
		a.endThought(false)
	case a.kind != typeToolUse:
		a.endBlock()
	}
}

// refuse ends an answer that the provider's safeguards stopped. Its calls are not
// run.
func (a *assembly) refuse(done model.Event) {
	if done.Stop = model.StopEnd; len(a.calls) > 0 {
		done.Stop = model.StopContentFilter
		a.queue.Emit(done)
		return
	}
	a.endBlock()
	if !a.text {
		a.queue.Emit(model.Event{Kind: model.MessageBegin})
	}
	a.queue.Emit(model.Event{Kind: model.RefusalDelta, Text: a.explanation()})
	a.queue.Emit(done)
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
