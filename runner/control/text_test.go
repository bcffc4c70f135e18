package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// A reader gets what the model writes between the events, without a number, as far as it is not an event yet.
func TestTextOnTheStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	first := r.say("main", "one", "")
	write := func(item, text string) {
		r.host.show(record.Writing{TurnID: "turn_1", MessageID: "msg_1", ItemID: item, Text: []byte(text)})
	}
	write("item_1", "word ")
	s := r.stream(fmt.Sprint("/agents/main/events/stream?after_seq=", first-1), nil)
	s.control()
	next := func(offset int, want string) {
		t.Helper()
		var got wire.Text
		lines := s.next()
		if len(lines) != 2 || lines[0] != "event: "+wire.StreamText {
			t.Fatalf("%q, want text", lines)
		}
		expect.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines[1], "data: ")), &got))
		expect.Equal(t, "text", got, wire.Text{Type: wire.StreamText, TurnID: "turn_1", MessageID: "msg_1", ItemID: "item_1",
			Offset: offset, Text: want})
	}
	if lines := s.next(); lines[0] != fmt.Sprint("id: ", first) {
		t.Fatalf("%q, want the event before the text", lines)
	}
	next(0, "word ")
	write("item_1", "word for word")
	next(5, "for word")
	write("", "")
	second := r.say("main", "two", "")
	if lines := s.next(); lines[0] != fmt.Sprint("id: ", second) {
		t.Fatalf("%q, want the next event", lines)
	}
}

// A reader whose cursor is not followed by an event is told where it goes on, once, by a page and by a stream.
func TestGapsOfTheRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	newest := r.say("main", "one", "")
	must(r.store.Prune(t.Context(), ledger.Retention{MaxEvents: 2}, time.Now(), 1000))(t)
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
		expect.Equal(t, "after "+bad, a.status, http.StatusBadRequest)
	}
}
