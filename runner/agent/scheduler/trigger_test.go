package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/state/ledger"
	"holon/test/expect"
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
		_, fresh, err := w.m.RotateTrigger(w.ctx, "gamma", "")
		if err != nil || fresh == token {
			t.Fatal(fresh == token, err)
		}
		w.now = w.now.Add(-time.Second)
	}
	w.ok(w.m.RevokeTrigger(w.ctx, "gamma", ""))
	w.refused(ledger.CodeNotFound)(w.m.RevealTrigger(w.ctx, "gamma"))
}

// A trigger with a signature takes only what is verified, each delivery once, and ends for itself.
func TestSignedTrigger(t *testing.T) {
	w := open(t)
	_, plain, err := w.m.EnsureTrigger(w.ctx, "alpha")
	w.must(err)
	id := scheduler.NewTriggerID()
	trg, token, err := w.m.CreateTrigger(w.ctx, scheduler.NewTrigger{ID: id, AgentID: "alpha", Signature: "github"})
	w.must(err)
	if trg.ID != id || trg.Signature != "github" || token == "" || token == plain {
		t.Fatalf("%+v", trg)
	}
	deliver := func(keys ...string) (scheduler.Receipt, error) {
		return w.m.Deliver(w.ctx, scheduler.Delivery{Token: token,
			Verify: func(trg ledger.Trigger) (signature.Delivery, error) {
				if len(keys) == 0 {
					return signature.Delivery{}, &signature.Error{Header: "X-Hub-Signature-256", Message: "it is wrong"}
				}
				return signature.Delivery{Keys: keys, Headers: map[string]string{"X-GitHub-Event": "push"}}, nil
			}})
	}
	w.refused(scheduler.CodeSignature)(deliver())
	w.refused(scheduler.CodeSignature)(w.m.Deliver(w.ctx, scheduler.Delivery{Token: token}))
	w.nothing()
	r, err := deliver("a", "body of a")
	w.must(err)
	expect.Equal(t, "the receipt", r, scheduler.Receipt{AgentID: "alpha", TriggerID: id, Disposition: "triggered"})
	c, _ := w.done()
	contains(t, "the body", string(c.Message.Body.Value), `"headers":{"X-GitHub-Event":"push"}`)
	contains(t, "the body", string(c.Message.Body.Value), `"source":"github"`)
	again, err := deliver("another id", "body of a")
	w.must(err)
	expect.Equal(t, "the receipt of a replay", again, scheduler.Receipt{AgentID: "alpha", TriggerID: id,
		Disposition: "ignored", Replayed: true})
	w.nothing()
	if data := string(w.newest(record.CallbackDelivered).Data); strings.Contains(data, "seen") {
		t.Errorf("the event has the keys of deliveries: %s", data)
	}

	w.refused(ledger.CodeNotFound)(w.m.RevokeTrigger(w.ctx, "alpha", "trg_else"))
	_, fresh, err := w.m.RotateTrigger(w.ctx, "alpha", id)
	w.must(err)
	w.refused(scheduler.CodeTokenUnknown)(deliver("b"))
	token = fresh
	w.ok(w.m.RevokeTrigger(w.ctx, "alpha", id))
	w.refused(scheduler.CodeTokenUnknown)(deliver("b"))
	if _, same, err := w.m.EnsureTrigger(w.ctx, "alpha"); err != nil || same != plain {
		t.Errorf("the trigger without signatures: %v", err)
	}
	for err == nil {
		_, _, err = w.m.CreateTrigger(w.ctx, scheduler.NewTrigger{ID: scheduler.NewTriggerID(), AgentID: "alpha", Signature: "slack"})
	}
	w.refused(scheduler.CodeTriggerLimit)(w.m.CreateTrigger(w.ctx, scheduler.NewTrigger{AgentID: "alpha", Signature: "slack"}))
}
