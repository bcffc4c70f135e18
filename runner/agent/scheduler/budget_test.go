package scheduler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// What the turns of a tree take is taken of one account. When it is spent all of the tree pauses, messages stay in
// their queues, and the operator is notified once; a larger budget lets it go on.
func TestTreeBudget(t *testing.T) {
	w := open(t)
	most := int64(1000)
	_, err := w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	one, two := w.spawn("alpha", "1", "one").Agent.ID, w.spawn("alpha", "2", "two").Agent.ID
	spend := func(id string, tokens int64, e scheduler.End) {
		t.Helper()
		a, ok := w.openAttempt(id)
		expect.Equal(t, id+" has a turn", ok, true)
		e.Spent.Tokens = tokens
		w.settle(a.ID, e)
		w.check()
	}
	spend("alpha", 400, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
	delete(w.running, "alpha")
	for _, id := range []string{one, two} {
		w.must(w.begin(id, false))
		delete(w.running, id)
	}
	// The gateway ends the turn that would go beyond the budget, and it comes back.
	cut := scheduler.End{Lost: true, Suspended: true, Turn: ledger.Turn{ResponseID: "resp_1"}}
	cut.Spent.Bound = "tokens" // with what the other one takes
	spend(one, 500, cut)
	expect.Equal(t, "spent at once", get(w, ledger.View.AgentState, "alpha").Tree.Spent, "tokens")
	spend(two, 300, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "done"}})
	root := get(w, ledger.View.AgentState, "alpha").Tree
	expect.Equal(t, "tokens", root.Tokens, 1200)
	var costs []string
	_, events := w.events(0)
	for _, e := range events {
		if e.Class == turns.CostRecorded {
			var cost struct {
				Agent  string `json:"agent_id"`
				Budget ledger.TreeAccount
			}
			expect.NoError(t, json.Unmarshal(e.Data, &cost))
			expect.Equal(t, "a turn is named", e.TurnID != "", cost.Agent == "alpha")
			costs = append(costs, fmt.Sprintf("%s %d", cost.Agent, cost.Budget.Tokens))
		}
	}
	expect.Equal(t, "costs of the tree", strings.Join(costs, ", "), "alpha 400, "+one+" 900, "+two+" 1200")
	expect.Equal(t, "spent", root.Spent, "tokens")
	w.admit(prompt("anyone?"))
	for _, id := range []string{"alpha", one} {
		if c, ok, err := w.m.Claim(w.ctx, id); ok || err != nil {
			t.Errorf("%s claims %s though the budget is spent (%v)", id, c.Message.ID, err)
		}
		w.view(func(v ledger.View) error {
			blocked, err := v.BlockedEntries(id)
			for _, e := range blocked {
				expect.Equal(t, "code", e.Code, rules.CodeBudgetSpent)
			}
			expect.Equal(t, id+" keeps messages", len(blocked) > 0, true)
			return err
		})
	}
	expect.Equal(t, "notifications", len(w.notifications()), 1)
	w.newest(record.Class(record.BudgetSpent))
	w.check()

	most = 5000
	now, err := w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	expect.Equal(t, "spent", now.Spent, "")
	w.must(w.begin(one, false))
	w.must(w.finish(one, false))
	w.drain()
	expect.Equal(t, "children that go on", len(w.live()), 0)
	wrong := int64(-1)
	_, err = w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &wrong})
	w.refused(scheduler.CodeInvalidAgent)(err)
}

func (w *world) openAttempt(id string) (a ledger.Attempt, ok bool) {
	w.view(func(v ledger.View) (err error) {
		a, ok, err = v.OpenAttempt(id)
		return err
	})
	return a, ok
}

