package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
	"holon/responses/stream"
)

// call takes a piece of a call.
func (a *assembly) call(d *callDelta) {
	it := a.callOf(d)
	if it == nil {
		a.extra(d)
		a.close()
		it = &item{id: string(d.ID)}
		a.calls = append(a.calls, it)
		if len(a.calls) > maxItems {
			a.queue.Fail(endpoint.Malformed("the provider's answer has more than %d calls", maxItems))
			return
		}
	}
	if d.Index != nil {
		a.byIndex[*d.Index] = it
	}
	if it.id == "" {
		it.id = string(d.ID)
	}
	if !it.begun && d.Function.Name != "" {
		it.begun = true
		it.start = model.Event{Kind: model.CallBegin, CallID: a.ids.Add(it.id, ""), Name: d.Function.Name}
		a.begin(it)
		if early := it.args.String(); early != "" {
			a.queue.Push(&it.QueuedItem, model.Event{Kind: model.CallDelta, Text: early})
		}
	}
	piece := d.Function.arguments()
	if piece == "" || it.repeats(d, piece.Text()) {
		return
	}
	text := it.args.Add(piece)
	if a.argued += len(text); a.argued > maxArguments {
		a.queue.Fail(endpoint.Malformed("the provider's calls have more than %d MiB of arguments", maxArguments>>20))
		return
	}
	if it.begun && text != "" {
		a.queue.Push(&it.QueuedItem, model.Event{Kind: model.CallDelta, Text: text})
	}
}

// repeats reports whether a piece is a whole call that came before.
func (it *item) repeats(d *callDelta, arguments string) bool {
	return it.begun && (d.ID == "" || string(d.ID) == it.id) && d.Function.Name == it.start.Name &&
		arguments == it.args.String() && arguments[0] == '{' && json.Valid([]byte(arguments))
}

// extra keeps the extra content of an answer's first call, which is where Gemini
// puts it, in the thought before the call.
func (a *assembly) extra(d *callDelta) {
	if len(a.calls) == 0 && len(d.Extra) > 0 && string(d.Extra) != "null" && a.detail(d.Extra) {
		a.current(model.ReasoningBegin).extra = d.Extra
	}
}

// callOf returns the call that a piece belongs to, nil for a new one. Pieces name
// an index; some providers omit it, and some give every call the same index, so
// that only a different id shows a new call.
func (a *assembly) callOf(d *callDelta) *item {
	var it *item
	switch {
	case d.Index != nil:
		it = a.byIndex[*d.Index]
	case d.ID != "":
		for _, known := range a.calls {
			if known.id == string(d.ID) {
				it = known
			}
		}
	case len(a.calls) > 0 && d.Function.Name == "":
		it = a.calls[len(a.calls)-1]
	}
	if it != nil && it.begun && d.ID != "" && it.id != "" && string(d.ID) != it.id && d.Function.Name != "" {
		return nil
	}
	return it
}

// End implements endpoint.Answer. A call that is the last item of an answer that was
// cut short is incomplete and never run.
func (a *assembly) End(marked bool) error {
	if !marked && a.finish == "" {
		return stream.ErrTruncated
	}
	stop, err := a.stop()
	if err != nil {
		return err
	}
	reason := a.unknown()
	if n := len(a.calls); reason != "" && n > 0 && !json.Valid([]byte(cmp.Or(a.calls[n-1].args.String(), "{}"))) {
		stop = model.StopMaxTokens // the last call is not whole
	}
	a.close()
	var half *item
	if stop != model.StopEnd {
		half = a.newest
	}
	for _, it := range a.calls {
		switch {
		case !it.begun && stop == model.StopEnd:
			return endpoint.Malformed("the provider's call names no tool")
		case !it.begun, it == half:
			continue
		}
		if rest := it.args.End(); rest != "" {
			a.queue.Push(&it.QueuedItem, model.Event{Kind: model.CallDelta, Text: rest})
		}
		a.queue.Push(&it.QueuedItem, model.Event{Kind: model.CallEnd, CallID: it.start.CallID, Name: it.start.Name,
			Text: it.args.String()})
		a.queue.End(&it.QueuedItem)
	}
	a.queue.Emit(model.Event{Kind: model.Done, Stop: stop, Reason: reason, Usage: a.usage, RequestID: a.requestID,
		Uncalled: len(a.calls) == 0 && a.text.Len() > 0 && slices.Contains(callReasons, a.finish)})
	return a.queue.Err()
}

// callReasons are the reasons of a model that stopped for the outputs of its calls.
var callReasons = []string{"tool_calls", "tool_use", "tool-calls"}

// endReasons are the other reasons of a model that stopped by itself.
var endReasons = []string{"", "stop", "function_call", "end_turn", "eos", "stop_sequence", "STOP", "completed", "end"}

// unknown returns the reason of a model that stopped for one that is not known.
func (a *assembly) unknown() string {
	if stop, _ := a.stop(); stop != model.StopEnd || slices.Contains(callReasons, a.finish) ||
		slices.Contains(endReasons, a.finish) {
		return ""
	}
	return a.finish
}

// stop maps the reason for which the model stopped. Servers have words of their own for
// a model that stopped by itself or for its calls, and some give none.
func (a *assembly) stop() (model.Stop, error) {
	switch a.finish {
	case "length", "max_tokens", "model_length", "max_output_tokens", "MAX_TOKENS":
		return model.StopMaxTokens, nil
	case "content_filter", "content-filter", "sensitive", "safety", "SAFETY", "refusal":
		return model.StopContentFilter, nil
	case "error", "network_error", "insufficient_system_resource", "abort":
		return "", &model.Error{Kind: model.KindOverloaded, Code: responses.CodeProviderUnavailable,
			Message: fmt.Sprintf("the provider gave up on its answer: %s", a.finish)}
	}
	return model.StopEnd, nil
}
