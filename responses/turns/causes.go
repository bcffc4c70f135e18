package turns

import "cmp"

// Causes knows which event of a turn caused the next one.
type Causes struct {
	turn   string            // turn.submitted
	answer string            // the last fact of the last model request, which asks for calls of tools
	next   string            // what leads to the next request to a model
	opened map[string]string // what began, by the id of a request, a call, a process, a task or a thread
}

// Of returns the id of the event that caused ev; "" for what begins the turn.
func (c *Causes) Of(ev RuntimeEvent) string {
	for _, id := range []string{ev.ModelRequestID, ev.ProcessID, ev.ToolCallID, ev.TaskID} {
		if cause := c.opened[id]; cause != "" {
			return cause
		}
	}
	switch ev.Type {
	case ToolStarted, PermissionDecided, ActionRequired:
		return cmp.Or(c.answer, c.turn) // before there is one, the request answers a call of its client's function
	case ModelRequested, FallbackApplied, TaskCreated, CompactionBegun:
		return c.next
	case ContextCompacted, CompactionFailed:
		return c.opened[ev.ThreadID]
	}
	return c.turn
}

// maxOpened bounds what Causes keeps of a turn: its facts may be a hostile container's.
const maxOpened = 1 << 16

// Take takes in the next event.
func (c *Causes) Take(ev RuntimeEvent) {
	if c.opened == nil || len(c.opened) >= maxOpened {
		c.opened = make(map[string]string)
	}
	switch ev.Type {
	case TurnSubmitted:
		c.turn, c.next = ev.EventID, ev.EventID
	case ModelRequested:
		c.opened[ev.ModelRequestID], c.answer = ev.EventID, ev.EventID
	case ToolStarted, ActionResolved:
		c.opened[ev.ToolCallID] = ev.EventID
	case ProcessStarted:
		c.opened[ev.ProcessID] = ev.EventID
	case TaskCreated:
		c.opened[ev.TaskID] = ev.EventID
	case CompactionBegun:
		c.opened[ev.ThreadID] = ev.EventID
	case ModelCompleted:
		c.answer = ev.EventID
	case ModelFailed:
		c.answer, c.next = ev.EventID, ev.EventID
	case FallbackApplied, ToolResult, ToolFailed, ContextCompacted:
		c.next = ev.EventID
	}
}
