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

func newWorkCommand(streams Streams) *cobra.Command {
	var key string
	add := remoteCommand(streams, "add OBJECTIVE", "Give an agent a work item",
		func(ctx context.Context, r *remote) error {
			item, err := r.CreateWork(ctx, r.Agent, wire.WorkItem{Objective: r.args[0]}, key)
			return r.showWork(item, err)
		})
	add.Long = `Give an agent a work item: one objective that it keeps track of over many turns. An
agent that has nothing else to do is woken for it. It takes nothing away from what the
agent works on now.`
	add.Flags().StringVar(&key, "key", "", "`text` under which this item is made once, however often that is asked for")
	all, limit := false, 50
	list := remoteCommand(streams, "list", "List the work items of an agent",
		func(ctx context.Context, r *remote) error { return runWorkList(ctx, r, all, limit) })
	list.Flags().BoolVarP(&all, "all", "a", false, "also those that are completed")
	list.Flags().IntVar(&limit, "limit", limit, "`number` of completed ones, those that were\ncompleted last")
	pick := remoteCommand(streams, "pick ITEM", "Have an agent work on an item next",
		func(ctx context.Context, r *remote) error {
			item, err := r.PickWork(ctx, r.Agent, r.args[0])
			return r.showWork(item, err)
		})
	block := remoteCommand(streams, "block ITEM REASON", "Set what a work item waits for",
		func(ctx context.Context, r *remote) error {
			item, err := r.BlockWork(ctx, r.Agent, r.args[0], r.args[1])
			return r.showWork(item, err)
		})
	block.Long = `Set what a work item waits for. Its agent gets no turns for it before that is cleared, by
the agent or with an empty REASON, but one an hour later to look at it.`
	done := remoteCommand(streams, "done ITEM", "Complete a work item for an agent",
		func(ctx context.Context, r *remote) error {
			item, err := r.CompleteWork(ctx, r.Agent, r.args[0])
			return r.showWork(item, err)
		})
	done.Long = "Complete a work item for an agent. An agent that completes one itself reports what it did."
	return group("work", "Give an agent objectives and see how far it is", "", add, tableCommand(list, streams),
		remoteCommand(streams, "show ITEM", "Show a work item with its plan and its report", runWorkShow),
		pick, block, done)
}

func runWorkList(ctx context.Context, r *remote, all bool, limit int) error {
	items, err := r.WorkItems(ctx, r.Agent, limit)
	if !all {
		items = slices.DeleteFunc(items, func(w view.WorkRecord) bool { return w.State == ledger.WorkCompleted })
	}
	return showList(&r.base, items, err, workHeads, r.workRow)
}

func (r *remote) showWork(item view.WorkRecord, err error) error {
	return r.show(item, err, func() error {
		return printTable(r.streams, []view.WorkRecord{item}, workHeads, r.workRow)
	})
}

var workHeads = []string{"ITEM", "STATE", "TODO", "CHANGED", "OBJECTIVE*"}

func (r *remote) workRow(w view.WorkRecord) []string {
	objective := w.Objective
	if r.streams.OutTTY {
		objective = visible.OneLine(objective, 40)
	}
	return []string{w.ID, workState(w), todoCount(w.Todo), r.streams.when(w.UpdatedAt), objective}
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
	pairs := []string{"item", w.ID, "objective", r.streams.oneLine(w.Objective, 1000), "state", workState(w),
		"plan status", string(w.PlanStatus), "blocked by", r.streams.oneLine(w.BlockedBy, 1000)}
	if w.RecheckConsumedAt.IsZero() {
		pairs = append(pairs, "looked at again", r.streams.when(w.RecheckAt))
	}
	pairs = append(pairs, "created", r.streams.when(w.CreatedAt),
		"changed", r.streams.when(w.UpdatedAt))
	for _, todo := range w.Todo {
		pairs = append(
			pairs,
			strings.ReplaceAll(string(todo.State), "_", " "), r.streams.oneLine(todo.Text, 500),
		)
	}
	plan := w.PlanArtifact
	switch {
	case plan == nil:
	case plan.Refused != "":
		pairs = append(pairs, "plan", plan.RelativePath+" cannot be shown: "+plan.Refused)
	case plan.Hash == "": // there is none yet
	default:
		pairs = append(pairs, "plan", fmt.Sprintf("%s, %d bytes", plan.RelativePath, plan.Bytes))
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
