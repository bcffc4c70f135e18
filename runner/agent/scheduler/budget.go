package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
	"holon/state/ledger"
)

// Spending is what a turn took of the account of its tree.
type Spending struct {
	state.Spent
	Tokens  int64
	Metered bool // by the gateway
	// Bound is the one for which the turn was cut, with what other turns take that run, as TreeAccount.Spent has it. "":
	// it was not.
	Bound string
}

// Budget is a change of the account of a tree; nil fields stay.
type Budget struct {
	MaxTokens     *int64
	MaxCost       *state.Amount
	MaxContainers *int
}

// SetBudget bounds what an agent and all private agents below it may take together. A tree that was paused goes on if
// it may now.
func (m *Scheduler) SetBudget(ctx context.Context, agentID, by string, b Budget) (a ledger.TreeAccount, err error) {
	for name, n := range map[string]int64{"max_tokens": deref(b.MaxTokens), "max_cost_micros": int64(deref(b.MaxCost)),
		"max_containers": int64(deref(b.MaxContainers))} {
		if n < 0 {
			return a, refused(CodeInvalidAgent, name, "use 0 for no bound", "a bound is not negative")
		}
	}
	err = m.liveStep(ctx, agentID, func(s *step) error {
		t := s.state.Tree
		set(&t.MaxTokens, b.MaxTokens)
		set(&t.MaxCost, b.MaxCost)
		set(&t.MaxContainers, b.MaxContainers)
		if !t.SpentByHost() {
			t.Spent = s.bounded(t).Reached()
		}
		s.rebound(t, by)
		a = s.bounded(t)
		return nil
	})
	return a, err
}

// LookAtBudget lets the tree of an agent go on that was paused for a bound that is not reached any more: it is another
// day, or a setting was changed. It pauses one for a bound that is reached by now. host is the bound of the host that
// is reached, "" for none.
func (m *Scheduler) LookAtBudget(ctx context.Context, agentID, host string) error {
	return m.step(ctx, agentID, func(s *step) error {
		t := s.state.Tree
		own := s.bounded(t).Reached()
		if t.SpentByHost() {
			own = cmp.Or(own, host)
		}
		if t.Spent = own; t.Spent != s.state.Tree.Spent {
			s.rebound(t, "runtime")
		}
		return nil
	})
}

// rebound puts an account with other bounds, or another one that is reached, in the place of that of the agent's tree.
func (s *step) rebound(t ledger.TreeAccount, by string) {
	old := s.state.Tree
	if t == old {
		return
	}
	s.state.Tree = t
	s.emit(record.BudgetSet, ledger.Event{}, fields{"by": clip(by), "budget": s.bounded(t),
		"limit_kind": "budget", "limit_status": limitStatus(t)})
	switch {
	case old.Spent != "" && t.Spent == "":
		s.resumeTree()
		s.settleMatter(ledger.NoticeBudget, s.state.AgentID)
	case old.Spent == "" && t.Spent != "":
		s.pauseTree()
	}
}

// Bounded is an account with the bounds that count for it.
func (m *Scheduler) Bounded(t ledger.TreeAccount) ledger.TreeAccount {
	return t.Within(m.opts.Bounds())
}

func (s *step) bounded(t ledger.TreeAccount) ledger.TreeAccount { return s.m.Bounded(t) }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// resumeTree lets an agent and all below it try again what is blocked.
func (s *step) resumeTree() {
	s.unblock(false)
	s.eachChild(func(child *step, _ ledger.Task) { child.resumeTree() })
}

// keepFromBeginning gives up what an agent and all below it have claimed and not begun when their budget is spent.
func (s *step) keepFromBeginning() {
	if a, open := s.openAttempt(); open && a.BegunAt == nil {
		s.suspend(a, rules.CodeBudgetSpent)
	}
	s.eachChild(func(child *step, _ ledger.Task) { child.keepFromBeginning() })
}

