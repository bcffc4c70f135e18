package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"holon/responses"
	assembly "holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/state/sqlite"
)

// Sizes of P28.
const (
	completedWork = 1000
	fewCompleted  = 10  // more than a prompt tells of
	shownWork     = 100 // open items that a prompt tells of
)

// measureWork is P28: what the work items of an agent cost between two of its turns, and in its prompt.
func measureWork(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	few, err := r.openWorker(ctx, fewCompleted)
	if err != nil {
		return nil, err
	}
	many, err := r.openWorker(ctx, r.samples(completedWork, completedWork/10))
	if err != nil {
		return nil, err
	}
	n := r.perRound(500, 30)
	got, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: 10},
		subject{"10 completed items", few.goOn}, subject{"1,000 completed items", many.goOn})
	if err != nil {
		return nil, err
	}
	bytes, err := few.promptBytes(ctx)
	if err != nil {
		return nil, err
	}
	const against = "with 10 of them"
	return []row{
		timed("P28", "a turn is settled → the next for the work item is claimed, of 1,000 completed items", against, got[1],
			got[0], 0).absoluteGoal(5),
		timed("P28", "the claim alone", against, got[1], got[0], 1).ratioGoal(1.2),
		timed("P28", "what the prompt of that turn is made of, read", against, got[1], got[0], 2).ratioGoal(1.2),
		row{ID: "P28", What: "what a prompt tells of 100 open work items", Unit: unitKB, Ours: float64(bytes) / 1000}.
			absoluteGoal(24.6),
	}, nil
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
func (r *rig) openWorker(ctx context.Context, completed int) (*worker, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "ledger.db")})
	if err != nil {
		return nil, err
	}
	r.later(store.Close)
	w := &worker{store: store, steps: scheduler.New(store, scheduler.Options{Owner: "bench", Now: time.Now})}
	if _, err := w.steps.Create(ctx, scheduler.NewAgent{ID: workerID}); err != nil {
		return nil, err
	}
	if err := w.ask(ctx); err != nil { // no tick comes while a turn runs
		return nil, err
	}
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	for range completed {
		item, err := w.create(ctx)
		if err != nil {
			return nil, err
		}
		round := &scheduler.Round{Text: prompt}
		if _, err := w.steps.PickWork(ctx, workerID, item, responses.NewID(responses.PrefixCallID)); err != nil {
			return nil, err
		}
		_, err = w.steps.CompleteWork(ctx, workerID, item, responses.NewID(responses.PrefixCallID), round)
		if err != nil {
			return nil, err
		}
	}
	if w.item, err = w.create(ctx); err != nil {
		return nil, err
	}
	_, err = w.steps.PickWork(ctx, workerID, w.item, responses.NewID(responses.PrefixCallID))
	return w, err
}

func (w *worker) create(ctx context.Context) (string, error) {
	item, _, err := w.steps.CreateWork(ctx, scheduler.NewWork{AgentID: workerID,
		Key: responses.NewID(responses.PrefixCallID), Objective: strings.Repeat(prompt+" ", 3)})
	return item.ID, err
}

// ask puts a message of the operator into the queue: what an agent does by itself is bounded without any.
func (w *worker) ask(ctx context.Context) error {
	_, err := w.steps.Admit(ctx, scheduler.Ingress{AgentID: workerID, Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Body: ledger.Body{Type: "text", Text: prompt},
		Surface: ledger.SurfaceCLIPrompt, AdmissionContext: ledger.LocalProcess})
	return err
}

// begin claims the next message and begins its turn.
func (w *worker) begin(ctx context.Context) error {
	c, ok, err := w.steps.Claim(ctx, workerID)
	if err == nil && !ok {
		err = errors.New("the agent has no turn to begin")
	}
	if err != nil {
		return err
	}
	w.open = c.Attempt
	return w.steps.Began(ctx, c.Attempt.ID, scheduler.Sent{Prompt: []byte(`{}`), Digest: "digest"})
}

// goOn ends a turn that changed the item, and times what follows it: all, the claim of the next turn, and what its
// prompt is made of.
func (w *worker) goOn(ctx context.Context) ([]time.Duration, error) {
	if w.turns++; w.turns%50 == 0 {
		if err := errors.Join(w.ask(ctx), w.settle(ctx), w.begin(ctx)); err != nil {
			return nil, err
		}
	}
	objective := fmt.Sprint(prompt, w.turns)
	_, err := w.steps.UpdateWork(ctx, workerID, w.item, responses.NewID(responses.PrefixCallID),
		scheduler.WorkChange{Objective: &objective})
	if err != nil {
		return nil, err
	}
	var watch stopwatch
	began := time.Now()
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	if err := watch.time(func() error {
		c, ok, err := w.steps.Claim(ctx, workerID)
		if err == nil && (!ok || c.Message.WorkItemID != w.item) {
			err = fmt.Errorf("after its turn the agent has %q to do, want the work item %s", c.Message.ID, w.item)
		}
		w.open = c.Attempt
		return err
	}); err != nil {
		return nil, err
	}
	all := time.Since(began)
	if err := watch.time(func() error { return w.read(ctx, func([]view.WorkRecord) {}) }); err != nil {
		return nil, err
	}
	err = w.steps.Began(ctx, w.open.ID, scheduler.Sent{Prompt: []byte(`{}`), Digest: "digest"})
	return append([]time.Duration{all}, watch.laps...), err
}

func (w *worker) settle(ctx context.Context) error {
	now := time.Now()
	_, err := w.steps.Settle(ctx, w.open.ID, scheduler.End{Kind: ledger.TurnCompleted,
		ResponseID: responses.NewID(responses.PrefixResponse), StartedAt: now, CompletedAt: now})
	return err
}

// read reads the items that a prompt tells of.
func (w *worker) read(ctx context.Context, fn func(open []view.WorkRecord)) error {
	return w.store.View(ctx, func(v ledger.View) error {
		open, _, err := view.New(v, view.Facts{}).WorkList(workerID, 5)
		fn(open)
		return err
	})
}

// promptBytes is how much longer a prompt is for 100 open work items, one of them the current one.
func (w *worker) promptBytes(ctx context.Context) (int, error) {
	for range shownWork - 1 {
		if _, err := w.create(ctx); err != nil {
			return 0, err
		}
	}
	in := assembly.Input{Now: time.Now()}
	bare := assembly.Assemble(in)
	err := w.read(ctx, func(open []view.WorkRecord) {
		queued := assembly.Group{Name: "queued_runnable"}
		for i, item := range open {
			if item.Current {
				in.Work.Current = &open[i]
			} else {
				queued.Items = append(queued.Items, item)
			}
		}
		in.Work.Queued = []assembly.Group{queued}
	})
	if err == nil && (in.Work.Current == nil || len(in.Work.Queued[0].Items) != shownWork-1) {
		err = fmt.Errorf("the agent has a current item: %v, and %d others, want one and %d", in.Work.Current != nil,
			len(in.Work.Queued[0].Items), shownWork-1)
	}
	full := assembly.Assemble(in)
	return len(full.Prompt()) - len(bare.Prompt()), err
}
