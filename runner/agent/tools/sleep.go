package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holon/responses/turns"
	"holon/runner/hosttools"
)

// Bounds of a rest.
const (
	maxRest   = 30 * 24 * time.Hour // by the clock; longer waits are the operator's timers
	maxReason = 1000                // bytes
)

const (
	sleepSays = "Says that nothing is left to do in this turn and what you wait for. You are woken by any message, " +
		"and after duration_ms if you give it. " +
		"It does not pause you: after it, end the turn with your answer. Calling it again replaces what you wait " +
		"for. Turns that you wake yourself for and that change nothing come at growing intervals, and after 12 of " +
		"them your operator is asked."
	sleepSchema = `{"type":"object","properties":{` +
		`"duration_ms":{"type":"integer","minimum":0,"maximum":2592000000,"description":"wake after so many ` +
		`milliseconds at the latest, at most 30 days; leave it out to rest until a message comes"},` +
		`"reason":{"type":"string","maxLength":1000,"description":"what you wait for, in a few words; ` +
		`you are told it when you wake"}},` +
		`"additionalProperties":false}`
)

// slept is the result of Sleep.
type slept struct {
	Sleeping bool       `json:"sleeping"` // once the turn has ended
	WaitID   string     `json:"wait_id"`
	Status   string     `json:"status"` // active, or triggered when a message is there already
	For      string     `json:"waiting_for"`
	WakeAt   turns.Time `json:"wake_at,omitzero"`
}

// sleep is Sleep.
func (o Options) sleep(ctx context.Context, c hosttools.Call) (hosttools.Result, error) {
	var args struct {
		DurationMS int64  `json:"duration_ms"`
		Reason     string `json:"reason"`
	}
	if err := arguments(c, &args); err != nil {
		return hosttools.Result{}, err
	}
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
		return hosttools.Result{}, refusal(err)
	}
	text := "You rest once this turn has ended, until a message comes or another work item can go on. End it now with " +
		"your answer."
	if w.WakeAt != nil {
		text = fmt.Sprintf("You rest once this turn has ended, until %s or until a message comes. End it now with "+
			"your answer.", w.WakeAt.UTC().Format(time.RFC3339)) + o.unlessIdle(ctx)
	}
	return show(text, slept{Sleeping: true, WaitID: w.ID, Status: string(w.Status), For: w.WaitingFor,
		WakeAt: turns.AtOptional(w.WakeAt)})
}
