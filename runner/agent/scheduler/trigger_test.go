package scheduler_test

import (
	"testing"
	"time"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// Every public agent has a trigger from its creation, whose token follows from the key: it
// is recorded again, also by another process, and one of another key works and is not shown.
func TestTriggerKey(t *testing.T) {
	w := open(t)
	with := func(key string) *scheduler.Scheduler {
		return scheduler.New(w.store, scheduler.Options{Now: func() time.Time { return w.now },
			TriggerKey: []byte(key)})
	}
	w.m = with("one")
	w.ok(w.m.Create(w.ctx, scheduler.NewAgent{ID: "private", Private: true}))
	w.ok(w.m.Create(w.ctx, scheduler.NewAgent{ID: "gamma"}))
	var had []ledger.Trigger
	w.view(func(v ledger.View) (err error) {
		none, err := v.Triggers("private")
		if err != nil || len(none) != 0 {
			t.Errorf("a private agent has %+v", none)
		}
		had, err = v.Triggers("gamma")
		return err
	})
	if len(had) != 1 || had[0].Revealed {
		t.Fatalf("a new agent has %+v", had)
	}
	seen := map[string]bool{}
	for range 3 { // at one instant, and after the clock went back
		shown, token, err := with("one").RevealTrigger(w.ctx, "gamma")
		if err != nil || shown.ID != had[0].ID || !shown.Revealed || seen[token] {
			t.Fatalf("%+v, %v; a former token: %v", shown, err, seen[token])
		}
		seen[token] = true
		if _, same, err := with("one").EnsureTrigger(w.ctx, "gamma"); same != token || err != nil {
			t.Errorf("revealed %q and %q (%v)", token, same, err)
		}
		if _, other, err := with("two").EnsureTrigger(w.ctx, "gamma"); other != "" || err != nil {
			t.Errorf("with another key: %q (%v)", other, err)
		}
		w.refused(ledger.CodeNotFound, "holon agent trigger rotate gamma")(with("two").RevealTrigger(w.ctx, "gamma"))
		if _, err := with("two").Deliver(w.ctx, scheduler.Delivery{Token: token}); err != nil {
			t.Error(err)
		}
		_, fresh, err := w.m.RotateTrigger(w.ctx, "gamma")
		if err != nil || fresh == token {
			t.Fatal(fresh == token, err)
		}
		w.now = w.now.Add(-time.Second)
	}
	w.ok(w.m.RevokeTrigger(w.ctx, "gamma"))
	w.refused(ledger.CodeNotFound)(w.m.RevealTrigger(w.ctx, "gamma"))
}
