package scheduler

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"holon/state/ledger"
)

func checkNewWork(n NewWork) error {
	return checkWorkChange(WorkChange{Objective: &n.Objective, PlanStatus: &n.PlanStatus, Todo: &n.Todo})
}

func checkWorkChange(c WorkChange) error {
	if c.Objective != nil {
		if err := checkObjective(*c.Objective); err != nil {
			return err
		}
	}
	if c.PlanStatus != nil {
		if err := checkPlanStatus(*c.PlanStatus); err != nil {
			return err
		}
	}
	if c.Todo != nil {
		if err := checkTodo(*c.Todo); err != nil {
			return err
		}
	}
	switch {
	case c.BlockedBy != nil && (len(*c.BlockedBy) > maxBlocker || !utf8.ValidString(*c.BlockedBy)):
		return invalidWork("blocked_by", "say it in at most %d bytes of text", maxBlocker)
	case c.RecheckAfter < 0 || c.RecheckAfter > maxRecheck:
		return invalidWork("recheck_after", "it is more than 0 milliseconds and at most a year")
	case c.RecheckAfter > 0 && (c.BlockedBy == nil || *c.BlockedBy == ""):
		return invalidWork("recheck_after", "only with a blocked_by that is not empty; leave it out")
	}
	return nil
}

func checkObjective(text string) error {
	if strings.TrimSpace(text) == "" || len(text) > maxObjective || !utf8.ValidString(text) {
		return invalidWork("objective", "say what is to be reached in 1 to %d bytes of text", maxObjective)
	}
	return nil
}

func checkPlanStatus(p ledger.PlanStatus) error {
	if p != ledger.PlanDraft && p != ledger.PlanReady && p != ledger.PlanNeedsInput {
		return invalidWork("plan_status", "use draft, ready or needs_input, not %.40q", p)
	}
	return nil
}

func checkTodo(list []ledger.Todo) error {
	if len(list) > maxTodos {
		return invalidWork(
			"todo_list",
			"it has %d entries and may have %d; put details into the plan",
			len(list),
			maxTodos,
		)
	}
	for i, t := range list {
		switch {
		case strings.TrimSpace(t.Text) == "" || len(t.Text) > maxTodo || !utf8.ValidString(t.Text):
			return invalidWork(fmt.Sprintf("todo_list[%d].text", i), "it is 1 to %d bytes of text", maxTodo)
		case t.State != ledger.TodoPending && t.State != ledger.TodoInProgress && t.State != ledger.TodoCompleted:
			return invalidWork(
				fmt.Sprintf("todo_list[%d].state", i),
				"use pending, in_progress or completed, not %.40q",
				t.State,
			)
		}
	}
	return nil
}

func invalidWork(field, format string, args ...any) error {
	return refused(CodeInvalidWork, field, fmt.Sprintf(format, args...), "%s is not valid", field)
}
