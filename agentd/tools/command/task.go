package command

import (
	"context"
	"errors"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/agentd/tools"
	"holon/responses"
	wire "holon/responses/tasks"
	"holon/responses/turns"
)

// maxListed bounds TaskList.
const maxListed = 50

// listArgs are the arguments of TaskList.
type listArgs struct{}

// taskTool is a tool that works on tasks. Which one is decided by its functions.
type taskTool struct {
	Family
	def tools.Definition
	run func(ctx context.Context, env tools.Env, call tools.Call) (summary string, result any, err error)
}

func (t *taskTool) Definition() tools.Definition { return t.def }

func (t *taskTool) Run(ctx context.Context, env tools.Env, call tools.Call) tools.Output {
	summary, result, err := t.run(ctx, env, call)
	if err != nil {
		return tools.Fail(taskError(err))
	}
	return tools.Output{Summary: summary, Result: result}
}

// taskError is an error of the tasks as a model reads it.
func taskError(err error) *tools.Error {
	if e, ok := errors.AsType[*tools.Error](err); ok {
		return e
	}
	e, ok := errors.AsType[*responses.Error](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), !ok:
		return &tools.Error{Kind: tools.KindCanceled, Message: "the wait was ended with its turn; the task goes on"}
	case e.Type == responses.TypeNotFound:
		return &tools.Error{Kind: kindTaskNotFound, Message: e.Message, Details: map[string]any{"field": e.Param},
			RecoveryHint: "call " + listName + " to see the tasks of this session"}
	}
	return tools.InvalidInput(e.Param, e.Message, e.Hint)
}

// onTask returns a tool that does one thing with a task. do gets the arguments of a call.
func onTask[T any](name, description string, adjust map[string]func(*jsonschema.Schema),
	do func(ctx context.Context, env tools.Env, args T) (summary string, result any, err error)) (tools.Tool, error) {
	def, err := define[T](name, description, adjust)
	return &taskTool{def: def, run: func(ctx context.Context, env tools.Env, call tools.Call) (string, any, error) {
		args, bad := tools.Decode[T](call)
		if bad != nil {
			return "", nil, bad
		}
		return do(ctx, env, args)
	}}, err
}

func newList(c *commands) (tools.Tool, error) {
	return onTask(listName, "Lists the tasks of this session with their states, the newest first.", nil,
		func(_ context.Context, env tools.Env, _ listArgs) (string, any, error) {
			list := c.tasks.List(env.SessionID, maxListed)
			for _, t := range list.Tasks {
				c.saw(t.ID, t.Status)
			}
			return counted(len(list.Tasks)+list.Omitted, "task"), list, nil
		})
}

func newStatus(c *commands) (tools.Tool, error) {
	return onTask(statusName,
		"Tells the state of a task, what it runs and how it ended. It shows no output; TaskOutput does.",
		map[string]func(*jsonschema.Schema){"task_id": taskID},
		func(_ context.Context, env tools.Env, args wire.StatusArgs) (string, any, error) {
			s, err := c.tasks.Get(env.SessionID, args.TaskID)
			if err != nil {
				return "", nil, err
			}
			c.saw(s.TaskID, s.Status)
			return "task is " + string(s.Status) + ": " + s.Summary, wire.StatusResult{Task: s}, nil
		})
}

const outputDescription = "Shows the output of a task, and how it ended. By default it waits until the task has " +
	"ended, for timeout_ms at most.\n" +
	"It always shows the whole output, by its beginning and end when it is long; the result names the file with " +
	"all of it."

func newOutput(c *commands) (tools.Tool, error) {
	return onTask(OutputName, outputDescription, map[string]func(*jsonschema.Schema){
		"task_id":           taskID,
		"block":             about("wait for the task to end (the default); false returns what there is at once"),
		"timeout_ms":        about("how long to wait, in milliseconds; default 30000", upTo(maxWait)),
		"max_output_tokens": outputTokens,
	}, func(ctx context.Context, env tools.Env, args wire.OutputArgs) (string, any, error) {
		var wait time.Duration
		if args.Waits() {
			wait = milliseconds(args.TimeoutMS, defaultWait)
		}
		r, err := c.tasks.Output(ctx, env.SessionID, args.TaskID, wait,
			previewBytes(env.Policy.Budget(args.MaxOutputTokens)))
		if err != nil {
			return "", nil, err
		}
		c.saw(r.Task.TaskID, r.Task.Status)
		return "task is " + string(r.Task.Status) + ": " + r.Task.Summary, r, nil
	})
}

func newInput(c *commands) (tools.Tool, error) {
	return onTask(inputName,
		"Writes to the input of a task that was started with accepts_input. Read what it answers with TaskOutput "+
			"and block false.", map[string]func(*jsonschema.Schema){
			"task_id":     taskID,
			"input":       about("text to write, as it is: end a line with \\n; on a terminal \\u0003 is Ctrl-C"),
			"close_input": about("end the command's input, after the text"),
		}, func(ctx context.Context, env tools.Env, args wire.InputArgs) (string, any, error) {
			r, err := c.tasks.Input(ctx, env.SessionID, args.TaskID,
				wire.Input{Input: args.Input, Close: args.CloseInput})
			if err != nil {
				return "", nil, err
			}
			// the beginning of its process has to be among the facts
			if r.AcceptedInput && env.Processes != nil && c.tasks.BegunIn(args.TaskID, env.ThreadID) {
				env.Processes.Written(turns.ProcessOf(args.TaskID),
					turns.Written{Bytes: r.BytesWritten, Target: r.InputTarget, Accepted: true})
			}
			return r.SummaryText, r, nil
		})
}

func newStop(c *commands) (tools.Tool, error) {
	return onTask(StopName, "Ends a task and everything that it started.",
		map[string]func(*jsonschema.Schema){
			"task_id": taskID,
			"force": about("kill it at once; otherwise it is asked to end and killed when it does not within " +
				"5 seconds"),
		}, func(ctx context.Context, env tools.Env, args wire.StopArgs) (string, any, error) {
			r, err := c.tasks.Stop(ctx, env.SessionID, args.TaskID, args.Force)
			if err != nil {
				return "", nil, err
			}
			c.saw(r.Task.TaskID, r.Task.Status)
			return r.SummaryText, r, nil
		})
}

// taskID describes the argument that all tools but TaskList have.
var taskID = about("id of the task", notEmpty)

// saw notes that the model has seen the end of a task and needs no notice.
func (c *commands) saw(id string, status wire.Status) {
	if status.Terminal() {
		c.tasks.Seen(id)
	}
}
