package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

// newWorkCommand makes `holon work`.
func newWorkCommand(streams Streams) *cobra.Command {
	var key string
	add, r := remoteCommand(streams, "add OBJECTIVE", "Give an agent a work item", 1, 1,
		func(ctx context.Context, r *remote) error { return runWorkAdd(ctx, r, key) })
	add.Long = `Give an agent a work item: one objective that it keeps track of over many turns. An
agent that has nothing else to do is woken for it. It takes nothing away from what the
agent works on now.`
	add.Flags().StringVar(&key, "key", "", "`text` under which this item is made once, however often that is asked for")
	r.onAgent(add)
	all, limit := false, 50
	list, r := remoteCommand(streams, "list", "List the work items of an agent", 0, 0,
		func(ctx context.Context, r *remote) error { return runWorkList(ctx, r, all, limit) })
	list.Flags().BoolVarP(&all, "all", "a", false, "also those that are completed")
	list.Flags().IntVar(&limit, "limit", limit, "`number` of completed ones, those that were\ncompleted last")
	tableCommand(list, streams)
	r.onAgent(list)
	show, r := remoteCommand(
		streams,
		"show ITEM",
		"Show a work item with its plan and its report",
		1,
		1,
		runWorkShow,
	)
	r.onAgent(show)
	pick, r := remoteCommand(streams, "pick ITEM", "Have an agent work on an item next", 1, 1, runWorkPick)
	r.onAgent(pick)
	block, r := remoteCommand(streams, "block ITEM REASON", "Say what a work item waits for", 2, 2, runWorkBlock)
	block.Long = `Say what a work item waits for. Its agent gets no turns for it before that is cleared, by
the agent or with an empty REASON, but one an hour later to look at it.`
	r.onAgent(block)
	done, r := remoteCommand(streams, "done ITEM", "Complete a work item for an agent", 1, 1, runWorkDone)
	done.Long = "Complete a work item for an agent. An agent that completes one itself reports what it did."
	r.onAgent(done)
	return group("work", "Give an agent objectives and see how far it is", "", add, list, show, pick, block, done)
}

func runWorkAdd(ctx context.Context, r *remote, key string) error {
	item, err := r.CreateWork(ctx, r.Agent, wire.WorkItem{Objective: r.args[0]}, key)
	return r.printWork(item, err)
}

func runWorkPick(ctx context.Context, r *remote) error {
	item, err := r.PickWork(ctx, r.Agent, r.args[0])
	return r.printWork(item, err)
}

func runWorkBlock(ctx context.Context, r *remote) error {
	item, err := r.BlockWork(ctx, r.Agent, r.args[0], r.args[1])
	return r.printWork(item, err)
}

func runWorkDone(ctx context.Context, r *remote) error {
	item, err := r.CompleteWork(ctx, r.Agent, r.args[0])
	return r.printWork(item, err)
}

// printWork shows the item that a command changed.
func (r *remote) printWork(item view.WorkRecord, err error) error {
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, item)
	}
	return workTable(r.streams, item)
}

func runWorkList(ctx context.Context, r *remote, all bool, limit int) error {
	if err := checkRange("--limit", limit, 1, view.MaxLimit); err != nil {
		return err
	}
	items, err := r.WorkItems(ctx, r.Agent, limit)
	if err != nil {
		return err
	}
	if !all {
		items = slices.DeleteFunc(items, func(w view.WorkRecord) bool { return w.State == ledger.WorkCompleted })
	}
	if r.JSON {
		return printJSON(r.streams, items)
	}
	return workTable(r.streams, items...)
}

func workTable(streams Streams, items ...view.WorkRecord) error {
	t := newTable(streams, "ITEM", "STATE", "TODO", "CHANGED", "OBJECTIVE").cutting("OBJECTIVE")
	for _, w := range items {
		objective := w.Objective
		if streams.OutTTY {
			objective = visible.OneLine(objective, 40)
		}
		t.row(w.ID, workState(w), todoCount(w.Todo), streams.moment(w.UpdatedAt), objective)
	}
	return t.end()
}

// workState is the scheduling state of an item, and whether it is the current one.
func workState(w view.WorkRecord) string {
	state := cmp.Or(string(w.SchedulingState), string(w.State))
	if w.Current {
		state += ", current"
	}
	return state
}

func todoCount(list []ledger.Todo) string {
	if len(list) == 0 {
		return ""
	}
	done := 0
	for _, t := range list {
		if t.State == ledger.TodoCompleted {
			done++
		}
	}
	return fmt.Sprintf("%d/%d", done, len(list))
}

func runWorkShow(ctx context.Context, r *remote) error {
	w, err := r.WorkItem(ctx, r.Agent, r.args[0])
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, w)
	}
	pairs := [][2]string{{"item", w.ID}, {"objective", r.streams.oneLine(w.Objective, 1000)}, {"state", workState(w)},
		{"plan status", string(w.PlanStatus)}, {"blocked by", r.streams.oneLine(w.BlockedBy, 1000)}}
	if w.RecheckConsumedAt.IsZero() {
		pairs = append(pairs, [2]string{"looked at again", r.streams.moment(w.RecheckAt)})
	}
	pairs = append(pairs, [2]string{"created", r.streams.moment(w.CreatedAt)},
		[2]string{"changed", r.streams.moment(w.UpdatedAt)})
	for _, todo := range w.Todo {
		pairs = append(
			pairs,
			[2]string{strings.ReplaceAll(string(todo.State), "_", " "), r.streams.oneLine(todo.Text, 500)},
		)
	}
	plan := w.PlanArtifact
	switch {
	case plan == nil:
	case plan.Refused != "":
		pairs = append(pairs, [2]string{"plan", plan.RelativePath + " cannot be shown: " + plan.Refused})
	case plan.Hash == "": // there is none yet
	default:
		pairs = append(pairs, [2]string{"plan", fmt.Sprintf("%s, %d bytes", plan.RelativePath, plan.Bytes)})
	}
	if err := facts(r.streams, pairs...); err != nil {
		return err
	}
	if plan != nil && plan.Preview != "" {
		_, err = fmt.Fprintf(r.streams.Out, "\n%s\n", visible.Text(plan.Preview))
	}
	if err == nil && w.CompletionReport != "" {
		_, err = fmt.Fprintf(r.streams.Out, "\nreport:\n%s\n", visible.Text(w.CompletionReport))
	}
	return err
}
