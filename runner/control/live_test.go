package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// A reader gets what the agent writes in the turn of its message, from the beginning, and nothing of other turns.
func TestLive(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	say := func(turn, message, item, text string) {
		w := r.host.board.Writer("main", turn, message, nil)
		m := &responses.Message{ID: item, Role: responses.RoleAssistant}
		w.Event(responses.Event{Type: responses.EventItemAdded, Item: m})
		for _, c := range text {
			w.Event(responses.Event{Type: responses.EventTextDelta, Delta: string(c)})
		}
		w.Event(responses.Event{Type: responses.EventItemDone, Item: m})
	}
	say("turn_1", "msg_1", "item_1", "not for this reader")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan struct{})
	text, ended := "", make(chan struct{})
	go func() {
		defer close(ended)
		c := r.client()
		close(begun)
		c.Live(ctx, "main", "msg_2", func(l wire.Live) {
			if l.MessageID != "msg_2" || l.TurnID != "turn_2" || l.ItemID != "item_2" || l.Offset != len(text) {
				t.Errorf("after %q: %+v", text, l)
			}
			if text += l.Text; l.Done {
				cancel()
			}
		})
	}()
	<-begun
	say("turn_2", "msg_2", "item_2", "word for word")
	<-ended
	expect.Equal(t, "the reader has", text, "word for word")
	if a := r.ask(r.described(), get("/agents/nobody/live")); a.status != http.StatusNotFound {
		t.Errorf("an unknown agent: %d, want 404", a.status)
	}
	if a := r.ask(r.described(), get("/agents/main/live?x=1")); a.status != http.StatusBadRequest {
		t.Errorf("an unknown key: %d, want 400", a.status)
	}
}

// A reader whose cursor is not followed by an event is told where it goes on, once, by a page and by a stream.
func TestGapsOfTheRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	newest := r.say("main", "one", "")
	if _, err := r.store.Prune(t.Context(), ledger.Retention{MaxEvents: 2}, time.Now(), 1000); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[int64]view.RecordGap{
		0:          {After: 0, Next: newest - 1, Reason: "cursor_pruned"},
		newest + 7: {After: newest + 7, Next: newest + 1, Reason: "cursor_ahead"},
	} {
		path := fmt.Sprint("/runtime/events?agent_id=main&after=", after)
		var page view.RecordPage
		if err := json.Unmarshal([]byte(r.ask(r.described(), get(path)).body), &page); err != nil || page.Gap == nil ||
			*page.Gap != want {
			t.Errorf("after %d: the page has the gap %v (%v), want %v", after, page.Gap, err, want)
		}
		in := r.stream(path, map[string]string{"Accept": "text/event-stream"})
		lines := in.told()
		data, _ := json.Marshal(want)
		if !slices.Contains(lines, "event: gap") || !slices.Contains(lines, "data: "+string(data)) {
			t.Errorf("after %d: the stream begins with %q, want the gap %s", after, lines, data)
		}
	}
}

// A stream of the record has each event once, from where its reader was, and goes on with what is recorded.
func TestStreamOfRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	const path = "/runtime/events?agent_id=main&after="
	next := func(in *reader, want int64) {
		t.Helper()
		var ev struct {
			Sequence int64 `json:"sequence"`
		}
		lines := in.told()
		data, _ := strings.CutPrefix(lines[len(lines)-1], "data: ")
		if err := json.Unmarshal([]byte(data), &ev); err != nil || ev.Sequence != want ||
			lines[0] != fmt.Sprint("id: ", want) {
			t.Fatalf("%q (%v), want event %d", lines, err, want)
		}
	}
	sse := map[string]string{"Accept": "text/event-stream"}
	in := r.stream(path+"0", sse)
	seq := r.say("main", "one", "")
	for want := int64(1); want <= seq; want++ {
		next(in, want)
	}
	seq2 := r.say("main", "two", "") // while it is read
	for want := seq + 1; want <= seq2; want++ {
		next(in, want)
	}
	again := r.stream(path+"0", map[string]string{"Accept": "text/event-stream", "Last-Event-ID": fmt.Sprint(seq)})
	next(again, seq+1)
	for _, bad := range []string{"-1", "x", "1e3", "99999999999999999999"} {
		a := r.ask(r.described(), request{method: "GET", path: path + bad, header: sse})
		if a.status != http.StatusBadRequest {
			t.Errorf("after %s: %d, want 400", bad, a.status)
		}
	}
}
