package sessions

import (
	"context"
	"slices"
	"testing"

	"holon/runner"
	"holon/runner/engine"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// cluster is an engine that has containers of other homes alone.
type cluster struct {
	engine.Engine
	others  []engine.Summary
	removed []string
}

func (c *cluster) Others(_ context.Context, labels map[string]string) (list []engine.Summary, err error) {
	for _, o := range c.others {
		if o.Labels[runner.LabelLedger] == labels[runner.LabelLedger] {
			list = append(list, o)
		}
	}
	return list, nil
}

func (c *cluster) Remove(_ context.Context, h engine.Handle) error {
	c.removed = append(c.removed, h.Name)
	return nil
}

// A process removes what other homes made under leases that it took from them, and nothing of a process that has its
// lease, of another ledger, or of a run.
func TestClaim(t *testing.T) {
	conversation := OfConversation(state.NewConversationID())
	fences := func(n int64, leases ...string) func(string) int64 {
		return func(lease string) int64 {
			if slices.Contains(leases, lease) {
				return n
			}
			return 0
		}
	}
	dead := &Claim{Ledger: "a", Fence: fences(5, "main", "ada", ledger.SessionsLease)}
	living := &Claim{Ledger: "a", Fence: fences(9, "bob", "main")}
	c := &cluster{}
	made := func(name string, by *Claim, key Key) {
		labels := (&Manager{Claim: by}).labels(key, map[string]string{"other": "label"})
		expect.Equal(t, "another label", labels["other"], "label")
		c.others = append(c.others, engine.Summary{Handle: engine.Handle{Name: name}, Labels: labels})
	}
	made("main", dead, OfAgent("main"))
	made("child of main", dead, OfAgent("main"+state.ChildMark+"1"))
	made("ada", dead, OfAgent("ada"))
	made("session", dead, conversation)
	made("of another ledger", &Claim{Ledger: "b", Fence: dead.Fence}, OfAgent("main"))
	made("run", nil, OfRun(state.NewRunID()))
	made("living", living, OfAgent("bob"))
	made("main of its next holder", living, OfAgent("main"))

	next := &Claim{Ledger: "a", Fence: fences(7, "main", "bob", ledger.SessionsLease)}
	expect.NoError(t, next.Sweep(t.Context(), c))
	slices.Sort(c.removed)
	if want := []string{"child of main", "main", "session"}; !slices.Equal(c.removed, want) {
		t.Errorf("removed %q, want %q", c.removed, want)
	}
	expect.NoError(t, (*Claim)(nil).Sweep(t.Context(), c))
	expect.Equal(t, "removed without a claim", len(c.removed), 3)
}
