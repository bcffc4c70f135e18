package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state/ledger"
)

// Names of the tools for work items.
const (
	NameCreateWork   = "CreateWorkItem"
	NamePickWork     = "PickWorkItem"
	NameUpdateWork   = "UpdateWorkItem"
	NameCompleteWork = "CompleteWorkItem"
	nameListWork     = "ListWorkItems"
	nameGetWork      = "GetWorkItem"
)

// warnPlan is the code of the warning that an item was made without its plan.
const warnPlan = "plan_not_written"

// maxCompleted is how many completed items a list has.
const maxCompleted = 50

// planWriter writes the first plan of a work item: *home.Homes.
type planWriter interface {
	SeedPlan(ctx context.Context, agentID, itemID, text string) error
}

type createWork struct {
	Objective  string            `json:"objective" jsonschema:"what is to be reached; it stands alone"`
	PlanStatus ledger.PlanStatus `json:"plan_status,omitempty" jsonschema:"draft if left out; needs_input to ask first"`
	Plan       string            `json:"plan,omitempty" jsonschema:"the first text of the plan.md"`
	Todo       []ledger.Todo     `json:"todo_list,omitempty" jsonschema:"the whole checklist"`
}

type pickWork struct {
	ID string `json:"work_item_id" jsonschema:"an open work item of yours"`
}

type updateWork struct {
	ID           string             `json:"work_item_id"`
	Objective    *string            `json:"objective,omitempty"`
	PlanStatus   *ledger.PlanStatus `json:"plan_status,omitempty"`
	Todo         *[]ledger.Todo     `json:"todo_list,omitempty" jsonschema:"the whole checklist, in place of the old"`
	BlockedBy    nullable           `json:"blocked_by,omitempty" jsonschema:"what you wait for; null for nothing, also not for your trigger"`
	RecheckAfter *int64             `json:"recheck_after,omitempty" jsonschema:"milliseconds until you look at blocked_by again"`
}

type completeWork struct {
	ID string `json:"work_item_id"`
}

type listWork struct {
	Completed bool   `json:"include_completed,omitempty" jsonschema:"also the newest completed ones, behind the open ones"`
	Limit     *int   `json:"limit,omitempty" jsonschema:"at most so many, 50 if left out"`
	After     string `json:"after,omitempty" jsonschema:"the id of the last item that you have seen"`
}

const (
	createWorkDescription = "Creates an open work item: one objective that you keep track of over many turns. It is not " +
		"your current one until you pick it."
	pickWorkDescription = "Makes an open work item your current one. While it can go on, you are given a turn for it " +
		"when nothing else is to be done."
	updateWorkDescription = "Changes an open work item. Do it after real progress, when the scope changes, or when " +
		"something blocks it. An item that is blocked, or that needs input, gets no turns of its own."
	completeWorkDescription = "Completes a work item. Write the report for your operator as the text of the same " +
		"message as this call, and complete one item in a message: only then the text becomes its report."
	listWorkDescription = "Lists your open work items, each in a line: as many as fit, and how many are left. " +
		"GetWorkItem shows one whole."
	getWorkDescription = "Shows one of your work items, with the beginning of its plan and where the plan's file is."
)

// nullable is a text that may be null, which is not the same as absent.
type nullable struct {
	set  bool
	text string
}

// UnmarshalJSON implements json.Unmarshaler. null is the empty text.
func (n *nullable) UnmarshalJSON(data []byte) error {
	n.set = true
	return json.Unmarshal(data, &n.text)
}

func (o Options) work() []hosttools.Tool {
	return []hosttools.Tool{
		tool(o, hosttools.Tool{Name: NameCreateWork, Description: createWorkDescription}, o.createWork, "objective"),
		tool(o, hosttools.Tool{Name: NamePickWork, Description: pickWorkDescription}, o.pickWork, "work_item_id"),
		tool(o, hosttools.Tool{Name: NameUpdateWork, Description: updateWorkDescription}, o.updateWork, "work_item_id"),
		tool(o, hosttools.Tool{Name: NameCompleteWork, Description: completeWorkDescription, Round: true}, o.completeWork,
			"work_item_id"),
		tool(o, hosttools.Tool{Name: nameListWork, Description: listWorkDescription}, o.listWork),
		tool(o, hosttools.Tool{Name: nameGetWork, Description: getWorkDescription}, o.getWork, "work_item_id"),
	}
}