// Nothing of a tree is begun or claimed once its account is spent: what was claimed before that is given back, and a
// turn that runs goes on, since the gateway bounds it.
func TestSpentBeforeBegun(t *testing.T) {
	w := open(t)
	most := int64(1000)
	_, err := w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	runs, waits := w.spawn("alpha", "1", "one").Agent.ID, w.spawn("alpha", "2", "two").Agent.ID
	w.must(w.begin(runs, false))
	c, ok, err := w.m.Claim(w.ctx, waits)
	expect.NoError(t, err)
	expect.Equal(t, "claimed", ok, true)

	a, _ := w.openAttempt("alpha")
	end := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}}
	end.Spent.Tokens = 1000
	w.settle(a.ID, end)
	delete(w.running, "alpha")
	running, _ := w.openAttempt(runs)
	expect.Equal(t, "the turn that runs", running.Suspended, "")
	expect.Equal(t, "the claim", get(w, ledger.View.Attempt, c.Attempt.ID).Suspended, rules.CodeBudgetSpent)
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true})
	if again, ok, err := w.m.Claim(w.ctx, waits); ok || err != nil {
		t.Errorf("%s is claimed though the budget is spent (%v)", again.Message.ID, err)
	}
	w.check()
	most = 5000
	_, err = w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	w.must(w.begin(waits, false))
	w.check()
	most = 10 // below what was taken
	_, err = w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	begun, _ := w.openAttempt(waits)
	expect.Equal(t, "a begun turn", begun.Suspended, "")
}

// A budget below what is taken already pauses at once, and says so.
func TestBudgetBelowWhatIsTaken(t *testing.T) {
	w := open(t)
	w.admit(prompt("go on"))
	w.must(w.begin("alpha", false))
	a, _ := w.openAttempt("alpha")
	e := scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}}
	e.Spent.Tokens = 500
	w.settle(a.ID, e)
	most := int64(100)
	for range 2 {
		account, err := w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
		expect.NoError(t, err)
		expect.Equal(t, "spent", account.Spent, "tokens")
	}
	expect.Equal(t, "notifications", len(w.notifications()), 1)
}

// A tree pauses for a bound of the host, and for one of the settings, and goes on when neither is reached any more. The
// operator is notified each time, once.
func TestBudgetOfHostAndSettings(t *testing.T) {
	w := open(t)
	bounds := ledger.TreeBounds{}
	w.m = scheduler.New(w.store, scheduler.Options{Owner: "boot_1", Now: func() time.Time { return w.now },
		Bounds: func() ledger.TreeBounds { return bounds }})
	spent := func() string { return get(w, ledger.View.AgentState, "alpha").Tree.Spent }
	look := func(host, want string) {
		t.Helper()
		expect.NoError(t, w.m.LookAtBudget(w.ctx, "alpha", host))
		expect.Equal(t, "spent", spent(), want)
	}
	w.admit(prompt("go on"))
	w.must(w.begin("alpha", false))
	a, _ := w.openAttempt("alpha")
	e := scheduler.End{Lost: true, Suspended: true, Turn: ledger.Turn{ResponseID: "resp_1"}}
	e.Spent = scheduler.Spending{Spent: state.Spent{Cost: 7, Estimated: true, ListPricesOf: "2026-11-06"}, Tokens: 500,
		Bound: "day_cost", Metered: true}
	w.settle(a.ID, e)
	delete(w.running, "alpha")
	expect.Equal(t, "spent", spent(), "day_cost")
	expect.Equal(t, "cost", get(w, ledger.View.AgentState, "alpha").Tree.Money().String(),
		"~0.000007 (list prices of 2026-11-06)")
	var charged map[string]any
	expect.NoError(t, json.Unmarshal(w.newest("cost.recorded").Data, &charged))
	for field, want := range map[string]any{"amount": 0.000007, "price_source": "list of 2026-11-06", "tokens": 500.,
		"counted_by": "gateway", "estimated": true} {
		expect.Equal(t, field, charged[field], want)
	}
	w.admit(prompt("anyone?"))
	if c, ok, err := w.m.Claim(w.ctx, "alpha"); ok || err != nil {
		t.Errorf("%s is claimed though the budget is spent (%v)", c.Message.ID, err)
	}
	most := int64(9000)
	_, err := w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	expect.Equal(t, "spent", spent(), "day_cost")
	look("day_cost", "day_cost")
	look("", "") // it is another day
	most = 0
	_, err = w.m.SetBudget(w.ctx, "alpha", "operator", scheduler.Budget{MaxTokens: &most})
	expect.NoError(t, err)
	bounds.MaxTokens = 500
	look("", "tokens")
	bounds.MaxTokens = 501
	look("", "")
	expect.Equal(t, "notifications", len(w.notifications()), 2)
	w.must(w.begin("alpha", false))
	w.check()
}
