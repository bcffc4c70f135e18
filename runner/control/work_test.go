package control_test

import (
	"testing"

	"holon/runner/control"
	"holon/state/ledger"
	"holon/test/expect"
)

// Events of what an operator does say by whom, by which way and how admitted it was done.
func TestProvenanceOfOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	seen := int64(0)
	for _, c := range []struct {
		request
		via ledger.AdmissionContext
	}{
		{post("/control/agents/main/work-items", `{"objective":"tidy up"}`), ledger.LocalProcess},
		{request{method: "POST", path: "/control/agents/main/work-items", body: `{"objective":"x"}`, tcp: true},
			ledger.ControlAuthenticated},
		{post("/control/agents/main/control", `{"action":"stop"}`), ledger.LocalProcess},
	} {
		page := ledger.EventPage{}
		events := func() {
			t.Helper()
			r.look(func(v ledger.View) (err error) {
				page, err = v.Events("main", ledger.EventQuery{After: seen, Limit: 100})
				return err
			})
			seen = page.Newest
		}
		events()
		expect.Equal(t, c.path, r.ask(d, c.request).status, 200)
		if events(); len(page.Events) == 0 {
			t.Errorf("%s: there is no event", c.path)
		}
		for _, e := range page.Events {
			if e.From == nil {
				t.Errorf("%s: %s has no provenance", c.path, e.Class)
				continue
			}
			if e.MessageID != "" { // the tick that follows has that of its message
				continue
			}
			from := *e.From
			from.WorkItemID = ""
			expect.Equal(t, e.Class, from, ledger.Provenance{
				Origin: ledger.Origin{Kind: ledger.OriginOperator, ActorID: "operator"}, Trust: ledger.TrustedOperator,
				Authority: ledger.OperatorInstruction, Surface: ledger.SurfaceControlPrompt, AdmissionContext: c.via})
		}
	}
}
