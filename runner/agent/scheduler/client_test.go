package scheduler_test

import (
	"testing"

	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// ofClient is a message of a client that goes on from a response.
func ofClient(text, previous string) ledger.Message {
	in := prompt(text)
	in.Surface, in.AdmissionContext = ledger.SurfaceOpenResponses, ledger.ControlAuthenticated
	in.Previous, in.Request = previous, []byte(`{"input":"x"}`)
	return in
}

// A response has one end: the message of a client does not come back after a turn of it was lost or suspended, and
// comes back while none was begun.
func TestAClientsMessageHasOneTurn(t *testing.T) {
	for name, end := range map[string]scheduler.End{"lost": {Lost: true}, "suspended": {Lost: true, Suspended: true}} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			id := w.admit(ofClient("hi", "")).MessageID
			c := w.claim()
			w.settle(c.Attempt.ID, scheduler.End{NotBegun: true})
			expect.Equal(t, "before a turn", w.entry(id).Status, ledger.Queued)
			c = w.claim()
			w.ok(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
			end.Events = 7
			s := w.settle(c.Attempt.ID, end)
			expect.Equal(t, "after it", w.entry(id).Status, ledger.Interrupted)
			expect.Equal(t, "events", s.Turn.Events, 7)
			w.nothing()
		})
	}
}

// A client goes on from the last response of the agent and from no other, and not past what comes first.
func TestAClientGoesOnFromTheLastResponse(t *testing.T) {
	w := open(t)
	refused := func(what, previous string) {
		t.Helper()
		_, err := w.m.Admit(w.ctx, ofClient(what, previous))
		if !state.IsCode(err, scheduler.CodeNotLast) {
			t.Errorf("%s: %v, want %s", what, err, scheduler.CodeNotLast)
		}
	}
	w.admit(ofClient("hi", ""))
	c := w.claim()
	refused("while it runs", "resp_1")
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, ResponseID: "resp_1"}})
	refused("an older one", "resp_0")
	w.admit(ofClient("more", "resp_1"))
	refused("behind another message", "resp_1")
}
