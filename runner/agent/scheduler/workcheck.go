package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/state/ledger"
)

func checkNewWork(n NewWork) error {
	return checkWorkChange(WorkChange{Objective: &n.Objective, PlanStatus: &n.PlanStatus, Todo: &n.Todo})
}

func checkWorkChange(c WorkChange) error {
	blocker := *cmp.Or(c.BlockedBy, new(string))
	switch {
	case c.Objective != nil && !isTextWithin(*c.Objective, maxObjective):
		return invalidWork("objective", "say what is to be reached in 1 to %d bytes of text", maxObjective)
	case c.PlanStatus != nil && !slices.Contains(planStatuses, *c.PlanStatus):
		return invalidWork("plan_status", "use draft, ready or needs_input, not %.40q", *c.PlanStatus)
	case len(blocker) > maxBlocker || !utf8.ValidString(blocker):
		return invalidWork("blocked_by", "say it in at most %d bytes of text", maxBlocker)
	case c.RecheckAfter < 0 || c.RecheckAfter > maxRecheck:
		return invalidWork("recheck_after", "it is more than 0 milliseconds and at most a year")
	case c.RecheckAfter > 0 && blocker == "":
		return invalidWork("recheck_after", "only with a blocked_by that is not empty; leave it out")
	}
	return checkTodo(*cmp.Or(c.Todo, new([]ledger.Todo)))
}

var (
	planStatuses = []ledger.PlanStatus{ledger.PlanDraft, ledger.PlanReady, ledger.PlanNeedsInput}
	todoStates   = []ledger.TodoState{ledger.TodoPending, ledger.TodoInProgress, ledger.TodoCompleted}
)

func isTextWithin(text string, limit int) bool {
	return strings.TrimSpace(text) != "" && len(text) <= limit && utf8.ValidString(text)
}

func checkTodo(list []ledger.Todo) error {
	if len(list) > maxTodos {
		return invalidWork("todo_list", "it has %d entries and may have %d; put details into the plan", len(list), maxTodos)
	}
	for i, t := range list {
		switch field := fmt.Sprintf("todo_list[%d]", i); {
		case !isTextWithin(t.Text, maxTodo):
			return invalidWork(field+".text", "it is 1 to %d bytes of text", maxTodo)
		case !slices.Contains(todoStates, t.State):
			return invalidWork(field+".state", "use pending, in_progress or completed, not %.40q", t.State)
		}
	}
	return nil
}

func invalidWork(field, format string, args ...any) error {
	return refused(CodeInvalidWork, field, fmt.Sprintf(format, args...), "%s is not valid", field)
}
