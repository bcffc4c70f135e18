package openai

import (
	"cmp"
	"encoding/json"

	sdk "github.com/openai/openai-go/v3/responses"
	"github.com/tidwall/gjson"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
	"holon/responses/stream"
)

// assembly turns a provider's events into ours. The provider numbers its items and
// may interleave them; ours come one after the other. Content that a server sends
// only at the end of a text, an item or the answer is passed on then.
type assembly struct {
	provider  string
	asked     model.Request
	forms     freeform
	requestID string
	begunAs   string // id of the answer

	queue   *endpoint.ItemQueue
	byID    map[string]*item // nil for those that are ignored
	byIndex map[int64]*item  // likewise: the newest with an index
	seen    int              // items
	begun   []*item          // in order of their beginning
	calls   endpoint.CallIDs
}

var (
	_ endpoint.Ender       = (*assembly)(nil)
	_ endpoint.WholeReader = (*assembly)(nil)
)

func newAssembly(provider string, forms freeform, yield func(model.Event) bool) *assembly {
	return &assembly{provider: provider, forms: forms, queue: endpoint.NewItemQueue(yield),
		byID: make(map[string]*item), byIndex: make(map[int64]*item), calls: make(endpoint.CallIDs)}
}

// Take implements endpoint.Answer: it handles one event. The last is the provider's
// terminal event.
func (a *assembly) Take(data []byte) (last bool, err error) {
	kind := gjson.GetBytes(data, "type").Str
	if kind == "" || !gjson.ValidBytes(data) {
		return false, endpoint.Malformed("the provider sent an event that is not a JSON object with a type")
	}
	if delta := deltaKinds[kind]; delta != 0 {
		id, index, t := readDelta(delta, data)
		it, _ := a.find(id, index)
		return false, a.delta(it, t)
	}
	var ev sdk.ResponseStreamEventUnion
	if err := json.Unmarshal(data, &ev); err != nil {
		return false, endpoint.Malformed("the provider's %s event cannot be read: %v", kind, err)
	}
	if done := doneKinds[kind]; done != 0 {
		it, _ := a.find(ev.ItemID, ev.OutputIndex)
		return false, a.whole(it, text{place: placeOf(done, ev.ContentIndex, ev.SummaryIndex),
			whole: ev.Text + ev.Refusal + ev.Arguments + ev.Input})
	}
	switch kind {
	case "error":
		err = endpoint.EventError(endpoint.DecodeFailure(data))
	case "response.created":
		err = a.opened(ev.Response.ID)
	case "response.output_item.added":
		_, err = a.added(ev.OutputIndex, &ev.Item)
	case "response.output_item.done":
		err = a.ended(ev.OutputIndex, &ev.Item)
	case "response.output_text.annotation.added":
		err = a.annotation(&ev)
	case responses.EventCompleted, responses.EventIncomplete, responses.EventFailed:
		if !ev.JSON.Response.Valid() {
			return false, endpoint.Malformed("the provider's terminal event has no response")
		}
		return true, a.terminal(kind, &ev.Response)
	}
	return false, err // servers may add events, of any shape
}

// opened handles the event that begins the answer, which some servers repeat.
func (a *assembly) opened(id string) error {
	if id != "" && len(a.begun) > 0 && a.begunAs != "" && id != a.begunAs {
		return endpoint.Malformed("the provider began another answer, %.64q, in the middle of one", id)
	}
	a.begunAs = cmp.Or(id, a.begunAs)
	return nil
}

// terminal handles the event that ends the answer.
func (a *assembly) terminal(kind string, r *sdk.Response) error {
	done := model.Event{Kind: model.Done, Stop: model.StopEnd, RequestID: cmp.Or(r.ID, a.requestID)}
	if r.JSON.Usage.Valid() {
		done.Usage = usageOf(&r.Usage)
		a.asked.Count(done.Usage, true)
	}
	var err error
	switch kind {
	case responses.EventFailed:
		return endpoint.EventError(endpoint.DecodeFailure([]byte(r.RawJSON())))
	case responses.EventIncomplete:
		done.Stop, err = stopReason(r.IncompleteDetails.Reason)
	default:
		err = a.output(r.Output)
	}
	if err != nil {
		return err
	}
	if err := a.finish(kind == responses.EventCompleted); err != nil {
		return err
	}
	return a.queue.Emit(done)
}

// Whole implements endpoint.WholeReader: it reads an answer that is one response
// object, and passes on the events that a stream would have had.
func (a *assembly) Whole(data []byte) error {
	var r sdk.Response
	if err := json.Unmarshal(data, &r); err != nil {
		return endpoint.Malformed("the provider's answer cannot be read: %v", endpoint.Unreadable(err))
	}
	switch r.Status {
	case sdk.ResponseStatusCompleted, sdk.ResponseStatusFailed:
	case sdk.ResponseStatusIncomplete:
		for i := range r.Output {
			// The last item may be incomplete, so a call there is never run.
			if i == len(r.Output)-1 && r.Output[i].Type != responses.ItemMessage {
				break
			}
			if err := a.ended(int64(i), &r.Output[i]); err != nil {
				return err
			}
		}
	default:
		return endpoint.Malformed("the provider's answer has the status %.64q", r.Status)
	}
	return a.terminal("response."+string(r.Status), &r)
}

// End implements endpoint.Ender. The mark alone ends an answer without content, which
// was not cut off.
func (a *assembly) End(marked bool) error {
	if !marked || a.seen > 0 {
		return stream.ErrTruncated
	}
	return a.terminal(responses.EventCompleted, &sdk.Response{})
}

// stopReason returns why an answer is incomplete.
func stopReason(reason string) (model.Stop, error) {
	switch reason {
	case responses.ReasonMaxOutputTokens, "max_tokens":
		return model.StopMaxTokens, nil
	case responses.ReasonContentFilter:
		return model.StopContentFilter, nil
	}
	return "", endpoint.Malformed("the provider left its answer incomplete for the reason %.64q", reason)
}

// output ends the items of a complete answer that are still open, and adds those that a
// server sends only here. Servers leave some out, or list them in another order, so a
// place in the list says little. A thought that was not streamed with the rest is left
// out: what followed from it was passed on already.
func (a *assembly) output(list []sdk.ResponseOutputItemUnion) error {
	found := make([]*item, len(list))
	for _, exact := range []bool{true, false} { // servers name nothing, or anew in each event
		for i := range list {
			if found[i] == nil {
				found[i] = a.listed(&list[i], exact)
			}
		}
	}
	streamed := len(a.begun) > 0
	for i := range list {
		it := found[i]
		if it == nil {
			if streamed && list[i].Type == responses.ItemReasoning {
				continue
			}
			var err error
			if it, err = a.begin(&list[i]); err != nil {
				return err
			}
		}
		if err := a.end(it, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the first item that is w and was not returned before, nil for none.
func (a *assembly) listed(w *sdk.ResponseOutputItemUnion, exact bool) *item {
	for _, it := range a.begun {
		if it.kind != kindOfItem(w) || it.listed {
			continue
		}
		if !exact || w.ID != "" && w.ID == it.began.ID || w.CallID != "" && w.CallID == it.began.CallID {
			it.listed = true
			return it
		}
	}
	return nil
}

// finish ends the items that the provider did not end. Calls among them are
// complete, and run, only in a complete answer.
func (a *assembly) finish(complete bool) error {
	for _, it := range a.begun {
		if it.Ended() {
			continue
		}
		err := a.endPart(it)
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
