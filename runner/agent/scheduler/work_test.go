package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
)

const workOps = "work-create work-create work-pick work-pick work-todo work-block work-block work-unblock work-ask " +
	"work-complete work-complete work-rename "

// work is what the model of a turn, or the operator, does with work items.
func (w *world) work(i int, o op) error {
	key := fmt.Sprint(o.Agent, "/call", i)
	if o.Do == "work-create" {
		n := scheduler.NewWork{AgentID: o.Agent, Key: key, Objective: fmt.Sprint("item ", i)}
		if o.N%3 == 0 {
			n.PlanStatus = ledger.PlanNeedsInput
		}
		_, _, err := w.m.CreateWork(w.ctx, n)
		return err
	}
	var items []ledger.WorkItem
	w.view(func(v ledger.View) (err error) {
		open, err := v.OpenWork(o.Agent)
		completed, endedErr := v.CompletedWork(o.Agent, 100)
		items = append(open, completed...)
		return errors.Join(err, endedErr)
	})
	if len(items) == 0 {
		return nil
	}
	id := items[o.N%len(items)].ID
	ask, ready, blocked, none := ledger.PlanNeedsInput, ledger.PlanReady, "the review", ""
	var err error
	switch o.Do {
	case "work-pick":
		_, err = w.m.PickWork(w.ctx, o.Agent, id, key)
	case "work-todo":
		_, err = w.m.UpdateWork(w.ctx, o.Agent, id, key, scheduler.WorkChange{PlanStatus: &ready,
			Todo: &[]ledger.Todo{{Text: fmt.Sprint("step ", i), State: ledger.TodoPending}}})
	case "work-rename":
		other := fmt.Sprint("another ", i)
		_, err = w.m.UpdateWork(w.ctx, o.Agent, id, key, scheduler.WorkChange{Objective: &other})
	case "work-block":
		_, err = w.m.UpdateWork(w.ctx, o.Agent, id, key, scheduler.WorkChange{BlockedBy: &blocked,
			RecheckAfter: time.Duration(o.N) * time.Minute})
	case "work-unblock":
		_, err = w.m.UpdateWork(w.ctx, o.Agent, id, key, scheduler.WorkChange{BlockedBy: &none})
	case "work-ask":
		_, err = w.m.UpdateWork(w.ctx, o.Agent, id, key, scheduler.WorkChange{PlanStatus: &ask})
	case "work-complete":
		_, err = w.m.CompleteWork(w.ctx, o.Agent, id, key,
			&scheduler.Round{Text: "It is done.", Completes: []scheduler.WorkCall{{Key: key, ItemID: id}}})
	}
	return err
}

// checkWork: the current item is an open one, and no work that may run stays idle (8).
func (w *world) checkWork(v ledger.View, l ledger.AgentState, running bool) error {
	open, err := v.OpenWork(l.AgentID)
	if err != nil {
		return err
	}
	if id := l.CurrentWork; id != "" && !slices.ContainsFunc(open, func(w ledger.WorkItem) bool { return w.ID == id }) {
		w.t.Fatalf("%s: the current work item %s is not open", l.AgentID, id)
	}
	waits, err := v.UnresolvedWaits(l.AgentID)
	if err != nil {
		return err
	}
	var own *ledger.Wait
	for i, wait := range waits {
		if wait.Owner == ledger.OwnerAgent {
			own = &waits[i]
		}
	}
	n, err := v.CountQueued(l.AgentID)
	if err != nil {
		return err
	}
	signal := rules.WorkSignal(l, open, waits)
	if signal != nil && n == 0 && !running && !l.Stopped && !rules.Rests(own) && !l.Progress.Notified {
		w.t.Fatalf("%s is idle though work item %s may run (%s)", l.AgentID, signal.WorkItemID, signal.Reactivation)
	}
	return nil
}

// checkTick: a tick that goes on with work gets a turn only while that work may run.
func (w *world) checkTick(c scheduler.Claim) {
	if c.Message.Origin.Subsystem != "work_queue" || c.Attempt.Readmit {
		return
	}
	w.view(func(v ledger.View) error {
		item, err := v.WorkItem(c.Message.WorkItemID)
		if err != nil {
			return err
		}
		waits, err := v.UnresolvedWaits(c.Agent.ID)
		if got := rules.Scheduling(item, waits); got != rules.WorkRunnable {
			w.t.Fatalf("a tick gave a turn to work item %s, which is %s", item.ID, got)
		}
		return err
	})
}

// item makes a work item and picks it.
func (w *world) item(objective string) ledger.WorkItem {
	item, made, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: objective, Objective: objective})
	w.must(err)
	if !made || item.State != ledger.WorkOpen || item.PlanStatus != ledger.PlanDraft {
		w.t.Fatalf("made %v, %+v; want an open draft", made, item)
	}
	item, err = w.m.PickWork(w.ctx, "alpha", item.ID, "pick "+objective)
	w.must(err)
	return item
}

func update(w *world, id string, c scheduler.WorkChange) ledger.WorkItem {
	item, err := w.m.UpdateWork(w.ctx, "alpha", id, responses.NewID("key_"), c)
	w.must(err)
	return item
}

