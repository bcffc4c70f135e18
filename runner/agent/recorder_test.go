package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"holon/internal/redact"
	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
	"holon/test/expect"
)

// What the model said is in the record between the request and its end, each message and each fact once, also when a
// killed process recorded a part.
func TestRecorded(t *testing.T) {
	t.Parallel()
	message := func(n int64, id string) responses.Event {
		return responses.Event{Type: responses.EventItemDone, SequenceNumber: n, Item: &responses.Message{ID: id,
			Role:    responses.RoleAssistant,
			Content: []responses.Part{{Type: responses.PartOutputText, Text: "text of " + id}}}}
	}
	fact := func(n int64, class string) turns.RuntimeEvent {
		return turns.RuntimeEvent{Type: class, Sequence: n, ModelRequestID: "mreq_1", Payload: json.RawMessage(`{}`)}
	}
	asked, ended, task := fact(1, turns.ModelRequested), fact(2, turns.ModelCompleted), fact(3, turns.TaskStarted)
	begun := responses.Event{Type: responses.EventItemAdded, SequenceNumber: 0, Item: &responses.Message{ID: "c",
		Role: responses.RoleAssistant}}
	delta := func(n int64, text string) responses.Event {
		return responses.Event{Type: responses.EventTextDelta, SequenceNumber: n, Delta: text}
	}
	cut := []any{asked, begun, delta(1, "half "), delta(2, "of it"), fact(2, turns.ModelFailed), message(3, "c")}
	all := []any{asked, message(0, "a"), message(1, "b"), ended, task}
	for name, c := range map[string]struct {
		come    []any
		attempt ledger.Attempt
		want    string
	}{
		"all": {all, ledger.Attempt{}, "model.requested text of a text of b model.completed"},
		"twice": {append(all, asked, message(0, "a"), ended), ledger.Attempt{},
			"model.requested text of a text of b model.completed"},
		"recorded":  {all, ledger.Attempt{Facts: 2, Items: 2}, ""},
		"in part":   {all, ledger.Attempt{Facts: 1, Items: 1}, "text of b model.completed"},
		"cut":       {cut, ledger.Attempt{}, "model.requested half of it model.failed"},
		"cut again": {cut, ledger.Attempt{Facts: 2}, ""},
		"text only": {[]any{message(0, "a")}, ledger.Attempt{Items: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{Runtime: &Runtime{cfg: Config{Now: time.Now}}, attempt: c.attempt}
			for _, x := range c.come {
				switch x := x.(type) {
				case responses.Event:
					rec.event(x)
				case turns.RuntimeEvent:
					rec.fact(x)
				}
			}
			var got []string
			for _, p := range rec.pending {
				if p.Event.Class != record.ModelDelta {
					got = append(got, p.Event.Class)
					continue
				}
				var said record.Text
				expect.NoError(t, json.Unmarshal(p.Event.Data, &said))
				got = append(got, said.Delta)
				if ids := p.Event.IDs; ids[agentruntime.ModelRequest] != "mreq_1" || ids[agentruntime.Step] != said.ItemID {
					t.Errorf("%s is of %v, want its request and its item", said.Delta, ids)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("the record is\n%s\nwant\n%s", s, c.want)
			}
		})
	}
}

// What a model writes is shown in whole characters without known secrets, until it is complete or its turn ends.
func TestWriting(t *testing.T) {
	t.Parallel()
	secrets := new(redact.Set)
	secrets.Add("key", "secret-value-of-a-key")
	var w writing
	item := &responses.Message{ID: "item_1", Role: responses.RoleAssistant}
	for _, step := range []struct {
		ev         responses.Event
		item, text string
	}{
		{responses.Event{Type: responses.EventTextDelta, Delta: "x"}, "", ""},
		{responses.Event{Type: responses.EventItemAdded, Item: item}, "item_1", ""},
		{responses.Event{Type: responses.EventTextDelta, Delta: "I beg \xc3"}, "item_1", "I beg "},
		{responses.Event{Type: responses.EventTextDelta, Delta: "\xa9 secret-value-of-a-key."}, "item_1",
			"I beg \u00e9 [redacted]."},
		{responses.Event{Type: responses.EventItemDone, Item: item}, "", ""},
	} {
		w.apply(step.ev, secrets)
		if got := string(w.whole()); w.itemID != step.item || got != step.text {
			t.Errorf("after %s %q: %q of %q, want %q of %q", step.ev.Type, step.ev.Delta, got, w.itemID, step.text, step.item)
		}
	}
	var all writings
	_, changed := all.look("a")
	all.show("a", record.Writing{ItemID: "item_1"})
	<-changed
	if now, _ := all.look("a"); now.ItemID != "item_1" {
		t.Errorf("%+v is shown", now)
	}
}
