package agent

import (
	"cmp"
	"slices"

	"holon/runner/agent/prompt"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// Bounds of what is shown of work, in number.
const (
	maxRecentWork = 5  // completed items
	tracedBriefs  = 30 // newest ones that are looked at for what was done for the current item
	tracedTools   = 100
	maxTrace      = 12
)

// work is what the agent of a claim works on.
func (r *Runtime) work(v ledger.View, c scheduler.Claim) (prompt.Work, error) {
	var w prompt.Work
	open, completed, err := view.New(v, view.Facts{Plan: r.cfg.Plan, Children: true}).WorkList(c.Agent.ID, maxRecentWork)
	// a conversation that goes on may believe that completed work is open
	if err != nil || len(open) == 0 && (len(completed) == 0 || c.Attempt.Chain == "") {
		return w, err
	}
	if c.Attempt.Chain != "" {
		stored, err := v.AgentState(c.Agent.ID)
		if err != nil {
			return w, err
		}
		w.Shown = stored.WorkShown
	}
	ended, err := endedFor(v, c)
	if err != nil {
		return w, err
	}
	w.Current, w.Queued = grouped(open, completed, ended, c.Message.WorkItemID)
	if w.Current == nil {
		return w, nil
	}
	waits, err := v.UnresolvedWaits(c.Agent.ID)
	if err != nil {
		return w, err
	}
	w.Waits = slices.DeleteFunc(waits, func(wait ledger.Wait) bool {
		return wait.Owner != w.Current.ID || wait.Status != ledger.WaitActive
	})
	if w.Shown == "" {
		w.Trace, err = trace(v, c.Agent.ID, w.Current.ID)
	}
	return w, err
}

// grouped are the current item and the others as they are shown.
func grouped(open, completed []view.WorkRecord, ended []string, about string) (current *view.WorkRecord,
	groups []prompt.Group) {
	groups = []prompt.Group{{Name: "triggered_blocked"}, {Name: "queued_runnable"}, {Name: "waiting_for_operator"},
		{Name: "blocked"}, {Name: "completed_recent"}}
	add := func(name string, item view.WorkRecord) {
		at := slices.IndexFunc(groups, func(g prompt.Group) bool { return g.Name == name })
		groups[at].Items = append(groups[at].Items, item)
	}
	for _, item := range open {
		if item.Current {
			current = &item
		} else {
			add(group(item, ended, about), item)
		}
	}
	for _, item := range completed {
		if item.CompletionReport != "" {
			add("completed_recent", item)
		}
	}
	return current, groups
}

// endedFor are the owners of the waits that the message of a claim ended.
func endedFor(v ledger.View, c scheduler.Claim) (owners []string, err error) {
	for _, id := range c.Attempt.Waits {
		wait, err := v.Wait(id)
		if err != nil {
			return nil, err
		}
		owners = append(owners, wait.Owner)
	}
	return owners, nil
}

// group is the group under which an item that is not the current one is shown: what it waited for has come with the
// message of the turn if that is about the item and it is blocked, or if it owned one of the waits that ended.
func group(item view.WorkRecord, ended []string, about string) string {
	if slices.Contains(ended, item.ID) || item.ID == about && item.BlockedBy != "" {
		return "triggered_blocked"
	}
	if item.SchedulingState == rules.WorkRunnable {
		return "queued_runnable"
	}
	return item.Readiness
}

// trace is what was done for an item: the last texts of turns, and the tools that it ran.
func trace(v ledger.View, agentID, itemID string) ([]prompt.Step, error) {
	var steps []prompt.Step
	briefs, err := v.Briefs(agentID, tracedBriefs)
	if err != nil {
		return nil, err
	}
	for _, b := range briefs {
		if b.WorkItemID == itemID && b.Kind != ledger.BriefFailure && b.Text != "" {
			steps = append(steps, prompt.Step{At: b.CreatedAt, What: "you", Text: b.Text})
		}
	}
	tools, err := record.Executions(v, agentID, tracedTools)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.WorkItemID == itemID {
			steps = append(steps, prompt.Step{At: t.EndedAt, What: t.Tool, Text: cmp.Or(t.Summary, t.Status)})
		}
	}
	slices.SortStableFunc(steps, func(a, b prompt.Step) int { return a.At.Compare(b.At) })
	return steps[max(0, len(steps)-maxTrace):], nil
}

// planOf is the plan of the work item of an attempt after its turn.
func (r *Runtime) planOf(a ledger.Attempt) scheduler.Plan {
	if a.WorkItemID == "" || r.cfg.Plan == nil {
		return scheduler.Plan{}
	}
	plan := r.cfg.Plan(a.AgentID, a.WorkItemID)
	if plan == nil {
		return scheduler.Plan{}
	}
	return scheduler.Plan{Hash: plan.Hash, Bytes: plan.Bytes}
}
