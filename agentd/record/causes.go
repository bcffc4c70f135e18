package record

import (
	"cmp"

	"holon/responses/turns"
)

// causes knows which event of a turn caused the next one.
type causes struct {
	turn   string            // turn.submitted
	answer string            // the last fact of the last model request, which asks for calls of tools
	next   string            // what leads to the next request to a model
	opened map[string]string // what began, by the id of a request, a call, a process, a task or a thread
}

// of returns the id of the event that caused ev; "" for what begins the turn.
func (c *causes) of(ev turns.RuntimeEvent) string {
	for _, id := range []string{ev.ModelRequestID, ev.ProcessID, ev.ToolCallID, ev.TaskID} {
		if cause := c.opened[id]; cause != "" {
			return cause
		}
	}
	switch ev.Type {
	case turns.ToolStarted, turns.PermissionDecided, turns.ActionRequired:
		return cmp.Or(c.answer, c.turn) // before there is one, the request answers a call of its client's function
	case turns.ModelRequested, turns.FallbackApplied, turns.TaskCreated, turns.CompactionBegun:
		return c.next
	case turns.ContextCompacted, turns.CompactionFailed:
		return c.opened[ev.ThreadID]
	}
	return c.turn
}

func (c *causes) take(ev turns.RuntimeEvent) {
	if c.opened == nil {
		c.opened = make(map[string]string)
	}
	switch ev.Type {
	case turns.TurnSubmitted:
		c.turn, c.next = ev.EventID, ev.EventID
	case turns.ModelRequested:
		c.opened[ev.ModelRequestID], c.answer = ev.EventID, ev.EventID
	case turns.ToolStarted, turns.ActionResolved:
		c.opened[ev.ToolCallID] = ev.EventID
	case turns.ProcessStarted:
		c.opened[ev.ProcessID] = ev.EventID
	case turns.TaskCreated:
		c.opened[ev.TaskID] = ev.EventID
	case turns.CompactionBegun:
		c.opened[ev.ThreadID] = ev.EventID
	case turns.ModelCompleted:
		c.answer = ev.EventID
	case turns.ModelFailed:
		c.answer, c.next = ev.EventID, ev.EventID
	case turns.FallbackApplied, turns.ToolResult, turns.ToolFailed, turns.ContextCompacted:
		c.next = ev.EventID
	}
}
