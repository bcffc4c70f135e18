package openai

import (
	"cmp"
	"encoding/json"
	"slices"

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

func newAssembly(provider string, forms freeform, yield func(model.Event) bool) *assembly {
	return &assembly{provider: provider, forms: forms, queue: endpoint.NewItemQueue(yield),
		byID: make(map[string]*item), byIndex: make(map[int64]*item), calls: make(endpoint.CallIDs)}
}

// Take implements endpoint.Answer: it handles one event. The last is the provider's
// terminal event.
func (a *assembly) Take(data []byte) (last bool, err error) {
	kind := gjson.GetBytes(data, "type").Str
	if kind == "" {
		return false, endpoint.Odd(data)
	}
	if delta := deltaKinds[kind]; delta != 0 {
		id, index, t := readDelta(delta, data)
		it, _ := a.find(id, index)
		a.delta(it, t)
		return false, a.queue.Err()
	}
	index := indexOf(gjson.GetBytes(data, "output_index"))
	var ev sdk.ResponseStreamEventUnion
	if err := json.Unmarshal(data, &ev); err != nil {
		return false, endpoint.Malformed("the provider's %s event cannot be read: %v", kind, err)
	}
	if done := doneKinds[kind]; done != 0 {
		it, _ := a.find(ev.ItemID, index)
		a.whole(it, text{place: placeOf(done, ev.ContentIndex, ev.SummaryIndex),
			whole: ev.Text + ev.Refusal + ev.Arguments + ev.Input})
		return false, a.queue.Err()
	}
	switch kind {
	case "error":
		return false, endpoint.EventError(endpoint.DecodeFailure(data))
	case "response.created":
		a.opened(ev.Response.ID)
	case "response.output_item.added":
		a.added(index, &ev.Item)
	case "response.output_item.done":
		a.ended(index, &ev.Item)
	case "response.output_text.annotation.added":
		a.annotation(index, &ev)
	case responses.EventCompleted, responses.EventIncomplete, responses.EventFailed, "response.done",
		"response.cancelled":
		if !ev.JSON.Response.Valid() {
			return false, endpoint.Malformed("the provider's terminal event has no response")
		}
		return true, a.terminal(kind, &ev.Response)
	}
	return false, a.queue.Err() // servers may add events, of any shape
}

// opened handles the event that begins the answer, which some servers repeat.
func (a *assembly) opened(id string) {
	if id != "" && len(a.begun) > 0 && a.begunAs != "" && id != a.begunAs {
		a.queue.Fail(endpoint.Malformed("the provider began another answer, %.64q, in the middle of one", id))
	}
	a.begunAs = cmp.Or(id, a.begunAs)
}

// terminal handles the event that ends the answer.
func (a *assembly) terminal(kind string, r *sdk.Response) error {
	done := model.Event{Kind: model.Done, Stop: model.StopEnd, RequestID: cmp.Or(r.ID, a.requestID)}
	if r.JSON.Usage.Valid() {
		done.Usage = usageOf(&r.Usage)
		a.asked.Count(done.Usage, true)
	}
	switch {
	case kind == responses.EventFailed, kind == "response.cancelled", r.Status == sdk.ResponseStatusFailed:
		return endpoint.EventError(endpoint.DecodeFailure([]byte(gjson.Get(r.RawJSON(), "error").Raw)))
	case kind == responses.EventIncomplete, r.Status == sdk.ResponseStatusIncomplete:
		if err := a.incomplete(&done, r.IncompleteDetails.Reason); err != nil {
			return err
		}
	default:
		a.output(r.Output)
	}
	a.finish(done.Stop == model.StopEnd)
	a.queue.Emit(done)
	return a.queue.Err()
}

// incomplete ends an answer that the provider left incomplete. For a reason that is not known it counts as whole if all
// of its items are.
func (a *assembly) incomplete(done *model.Event, reason string) error {
	if done.Stop = stopReasons[reason]; done.Stop != "" {
		return nil
	}
	if len(a.begun) == 0 {
		return endpoint.Malformed("the provider left its answer incomplete for the reason %.64q", reason)
	}
	done.Stop, done.Reason = model.StopEnd, cmp.Or(reason, "incomplete")
	for _, it := range a.begun {
		if !it.Ended() && it.kind == call {
			done.Stop = model.StopMaxTokens
		}
	}
	return nil
}

// Whole implements endpoint.Answer: it reads an answer that is one response
// object, and passes on the events that a stream would have had.
func (a *assembly) Whole(data []byte) error {
	var r sdk.Response
	if err := json.Unmarshal(data, &r); err != nil {
		return endpoint.Malformed("the provider's answer cannot be read: %v", endpoint.Unreadable(err))
	}
	if !r.JSON.Output.Valid() && r.Status != sdk.ResponseStatusFailed && r.Status != sdk.ResponseStatusCancelled {
		return endpoint.Odd(data)
	}
	if r.Status == "" && r.JSON.Output.Valid() {
		r.Status = sdk.ResponseStatusCompleted
	}
	switch r.Status {
	case sdk.ResponseStatusCompleted, sdk.ResponseStatusFailed, sdk.ResponseStatusCancelled:
	case sdk.ResponseStatusIncomplete:
		for i := range r.Output {
			// The last item may be incomplete, so a call there is never run.
			if i < len(r.Output)-1 || r.Output[i].Type == responses.ItemMessage {
				a.ended(int64(i), &r.Output[i])
			}
		}
	default:
		return endpoint.Malformed("the provider's answer has the status %.64q", r.Status)
	}
	return a.terminal("response."+string(r.Status), &r)
}

// End implements endpoint.Answer. The mark ends an answer whose items have all ended.
func (a *assembly) End(marked bool) error {
	if !marked || slices.ContainsFunc(a.begun, func(it *item) bool { return !it.Ended() }) {
		return stream.ErrTruncated
	}
	return a.terminal(responses.EventCompleted, &sdk.Response{})
}

// stopReasons are why an answer is incomplete.
var stopReasons = map[string]model.Stop{responses.ReasonMaxOutputTokens: model.StopMaxTokens,
	"max_tokens": model.StopMaxTokens, responses.ReasonContentFilter: model.StopContentFilter}

// output ends the items of a complete answer that are still open, and adds those that a
// server sends only here. Servers leave some out, or list them in another order, so a
// place in the list says little. A thought that was not streamed with the rest is left
// out: what followed from it was passed on already.
func (a *assembly) output(list []sdk.ResponseOutputItemUnion) {
	found := make([]*item, len(list))
	for _, exact := range []bool{true, false} { // servers name nothing, or anew in each event
		for i := range list {
			if found[i] == nil {
				found[i] = a.listed(&list[i], exact)
			}
		}
	}
	streamed := len(a.begun) > 0
	for i, it := range found {
		if it == nil && !(streamed && list[i].Type == responses.ItemReasoning) {
			it = a.begin(&list[i])
		}
		a.end(it, &list[i])
	}
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
func (a *assembly) finish(complete bool) {
	for _, it := range a.begun {
		if it.Ended() {
			continue
		}
		a.endPart(it)
		switch {
		case !complete:
		case it.kind == reasoning:
			a.endReasoning(it, "")
		case it.kind == call:
			a.endCall(it)
		}
		a.queue.End(&it.QueuedItem)
	}
}
