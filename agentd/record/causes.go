package record

import "holon/responses/turns"

// causes knows which event of a turn caused the next one.
type causes struct {
	turn   string            // turn.submitted
	answer string            // the last model.completed, which asks for calls of tools
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
	case turns.ToolStarted, turns.PermissionDecided:
		return c.answer
	case turns.ModelRequested, turns.TaskCreated, turns.CompactionBegun:
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
		c.opened[ev.ModelRequestID] = ev.EventID
	case turns.ToolStarted:
		c.opened[ev.ToolCallID] = ev.EventID
	case turns.ProcessStarted:
		c.opened[ev.ProcessID] = ev.EventID
	case turns.TaskCreated:
		c.opened[ev.TaskID] = ev.EventID
	case turns.CompactionBegun:
		c.opened[ev.ThreadID] = ev.EventID
	case turns.ModelCompleted:
		c.answer = ev.EventID
	case turns.ModelFailed, turns.FallbackApplied, turns.ToolResult, turns.ToolFailed, turns.ContextCompacted:
		c.next = ev.EventID
	}
}
