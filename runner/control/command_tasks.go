package control

import (
	"net/http"
	"slices"

	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// The commands of tasks do what the operator does by /control/agents/{id}/work-items and …/tasks, by the same rules.

// createTask makes a work item, or starts a command.
func (s *Server) createTask(r *http.Request, c wire.Command) (outcome, error) {
	switch {
	case c.Cmd != nil && *c.Cmd == "":
		return outcome{}, missing("cmd", "give the command to run, or leave it out for a work item")
	case c.Cmd != nil:
		t, err := s.host.StartTask(r.Context(), scheduler.NewTask{AgentID: c.AgentID, Key: stepKey(c), Purpose: c.Objective,
			Start: tasks.Start{Cmd: *c.Cmd}})
		if err != nil {
			return outcome{}, ofContainer(err)
		}
		return s.ofTask(r, c, t.ID, false)
	case c.Objective == "":
		return outcome{}, missing("objective", "say what is to be reached, or give a command to run as cmd")
	}
	w, _, err := s.steps.CreateWork(r.Context(),
		scheduler.NewWork{AgentID: c.AgentID, Key: stepKey(c), Objective: c.Objective})
	if err != nil {
		return outcome{}, err
	}
	return s.ofTask(r, c, w.ID, false)
}

// updateTask changes the objective of a work item.
func (s *Server) updateTask(r *http.Request, c wire.Command) (outcome, error) {
	if c.Objective == "" {
		return outcome{}, missing("objective", "say what is to be reached")
	}
	w, err := s.steps.UpdateWork(r.Context(), c.AgentID, c.TaskID, stepKey(c),
		scheduler.WorkChange{Objective: &c.Objective})
	return s.ofWork(r, c, w, err)
}

// startTask makes a work item the agent's current one.
func (s *Server) startTask(r *http.Request, c wire.Command) (outcome, error) {
	w, err := s.steps.PickWork(r.Context(), c.AgentID, c.TaskID, stepKey(c))
	return s.ofWork(r, c, w, err)
}

// completeTask completes a work item for the operator.
func (s *Server) completeTask(r *http.Request, c wire.Command) (outcome, error) {
	done, err := s.steps.CompleteWork(r.Context(), c.AgentID, c.TaskID, stepKey(c), nil)
	if state.IsCode(err, scheduler.CodeWorkCompleted) {
		return s.ofTask(r, c, c.TaskID, true)
	}
	return s.ofWork(r, c, done.Item, err)
}

// cancelTask ends a command that runs.
func (s *Server) cancelTask(r *http.Request, c wire.Command) (outcome, error) {
	if c.TaskID == "" {
		return outcome{}, missing("task_id", "GET /runtime/read/task_snapshot has them")
	}
	before, err := read(s, r, func(v view.Snapshot) (view.TaskStatus, error) { return v.Task(c.AgentID, c.TaskID) })
	if state.IsCode(err, ledger.CodeNotFound) {
		if _, work := s.workItem(r, c.AgentID, c.TaskID); work == nil {
			return outcome{}, &state.Error{Code: wire.CodeUnsupported, Param: "task_id",
				Message: "a work item is not cancelled", Hint: "complete_task ends it"}
		}
	}
	if err != nil {
		return outcome{}, err
	}
	if _, err := s.host.StopTask(r.Context(), c.AgentID, c.TaskID, false); err != nil {
		return outcome{}, ofContainer(err)
	}
	return s.ofTask(r, c, c.TaskID, before.Task.Status.Terminal())
}

// ofWork is the outcome of a step of a work item. What changed nothing is not among the calls of the item.
func (s *Server) ofWork(r *http.Request, c wire.Command, w ledger.WorkItem, err error) (outcome, error) {
	if c.TaskID == "" {
		return outcome{}, missing("task_id", "GET /runtime/read/task_snapshot has them")
	}
	if state.IsCode(err, ledger.CodeNotFound) {
		return outcome{}, noSuch("task_id", "work item", c.TaskID)
	}
	if err != nil {
		return outcome{}, err
	}
	return s.ofTask(r, c, w.ID, !slices.Contains(w.Calls, stepKey(c)))
}

// ofTask is an outcome with what the record says of a task.
func (s *Server) ofTask(r *http.Request, c wire.Command, taskID string, noOp bool) (outcome, error) {
	model, err := s.readModel(r.Context(), c.AgentID, "task_snapshot")
	if err != nil {
		return outcome{}, err
	}
	for _, t := range model.(record.TaskSnapshot).Tasks.Items {
		if t.TaskID == taskID {
			return outcome{result: t, noOp: noOp}, nil
		}
	}
	return outcome{}, noSuch("task_id", "task", taskID)
}