func (o Options) createWork(ctx context.Context, c hosttools.Call, args createWork) (hosttools.Result, error) {
	if len(args.Plan) > maxNote {
		return hosttools.Result{}, invalid("plan", fmt.Sprintf("the plan has %d bytes and may have %d", len(args.Plan),
			maxNote), "create the item with a short plan, and write the rest into its plan.md")
	}
	w, _, err := o.Scheduler.CreateWork(ctx, scheduler.NewWork{AgentID: o.AgentID, Key: c.ID, Objective: args.Objective,
		PlanStatus: args.PlanStatus, Todo: args.Todo})
	var warnings []scheduler.Warning
	if err == nil && args.Plan != "" && o.Plans.SeedPlan(ctx, o.AgentID, w.ID, args.Plan) != nil {
		warnings = []scheduler.Warning{{Code: warnPlan, Message: "the item is made, but its plan could not be written: " +
			"work-items in your home has to be a directory with plain files; mend it and write the plan there"}}
	}
	return o.changed(ctx, "created", w.ID, warnings, err)
}

func (o Options) pickWork(ctx context.Context, c hosttools.Call, args pickWork) (hosttools.Result, error) {
	_, err := o.Scheduler.PickWork(ctx, o.AgentID, args.ID, c.ID)
	return o.changed(ctx, "picked", args.ID, nil, err)
}

func (o Options) updateWork(ctx context.Context, c hosttools.Call, args updateWork) (hosttools.Result, error) {
	change := scheduler.WorkChange{Objective: args.Objective, PlanStatus: args.PlanStatus, Todo: args.Todo}
	if args.BlockedBy.set {
		change.BlockedBy = &args.BlockedBy.text
	}
	if ms := args.RecheckAfter; ms != nil {
		if *ms <= 0 || *ms > int64(365*24*time.Hour/time.Millisecond) {
			return hosttools.Result{}, invalid("recheck_after",
				fmt.Sprintf("%d is not a number of milliseconds from 1 to a year", *ms), "leave it out for an hour")
		}
		change.RecheckAfter = time.Duration(*ms) * time.Millisecond
	}
	_, err := o.Scheduler.UpdateWork(ctx, o.AgentID, args.ID, c.ID, change)
	return o.changed(ctx, "updated", args.ID, nil, err)
}

func (o Options) completeWork(ctx context.Context, c hosttools.Call, args completeWork) (hosttools.Result, error) {
	round := &scheduler.Round{Text: c.Round.Text}
	for _, other := range c.Round.Calls {
		var a completeWork
		if json.Unmarshal(other.Arguments, &a) == nil { // else that call fails
			round.Completes = append(round.Completes, scheduler.WorkCall{Key: other.ID, ItemID: a.ID})
		}
	}
	done, err := o.Scheduler.CompleteWork(ctx, o.AgentID, args.ID, c.ID, round)
	return o.changed(ctx, "completed", args.ID, done.Warnings, err)
}

// changed is the result of a call that changed an item. It renews the reminder of the turn.
func (o Options) changed(ctx context.Context, did, itemID string, warnings []scheduler.Warning, err error) (
	hosttools.Result, error) {
	if err != nil {
		return hosttools.Result{}, err
	}
	result, err := o.shown(ctx, did, itemID, warnings)
	if err != nil {
		return result, err
	}
	var current *view.WorkRecord
	err = o.Ledger.View(ctx, func(v ledger.View) error {
		state, err := v.AgentState(o.AgentID)
		if err != nil || state.CurrentWork == "" {
			return err
		}
		w, err := view.New(v, o.Facts).Work(o.AgentID, state.CurrentWork)
		current = &w
		return err
	})
	text := o.Reminder(current)
	result.Directive.Reminder = &text
	return result, err
}

// shown is the result of a call about an item: the item as it is now. did is what the call did with it, "" for nothing.
func (o Options) shown(ctx context.Context, did, itemID string, warnings []scheduler.Warning) (hosttools.Result,
	error) {
	item, err := ledger.Read(ctx, o.Ledger, func(v ledger.View) (view.WorkRecord, error) {
		return view.New(v, o.Facts).Work(o.AgentID, itemID)
	})
	if err != nil {
		return hosttools.Result{}, err
	}
	return showWork(did, item, warnings)
}

func (o Options) listWork(ctx context.Context, _ hosttools.Call, args listWork) (hosttools.Result, error) {
	limit := defaultListed
	if args.Limit != nil {
		if limit = *args.Limit; limit < 1 || limit > maxListed {
			return hosttools.Result{}, invalid("limit", fmt.Sprintf("%d is not a number from 1 to %d", limit, maxListed),
				"leave it out")
		}
	}
	ended := 0
	if args.Completed {
		ended = maxCompleted
	}
	items, err := ledger.Read(ctx, o.Ledger, func(v ledger.View) ([]view.WorkRecord, error) {
		open, completed, err := view.New(v, o.Facts).WorkList(o.AgentID, ended)
		return append(open, completed...), err
	})
	if err != nil {
		return hosttools.Result{}, err
	}
	p, lines, err := pageOf(items, limit, args.After)
	if err != nil {
		return hosttools.Result{}, err
	}
	return showPage(p, lines)
}

func (o Options) getWork(ctx context.Context, _ hosttools.Call, args pickWork) (hosttools.Result, error) {
	return o.shown(ctx, "", args.ID, nil)
}
