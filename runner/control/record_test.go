package control_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// Every read model is there, and knows the record to its end.
func TestReadModelsAreOfTheWholeRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	for range 2 {
		must(r.client().Prompt(t.Context(), "", wire.Prompt{Text: "Look."}, ""))(t)
		r.turn("main", "Seen.")
	}
	newest := must(r.client().Events(t.Context(), "", viewAll))(t).NewestSeq
	for _, name := range record.Names() {
		a := r.ask(d, get("/runtime/read/"+name+"?agent_id=main"))
		var head record.Head
		if err := json.Unmarshal([]byte(a.body), &head); err != nil || a.status != 200 {
			t.Fatalf("%s: %d %s %v", name, a.status, a.body, err)
		}
		if head.Model != name || head.ThroughSequence != newest || head.Degraded {
			t.Errorf("%s is %s through %d (degraded: %v), want all %d events", name, head.Model, head.ThroughSequence,
				head.Degraded, newest)
		}
	}
	r.ask(d, get("/runtime/read/everything")).is(t, "an unknown read model", 404, "not_found", "model")
	r.ask(d, get("/runtime/read/queue_snapshot?agent_id=nobody")).is(t, "an unknown agent", 404, "not_found", "agent_id")
}

// A cut of the record stays what it was, whatever happens later.
func TestAnExportOfACutStaysTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	c, ctx := r.client(), t.Context()
	must(c.Prompt(ctx, "", wire.Prompt{Text: "Look."}, ""))(t)
	var first record.Document
	whole := must(c.Export(ctx, "", "evidence", 0))(t)
	expect.NoError(t, json.Unmarshal(whole, &first))
	through := first.Manifest.ThroughSequence
	if through == 0 || int64(len(first.Events)) != through || len(first.ReadModels) != 13 {
		t.Errorf("%d events through %d, and %d read models", len(first.Events), through, len(first.ReadModels))
	}
	r.turn("main", "Seen.")
	if again := must(c.Export(ctx, "main", "evidence", through))(t); string(again) != string(whole) {
		t.Errorf("the cut at %d is now\n%s\nwant\n%s", through, again, whole)
	}
	r.ask(d, get("/runtime/export/everything")).is(t, "an unknown export", 404, "not_found", "kind")
	r.ask(d, get("/runtime/export/review?through=0")).is(t, "a cut before the first", 400, "invalid_value", "through")
	before := r.ask(d, get("/runtime/export/review?through=-1"))
	before.is(t, "a negative cut", 400, "invalid_value", "through")
	if want := fmt.Sprintf("use 1 to %d, or leave through out for all", r.newest()); before.failure.Hint != want {
		t.Errorf("the hint for a negative cut is %q, want %q", before.failure.Hint, want)
	}
	r.ask(d, get("/runtime/export/review?through=x")).is(t, "a bad cut", 400, "invalid_value", "through")
	must(r.store.Prune(ctx, ledger.Retention{MaxEvents: 2}, time.Now(), 1000))(t)
	r.ask(d, get("/runtime/export/review?through=1")).is(t, "a cut that is gone", 400, "invalid_value", "through")
	r.ask(d, post("/runtime/commands/export_evidence", `{"command_id":"a","through":1}`)).
		is(t, "a cut that is gone", 400, "invalid", "through")
	end := r.ask(d, get(fmt.Sprint("/runtime/export/evidence?through=", r.newest())))
	expect.Equal(t, "status of the cut at the end", end.status, 200)
}