// The objective that an item had stands whole in the record, also after it was given another one, and an event has at
// most 8 KiB all the same.
func TestObjectiveIsRecordedWhole(t *testing.T) {
	w := open(t)
	first, second, blocked := strings.Repeat("a < b ", 680), strings.Repeat("\x01", 4096), strings.Repeat("\x01", 512)
	item := w.item(first)
	update(w, item.ID, scheduler.WorkChange{BlockedBy: &blocked})
	update(w, item.ID, scheduler.WorkChange{Objective: &second})
	_, all := w.events(0)
	found := false
	for _, e := range all {
		found = found || strings.Contains(string(e.Data), first)
		if len(e.Data) > 8<<10 {
			t.Errorf("event %s has %d bytes of data, want 8 KiB at most", record.Of(e).Name, len(e.Data))
		}
	}
	if !found {
		t.Error("no event has the whole objective that the item had first")
	}
}

// An item that may run is gone on with at once, then after 1 s, 2 s … up to five minutes while nothing changes, and
// after twelve turns the operator is asked.
func TestWorkWithoutProgress(t *testing.T) {
	w := open(t)
	w.item("tidy up")
	begun := w.now
	turns := w.loop(func(int) scheduler.End {
		return scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "hm"}, Home: "same"}
	})
	w.slowedDown(t, turns, rules.MaxIdle, begun)
	expect.Equal(t, "notifications", len(w.notifications()), 1)
	// What the operator changes is news: the agent goes on at once, and need not be asked first.
	urgent, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: "urgent", Objective: "urgent"})
	w.must(err)
	w.ok(w.m.PickWork(w.ctx, "alpha", urgent.ID, "pick urgent"))
	expect.Equal(t, "item of the next turn", w.claim().Message.WorkItemID, urgent.ID)
}

// Changes of the item are progress, and its completion ends it.
func TestWorkWithProgress(t *testing.T) {
	w := open(t)
	item := w.item("count")
	begun := w.now
	turns := w.loop(func(i int) scheduler.End {
		if i == 20 {
			w.ok(w.m.CompleteWork(w.ctx, "alpha", item.ID, "done", &scheduler.Round{Text: "20"}))
		} else {
			update(w, item.ID, scheduler.WorkChange{Todo: &[]ledger.Todo{{Text: fmt.Sprint(i), State: ledger.TodoPending}}})
		}
		return scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: "hm"}, Home: "same"}
	})
	if took := w.now.Sub(begun); turns != 21 || took != 0 {
		t.Errorf("%d turns in %v, want 21 at once", turns, took)
	}
}

// A report is the text of the round that completes the current item and no other.
func TestReports(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		focused  bool
		calls    []string // what the round completes besides: another, the same, foreign, ended
		warnings string
	}{
		"a report":           {"It is done.", true, nil, ""},
		"no text":            {"", true, nil, "no_report"},
		"not the current":    {"It is done.", false, nil, "not_focused"},
		"two of a round":     {"Both are done.", true, []string{"another"}, "several_completions"},
		"the same twice":     {"It is done.", true, []string{"same"}, ""},
		"one that is not":    {"It is done.", true, []string{"foreign"}, ""},
		"one ended earlier":  {"It is done.", true, []string{"ended"}, ""},
		"two without a text": {"", true, []string{"another"}, "several_completions"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			item, another, ended := w.item("one"), w.item("two"), w.item("three")
			w.ok(w.m.CompleteWork(w.ctx, "alpha", ended.ID, "earlier", nil))
			if c.focused {
				w.ok(w.m.PickWork(w.ctx, "alpha", item.ID, "again"))
			}
			ids := map[string]string{"another": another.ID, "same": item.ID, "foreign": "work_x", "ended": ended.ID}
			round := scheduler.Round{Text: c.text, Completes: []scheduler.WorkCall{{Key: "call", ItemID: item.ID}}}
			for _, other := range c.calls {
				round.Completes = append(round.Completes, scheduler.WorkCall{Key: "call 2", ItemID: ids[other]})
			}
			done, err := w.m.CompleteWork(w.ctx, "alpha", item.ID, "call", &round)
			w.must(err)
			var codes []string
			for _, warning := range done.Warnings {
				codes = append(codes, warning.Code)
			}
			if got := strings.Join(codes, " "); got != c.warnings || done.Item.State != ledger.WorkCompleted {
				t.Errorf("%s, warnings %q; want completed, %q", done.Item.State, got, c.warnings)
			}
			w.view(func(v ledger.View) error {
				d, ok, err := v.DeliverySummary(item.ID)
				if want := c.warnings == ""; ok != want || ok && d.Text != c.text || err != nil {
					t.Errorf("a report: %v %q (%v), want %v", ok, d.Text, err, want)
				}
				return nil
			})
			if slices.Contains(c.calls, "another") {
				second, err := w.m.CompleteWork(w.ctx, "alpha", another.ID, "call 2", &round)
				w.must(err)
				if len(second.Warnings) != 1 || second.Warnings[0].Code != "several_completions" {
					t.Errorf("the second of the round: %+v, want a warning", second.Warnings)
				}
			}
			again, err := w.m.CompleteWork(w.ctx, "alpha", item.ID, "call", &round)
			w.must(err)
			expect.Equal(t, "revision after the call again", again.Item.Revision, done.Item.Revision)
		})
	}
}

