package command

import (
	"cmp"
	"errors"

	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/responses"
	wire "holon/responses/tasks"
)

// StartTask runs a command of the operator as a task from its beginning, under the id that its caller chose. A task
// that has the id is returned as it is. Its files go into env.LogDir, in a directory of that name. The error says what
// is wrong with which field of in.
func (o Options) StartTask(env tools.Env, in wire.Start) (wire.Snapshot, error) {
	if task, err := o.Tasks.Get("", in.TaskID); err == nil {
		return task, nil
	}
	l := launch{
		Command: wire.Command{Cmd: in.Cmd, Workdir: in.Workdir, Shell: in.Shell, Login: in.Login, TTY: in.TTY,
			AcceptsInput: in.AcceptsInput},
		task: in.TaskID, timeout: cmp.Or(max(o.TaskTime, 0), defaultTaskTime), tokens: env.Policy.Budget(0),
	}
	if bad := l.resolve(env); bad != nil {
		return wire.Snapshot{}, invalidStart(bad)
	}
	c := &commands{starter: o.Starter, tasks: o.Tasks, streamBytes: o.StreamBytes}
	p, bad := c.start(env.ForCall(in.TaskID), &l)
	if bad != nil {
		return wire.Snapshot{}, invalidStart(bad)
	}
	task, err := o.Tasks.Adopt(l.task, tasks.Owner{SessionID: env.SessionID}, l.Command, p)
	if err != nil {
		p.Stop(0)
		p.Result()
	}
	if errors.Is(err, tasks.ErrTooMany) {
		err = &responses.Error{Type: responses.TypeServerError, Code: responses.CodeQueueFull, Message: err.Error(),
			Hint: "stop tasks that are not needed, then send it again"}
	}
	return task, err
}

// invalidStart is the error of a call as one of the API.
func invalidStart(bad *tools.Error) error {
	field, _ := bad.Details["field"].(string)
	e := responses.Invalid(cmp.Or(field, "cmd"), responses.CodeInvalidValue, bad.Message)
	e.Hint = bad.RecoveryHint
	return e
}
