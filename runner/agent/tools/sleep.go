package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/runner/hosttools"
	"holon/state/ledger"
)

// Bounds of a rest.
const (
	maxRest   = 30 * 24 * time.Hour // by the clock; longer waits are the operator's timers
	maxReason = 1000                // bytes
)

const sleepDescription = "Says that nothing is left to do in this turn and what you wait for. You are woken by any " +
	"message, and after duration_ms if you give it. Without it, a work item that can go on does. " +
	"It does not pause you: after it, end the turn with your answer. Calling it again replaces what you wait " +
	"for. Turns that you wake yourself for and that change nothing come at growing intervals, and after 12 of " +
	"them your operator is asked."

// slept is the result of Sleep.
type slept struct {
	Sleeping bool       `json:"sleeping"` // once the turn has ended, unless something is to be done then
	WaitID   string     `json:"wait_id"`
	Status   string     `json:"status"` // active, or triggered when a message is there already
	For      string     `json:"waiting_for"`
	WakeAt   turns.Time `json:"wake_at,omitzero"`
}

// rest is what Sleep is called with.
type rest struct {
	DurationMS int64  `json:"duration_ms,omitempty" jsonschema:"wake after so many milliseconds at the latest, at most 2592000000 (30 days); leave it out to rest until a message comes"`
	Reason     string `json:"reason,omitempty" jsonschema:"what you wait for, in a few words; you are told it when you wake"`
}

// sleep is Sleep.
func (o Options) sleep(ctx context.Context, c hosttools.Call, args rest) (hosttools.Result, error) {
	switch {
	case args.DurationMS < 0:
		return hosttools.Result{}, invalid("duration_ms", "a rest cannot be shorter than nothing",
			"leave duration_ms out to rest until a message comes")
	case args.DurationMS > maxRest.Milliseconds():
		return hosttools.Result{}, invalid("duration_ms",
			fmt.Sprintf("a rest lasts at most %d ms", maxRest.Milliseconds()),
			"rest for less, or until a message comes")
	case len(args.Reason) > maxReason:
		return hosttools.Result{}, invalid("reason",
			fmt.Sprintf("the reason has %d bytes and may have %d", len(args.Reason), maxReason), "shorten it")
	}
	w, err := o.Scheduler.Sleep(ctx, o.AgentID, c.ID, time.Duration(args.DurationMS)*time.Millisecond,
		strings.TrimSpace(args.Reason))
	if err != nil {
		return hosttools.Result{}, err
	}
	goesOn, until, err := o.after(ctx, w)
	if err != nil {
		return hosttools.Result{}, err
	}
	text := cmp.Or(goesOn, "You rest once this turn has ended, until "+until+".") + " End it now with your answer."
	if w.WakeAt != nil {
		text += o.unlessIdle(ctx)
	}
	return show(text, slept{Sleeping: goesOn == "", WaitID: w.ID, Status: string(w.Status), For: w.WaitingFor,
		WakeAt: turns.AtOptional(w.WakeAt)})
}

// after says what follows a turn in which an agent registered a wait: what goes on at once, or until when it rests.
func (o Options) after(ctx context.Context, w ledger.Wait) (goesOn, until string, err error) {
	switch {
	case w.Status == ledger.WaitTriggered:
		return "You do not rest: a message waits for you, and its turn follows this one.", "", nil
	case w.WakeAt != nil:
		return "", w.WakeAt.UTC().Format(time.RFC3339) + " or until a message comes", nil
	case w.Kind != ledger.WaitSystem:
		return "", "a message comes", nil
	}
	err = o.Ledger.View(ctx, func(v ledger.View) error {
		goesOn, until, err = workAfter(v, w)
		return err
	})
	return goesOn, until, err
}

// workAfter is after for an agent that rests until anything happens, whose work goes on where it can.
func workAfter(v ledger.View, w ledger.Wait) (goesOn, until string, err error) {
	stored, err := v.AgentState(w.AgentID)
	if err != nil {
		return "", "", err
	}
	turn, err := v.Attempt(w.Registered)
	if err != nil {
		return "", "", err
	}
	items, err := v.OpenWork(w.AgentID)
	if err != nil {
		return "", "", err
	}
	waits, err := v.UnresolvedWaits(w.AgentID)
	if err != nil {
		return "", "", err
	}
	open, err := v.OpenTasks(w.AgentID)
	until = "a message comes or a work item can go on"
	if slices.ContainsFunc(open, func(t ledger.Task) bool {
		return stored.CurrentWork != "" && rules.WaitsFor(t, stored.CurrentWork, turn.TurnID)
	}) {
		until = "a task of your current work item ends, a message comes or another work item can go on"
		waits = append(waits, ledger.Wait{Owner: stored.CurrentWork, Kind: ledger.WaitTask, Status: ledger.WaitActive})
	}
	switch signal := rules.WorkSignal(stored, items, waits); {
	case signal == nil:
	case signal.Reactivation == ledger.ContinueActive:
		goesOn = fmt.Sprintf("You do not rest: work item %s is your current one and can go on, so a turn for it follows. "+
			"If it has to wait for something, say so with UpdateWorkItem, or give duration_ms.", signal.WorkItemID)
	default:
		goesOn = fmt.Sprintf("You do not rest: work item %s can go on, so a turn follows in which you may pick it.",
			signal.WorkItemID)
	}
	return goesOn, until, err
}
