package anthropic

import (
	"fmt"

	"holon/agentd/model"
	"holon/responses"
)

// finish ends the answer for the reason that the provider gave: one switch over the
// reasons. A last call is complete, and run, only when the model itself stopped.
func (a *assembly) finish() error {
	done := model.Event{Kind: model.Done, Usage: a.usage.sum(), RequestID: a.requestID}
	switch a.stop {
	case "end_turn", "tool_use", "stop_sequence", "pause_turn":
		done.Stop = model.StopEnd
	case "max_tokens":
		done.Stop = model.StopMaxTokens
	case "model_context_window_exceeded":
		if !a.said {
			return &model.Error{Kind: model.KindContextLength, Code: responses.CodeContextLength,
				Message: "the conversation leaves the model no room for an answer"}
		}
		done.Stop = model.StopMaxTokens
	case "refusal":
		return a.refuse(done)
	case "":
		return protocolError("the provider's answer ended without a reason")
	default:
		return protocolError("the provider's answer ended for the reason %.64q, which is not known", a.stop)
	}
	if done.Stop == model.StopMaxTokens && (a.kind == typeThinking || a.kind == typeRedacted) {
		if err := a.endThought(false); err != nil {
			return err
		}
		a.kind = ""
	}
	if done.Stop == model.StopEnd || a.kind != typeToolUse {
		if err := a.endBlock(); err != nil {
			return err
		}
	}
	if done.Stop == model.StopEnd {
		if err := a.endCall(); err != nil {
			return err
		}
	}
	return a.pass(done)
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

func protocolError(format string, args ...any) *model.Error {
	return &model.Error{Kind: model.KindProtocol, Code: responses.CodeModelError, Message: fmt.Sprintf(format, args...)}
}