// charge records what a turn cost, and adds it to the account of its tree. When that is spent the tree pauses, and the
// operator is notified by its public agent, whose record has the costs of the whole tree.
func (s *step) charge(of ledger.Attempt, spent Spending) {
	if spent == (Spending{}) {
		return
	}
	root, err := s.agent(state.RootAgent(s.state.AgentID))
	if s.err = cmp.Or(s.err, err); s.err != nil {
		return
	}
	a := &root.state.Tree
	a.Tokens, a.Cost = a.Tokens+spent.Tokens, a.Cost+spent.Cost
	a.Estimated, a.Unpriced = a.Estimated || spent.Estimated, a.Unpriced || spent.Unpriced
	a.ListPricesOf = max(a.ListPricesOf, spent.ListPricesOf)
	cost := mustJSON(struct {
		turns.Cost
		AgentID string             `json:"agent_id"`
		Budget  ledger.TreeAccount `json:"budget"` // of the tree
	}{spent.Recorded(spent.Tokens, spent.Metered), s.state.AgentID, s.bounded(*a)})
	s.emit(turns.CostRecorded, ledger.Event{MessageID: of.MessageID, TurnID: of.TurnID, Data: cost}, nil)
	if root != s {
		root.emit(turns.CostRecorded, ledger.Event{Data: cost}, nil)
	}
	bound := cmp.Or(s.bounded(*a).Reached(), spent.Bound)
	if bound == "" || a.Spent != "" {
		return
	}
	a.Spent = bound
	root.pauseTree()
}

// pauseTree tells that a bound of the account of the agent's tree is reached, and keeps its messages from beginning.
func (s *step) pauseTree() {
	a := s.bounded(s.state.Tree)
	s.emit(record.BudgetSpent, ledger.Event{}, fields{"bound": a.Spent, "budget": a,
		"limit_kind": "budget", "limit_status": limitStatus(a), "quota": a.Spent, "remaining": 0})
	text := fmt.Sprintf("The budget of agent %s and its children is spent: %d tokens and %s are "+
		"taken, and the bound of %s is reached. They pause. Raise it to let them go on: holon agent budget %s --%s N",
		s.state.AgentID, a.Tokens, a.Money(), a.Spent, s.state.AgentID, a.Spent)
	if setting := state.HostBudget(a.Spent); setting != "" {
		text = fmt.Sprintf("The budget of everything on this host is spent: the bound %s is reached. "+
			"Agent %s and its children pause. Raise it to let them go on: holon config set %s N",
			setting, s.state.AgentID, setting)
		if strings.HasPrefix(a.Spent, "day_") {
			text += "; they go on by themselves on the next day (UTC)"
		}
	}
	s.notify(s.notification(ledger.NoticeBudget, s.state.AgentID, text))
	s.keepFromBeginning()
}

func limitStatus(a ledger.TreeAccount) string {
	if a.Spent != "" {
		return "blocked"
	}
	return "open"
}

// spent is the bound of the account of the agent's tree that is reached, "" for none.
func (s *step) spent() string {
	root := state.RootAgent(s.state.AgentID)
	if open, ok := s.open[root]; ok {
		return open.state.Tree.Spent
	}
	return read(s, ledger.View.AgentState, root).Tree.Spent
}

// pauseSpent leaves an entry alone until the budget of the agent's tree is raised.
func (s *step) pauseSpent(e ledger.Entry, bound string) {
	e.Block()
	e.Code, e.UpdatedAt = rules.CodeBudgetSpent, s.now
	e.Reason = fmt.Sprintf("the budget of %s of the agent and its children is spent; holon agent budget %s raises it",
		bound, state.RootAgent(s.state.AgentID))
	if setting := state.HostBudget(bound); setting != "" {
		e.Reason = "the budget of everything on this host is spent; holon config set " + setting + " N raises it"
	}
	s.emit(record.QueueEntryBlocked, ledger.Event{MessageID: e.MessageID, Level: record.LevelProgress},
		fields{"code": e.Code, "summary": e.Reason})
	s.update(&e)
}
