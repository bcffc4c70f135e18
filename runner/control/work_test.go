package control_test

import (
	"testing"

	"holon/runner/agent/record"
	"holon/runner/control"
	"holon/state/ledger"
	"holon/test/expect"
)

// Events of what an operator does with work items say by whom, by which way and how admitted it was done.
func TestProvenanceOfOperatorsWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	for via, q := range map[ledger.AdmissionContext]request{
		ledger.LocalProcess: post("/control/agents/main/work-items", `{"objective":"tidy up"}`),
		ledger.ControlAuthenticated: {method: "POST", path: "/control/agents/main/work-items", tcp: true,
			body: `{"objective":"x"}`},
	} {
		expect.Equal(t, string(via), r.ask(d, q).status, 200)
		r.look(func(v ledger.View) error {
			page, err := v.Events("main", ledger.EventQuery{Descending: true, Limit: 10})
			expect.NoError(t, err)
			for _, e := range page.Events {
				if record.Of(e).Name != record.WorkItemWritten {
					continue
				}
				from := *e.From
				from.WorkItemID = ""
				expect.Equal(t, "provenance", from, ledger.Provenance{
					Origin: ledger.Origin{Kind: ledger.OriginOperator, ActorID: "operator"}, Trust: ledger.TrustedOperator,
					Authority: ledger.OperatorInstruction, Surface: ledger.SurfaceControlPrompt, AdmissionContext: via})
				return nil
			}
			t.Error("no event of the item")
			return nil
		})
	}
}
