package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"holon/responses"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/load"
)

const prompt = "Look at the failing test, find out why it fails, and mend it."

const (
	completedWork = 1000
	fewCompleted  = 10 // more than a prompt lists
)

// measureWork is P28: what the work items of an agent cost between two of its turns, and in its prompt.
func measureWork(ctx context.Context, r *rig) []row {
	few, many := r.openWorker(ctx, fewCompleted), r.openWorker(ctx, r.samples(completedWork, completedWork/10))
	got := compare(ctx, r.plan(500, 30, 10), subject{"10 completed items", few.goOn},
		subject{"1,000 completed items", many.goOn})
	const against = "with 10 of them"
	return []row{
		versus("P28", "a turn is settled → the next for the work item is claimed, of 1,000 completed items", against,
			unitMS, got[1][0], got[0][0]).ratioGoal(1.1),
		versus("P28", "the claim alone", against, unitMS, got[1][1], got[0][1]).ratioGoal(1.1),
		versus("P28", "what the prompt of that turn is made of, read", against, unitMS, got[1][2],
			got[0][2]).ratioGoal(1.1),
	}
}

// worker is an agent that has a work item with which it goes on turn after turn.
type worker struct {
	store ledger.Store
	steps *scheduler.Scheduler
	item  string
	open  ledger.Attempt // of the present turn
	turns int
}

const workerID = "worker"

// openWorker makes a worker that has completed some items, and begins its first turn.
func (r *rig) openWorker(ctx context.Context, completed int) *worker {
	store := load.Must(sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(r.newDir(), "ledger.db")}))
	r.later(store.Close)
	w := &worker{store: store}
	w.steps = scheduler.New(w.store, scheduler.Options{Owner: "bench", Now: time.Now})
	load.Must(w.steps.Create(ctx, scheduler.NewAgent{ID: workerID}))
	w.ask(ctx) // no tick comes while a turn runs
	w.begin(ctx)
	for range completed {
		item := w.create(ctx)
		load.Must(w.steps.PickWork(ctx, workerID, item, newCall()))
		load.Must(w.steps.CompleteWork(ctx, workerID, item, newCall(), &scheduler.Round{Text: prompt}))
	}
	w.item = w.create(ctx)
	load.Must(w.steps.PickWork(ctx, workerID, w.item, newCall()))
	return w
}

func newCall() string { return responses.NewID(responses.PrefixCallID) }

func (w *worker) create(ctx context.Context) string {
	item, _, err := w.steps.CreateWork(ctx, scheduler.NewWork{AgentID: workerID, Key: newCall(),
		Objective: strings.Repeat(prompt+" ", 3)})
	load.Check(err)
	return item.ID
}

// ask puts a message of the operator into the queue: what an agent does by itself is bounded without any.
func (w *worker) ask(ctx context.Context) {
	load.Must(w.steps.Admit(ctx, ledger.Message{AgentID: workerID, Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Body: ledger.Body{Type: "text", Text: prompt},
		Surface: ledger.SurfaceCLIPrompt, AdmissionContext: ledger.LocalProcess}))
}

func (w *worker) claim(ctx context.Context) scheduler.Claim {
	c, ok, err := w.steps.Claim(ctx, workerID)
	load.Check(err)
	if !ok {
		load.Failf("the agent has no turn to begin")
	}
	w.open = c.Attempt
	return c
}

func (w *worker) begin(ctx context.Context) {
	w.claim(ctx)
	w.began(ctx)
}

func (w *worker) began(ctx context.Context) {
	load.Check(w.steps.Began(ctx, w.open.ID, scheduler.Sent{Prompt: []byte(`{}`), Digest: "digest"}))
}

// goOn ends a turn that changed the item, and times what follows it: all, the claim of the next turn, and
// what its prompt is made of.
func (w *worker) goOn(ctx context.Context) []float64 {
	if w.turns++; w.turns%50 == 0 {
		w.ask(ctx)
		w.settle(ctx)
		w.begin(ctx)
	}
	objective := fmt.Sprint(prompt, w.turns)
	load.Must(w.steps.UpdateWork(ctx, workerID, w.item, newCall(), scheduler.WorkChange{Objective: &objective}))
	between := laps(func() { w.settle(ctx) }, func() {
		if c := w.claim(ctx); c.Message.WorkItemID != w.item {
			load.Failf("after its turn the agent has %q to do, want the work item %s", c.Message.ID, w.item)
		}
	})
	reads := laps(func() { w.read(ctx) })
	w.began(ctx)
	return []float64{between[0], between[2], reads[1]}
}

func (w *worker) settle(ctx context.Context) {
	now := time.Now()
	load.Must(w.steps.Settle(ctx, w.open.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted,
		ResponseID: responses.NewID(responses.PrefixResponse), StartedAt: now, CompletedAt: now}}))
}

func (w *worker) read(ctx context.Context) {
	load.Check(w.store.View(ctx, func(v ledger.View) error {
		_, _, err := view.New(v, view.Facts{}).WorkList(workerID, 5)
		return err
	}))
}