// Blocked, asking and completed items get no turns; a blocker is looked at once, behind everything else.
func TestBlockedWork(t *testing.T) {
	w := open(t)
	item := w.item("wait")
	c := w.claim()
	blocked := "the review"
	got := update(w, item.ID, scheduler.WorkChange{BlockedBy: &blocked})
	if got.RecheckAt == nil || !got.RecheckAt.Equal(w.now.Add(rules.DefaultRecheck)) {
		t.Errorf("recheck_at = %v, want an hour from now", got.RecheckAt)
	}
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted},
		Plan: scheduler.Plan{Hash: "h", Bytes: 7}})
	expect.Equal(t, "events of the new plan", w.count(record.WorkPlanRefreshed), 1)
	w.nothing()
	w.pass(rules.DefaultRecheck)
	c = w.claim()
	expect.Equal(t, "what wakes it", c.Message.Origin.Subsystem, "work_recheck")
	expect.Equal(t, "priority", c.Message.Priority, ledger.Background)
	w.completes(c)
	w.pass(100 * rules.DefaultRecheck)
	w.nothing()
	none := ""
	if got = update(w, item.ID, scheduler.WorkChange{BlockedBy: &none}); got.RecheckAt != nil ||
		got.RecheckConsumedAt != nil {
		t.Errorf("after it was cleared: recheck %v, consumed %v, want none", got.RecheckAt, got.RecheckConsumedAt)
	}
	expect.Equal(t, "item of the turn", w.claim().Attempt.WorkItemID, item.ID)
}

// An aborted turn, and one that failed for the length of its context, do not bring their item back.
func TestHeldWork(t *testing.T) {
	w := open(t)
	w.item("long")
	c := w.claim()
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted,
		Failure: &ledger.Failure{Code: "context_length_exceeded", Summary: "too long"}}})
	w.nothing()
	w.admit(prompt("go on"))
	c = w.claim()
	w.ok(w.m.Abort(w.ctx, scheduler.Abort{AgentID: "alpha", By: "test"}))
	w.settle(c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: "aborted"}})
	w.nothing()
	w.must(w.m.Stop(w.ctx, "alpha", "test"))
	w.must(w.m.Start(w.ctx, "alpha", "test"))
	expect.Equal(t, "what wakes it after a start", w.claim().Message.Origin.Subsystem, "work_queue")
}

// What is no work item is refused by its field, and nothing is written.
func TestBadWork(t *testing.T) {
	w := open(t)
	item := w.item("good")
	many := make([]ledger.Todo, 10_000)
	long, blocked, empty := strings.Repeat("x", 5000), "x", ""
	bad := ledger.PlanStatus("done")
	for name, c := range map[string]struct {
		change scheduler.WorkChange
		field  string
	}{
		"a long objective":          {scheduler.WorkChange{Objective: &long}, "objective"},
		"an empty objective":        {scheduler.WorkChange{Objective: &empty}, "objective"},
		"no status":                 {scheduler.WorkChange{PlanStatus: &bad}, "plan_status"},
		"many todos":                {scheduler.WorkChange{Todo: &many}, "todo_list"},
		"an empty todo":             {scheduler.WorkChange{Todo: &[]ledger.Todo{{State: "pending"}}}, "todo_list[0].text"},
		"a todo in no state":        {scheduler.WorkChange{Todo: &[]ledger.Todo{{Text: "x"}}}, "todo_list[0].state"},
		"a long blocker":            {scheduler.WorkChange{BlockedBy: &long}, "blocked_by"},
		"a negative recheck":        {scheduler.WorkChange{BlockedBy: &blocked, RecheckAfter: -1}, "recheck_after"},
		"a recheck alone":           {scheduler.WorkChange{RecheckAfter: 1}, "recheck_after"},
		"a recheck of a cleared":    {scheduler.WorkChange{BlockedBy: &empty, RecheckAfter: 1}, "recheck_after"},
		"a recheck after centuries": {scheduler.WorkChange{BlockedBy: &blocked, RecheckAfter: 1 << 62}, "recheck_after"},
	} {
		w.invalid(name, scheduler.CodeInvalidWork, c.field)(w.m.UpdateWork(w.ctx, "alpha", item.ID, name, c.change))
	}
	for _, id := range []string{"", "work_x", "../x"} {
		w.refused(ledger.CodeNotFound)(w.m.PickWork(w.ctx, "alpha", id, "p"))
	}
	w.refused(ledger.CodeNotFound)(w.m.PickWork(w.ctx, "beta", item.ID, "p"))
	w.ok(w.m.CompleteWork(w.ctx, "alpha", item.ID, "c", nil))
	w.refused(scheduler.CodeWorkCompleted)(w.m.PickWork(w.ctx, "alpha", item.ID, "p"))
}
