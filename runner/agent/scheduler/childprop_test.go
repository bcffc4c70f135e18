package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
)

// childOps are what happens to children, which others begin and finish the turns of.
const childOps = " child-spawn child-spawn child-spawn child-spawn child-begin child-begin child-begin child-begin " +
	"child-finish child-finish child-finish child-fail child-lose child-broken child-sleep child-enqueue child-input " +
	"child-stop child-work child-task "

// child does one thing of childOps. N chooses among the children that go on, or, for a spawn, who spawns.
func (w *world) child(i int, o op) error {
	live := w.live()
	who := o.Agent
	if len(live) > 0 && (o.Do != "child-spawn" || o.N%3 == 0) {
		who = live[o.N%len(live)]
	}
	if o.Do == "child-spawn" {
		if w.running[who] == nil {
			return nil
		}
		_, err := w.m.Spawn(w.ctx, scheduler.Spawn{ParentID: who, CallID: fmt.Sprint("call", i),
			Message: fmt.Sprint("part ", i), Mode: ledger.ChildInherits})
		if state.IsCode(err, scheduler.CodeChildLimit) {
			err = nil
		}
		return err
	}
	if len(live) == 0 {
		return nil
	}
	parent := get(w, ledger.View.Agent, who)
	switch o.Do {
	case "child-begin", "child-broken":
		return w.begin(who, o.Do == "child-broken")
	case "child-finish", "child-fail":
		return w.finish(who, o.Do == "child-fail")
	case "child-lose":
		return w.lose(who)
	case "child-input":
		_, _, err := w.m.FollowUp(w.ctx, parent.ParentID, parent.DelegatedFromTask, fmt.Sprint("call", i), "more", o.N%2 == 0)
		return err
	case "child-stop":
		_, _, err := w.m.StopChild(w.ctx, parent.ParentID, parent.DelegatedFromTask, "test")
		return err
	case "child-task":
		status := []tasks.Status{tasks.Running, tasks.Completed}[o.N%2]
		return w.m.ReportTask(w.ctx, who, report("task_"+who[len(who)-6:], status, w.now))
	case "child-work":
		_, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: who, Key: fmt.Sprint("call", i), Objective: "part",
			PlanStatus: ledger.PlanNeedsInput})
		return err
	}
	if w.running[who] == nil {
		return nil
	}
	if o.Do == "child-sleep" {
		_, err := w.m.Sleep(w.ctx, who, fmt.Sprint("call", i), time.Duration(o.N/4)*time.Minute, "rest")
		return err
	}
	_, err := w.m.Admit(w.ctx, ledger.Message{AgentID: who, Key: fmt.Sprint("call", i), Kind: ledger.KindInternalFollowup,
		Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: "enqueue"}, Surface: ledger.SurfaceSystem,
		Body: ledger.Body{Type: "text", Text: "go on"}, AdmissionContext: ledger.RuntimeOwned})
	return err
}

// live are the children that go on, the oldest first.
func (w *world) live() []string {
	w.findChildren()
	return slices.DeleteFunc(slices.Clone(w.children), func(id string) bool {
		return get(w, ledger.View.Agent, id).ArchivedAt != nil
	})
}

// findChildren notes the children that were made.
func (w *world) findChildren() {
	if !w.delegates {
		return
	}
	w.view(func(v ledger.View) error {
		for at := 0; at < len(w.all()); at++ {
			list, err := v.Tasks(w.all()[at], 1000)
			if err != nil {
				return err
			}
			for _, t := range list {
				if c := t.Child(); c != nil && !slices.Contains(w.children, c.AgentID) {
					w.children = append(w.children, c.AgentID)
				}
			}
		}
		return nil
	})
}

// checkChildren: a child goes on exactly as long as its task, no child is without one, none is without a parent that
// goes on, and the bounds hold.
func (w *world) checkChildren(v ledger.View) error {
	trees := map[string]int{}
	for _, id := range w.children {
		a, err := v.Agent(id)
		if err != nil {
			return err
		}
		t, err := v.Task(a.ParentID, a.DelegatedFromTask)
		if err != nil || t.Child().AgentID != id {
			w.t.Fatalf("child %s has the task %+v (%v)", id, t, err)
		}
		if gone := a.ArchivedAt != nil; gone != t.Status.Terminal() {
			w.t.Fatalf("child %s is removed: %v, and its task is %s", id, gone, t.Status)
		}
		parent, err := v.Agent(a.ParentID)
		if err != nil || a.ArchivedAt == nil && parent.ArchivedAt != nil {
			w.t.Fatalf("child %s goes on without its parent %s (%v)", id, a.ParentID, err)
		}
		open, err := v.OpenChildren(id)
		if err != nil || len(open) > rules.MaxChildren || state.AgentDepth(id) > state.MaxDepth {
			w.t.Fatalf("%s has %d children at depth %d (%v)", id, len(open), state.AgentDepth(id), err)
		}
		if a.ArchivedAt == nil {
			trees[state.RootAgent(id)]++
		}
	}
	for root, n := range trees {
		if n > rules.MaxTree {
			w.t.Fatalf("%d agents go on below %s", n, root)
		}
	}
	return nil
}

// TestSupervision tries random scripts of agents that delegate, with crashes at every boundary. At the end no child and
// no task of one goes on, and each result had its turn.
func TestSupervision(t *testing.T) {
	played(t, "admit admit begin begin begin finish finish fail clock clock stop start start abort lose crash lose-all "+
		childOps, func(w *world) { w.delegates = true }, func(w *world) {
		w.crash(false)
		for _, id := range w.live() { // their commands end with their containers, and no one answers them
			w.must(w.m.SettleTasks(w.ctx, id, nil, w.now, "gone"))
		}
		w.check()
		w.drain()
		for _, id := range w.live() { // that wait for their parents, or for children that do
			open := get(w, ledger.View.OpenChildren, id)
			last := get(w, ledger.View.AgentState, id).LastClosure
			if len(open) == 0 && (last == nil || last.Outcome != ledger.OutcomeWaiting) {
				w.t.Fatalf("child %s goes on for ever after %+v", id, last)
			}
		}
		for _, id := range w.live() {
			a := get(w, ledger.View.Agent, id)
			_, _, err := w.m.StopChild(w.ctx, a.ParentID, a.DelegatedFromTask, "test")
			w.must(err)
		}
		w.finished()
		if left := w.live(); len(left) > 0 {
			w.t.Fatalf("children go on: %v", left)
		}
	})
}
