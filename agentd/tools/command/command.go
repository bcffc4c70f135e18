// Package command is the command family of tools: ExecCommand runs one shell
// command, ExecCommandBatch several, and TaskList, TaskStatus, TaskOutput,
// TaskInput and TaskStop go on with a command that became a task because it was
// still running when its caller stopped waiting.
//
// A command that fails is a completed command: its exit status is a result. An
// error means that it did not run or did not end by itself. The invariant: the
// raw bytes of both streams are in the log files (within the caps), and previews
// say what they leave out and what they replaced, so that a model is never shown
// something that was not printed.
//
// It does not confine the command and does not promise an order between the two
// streams. Nothing that a completed command leaves running outlives it; a task
// belongs to its session and is seen by no other.
package command

import (
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/responses/turns"
)

// Names of the tools.
const (
	execName   = "ExecCommand"
	batchName  = "ExecCommandBatch"
	listName   = "TaskList"
	statusName = "TaskStatus"
	OutputName = "TaskOutput"
	inputName  = "TaskInput"
	StopName   = "TaskStop"
)

// Kinds of errors of this family, in addition to those of package tools.
const (
	kindTimeout      = "command_timeout"
	kindSpawn        = "command_spawn_failed"
	kindDiskFull     = "disk_full" // the command was not started
	kindWorkdir      = "workdir_not_found"
	kindTaskNotFound = tools.KindTaskNotFound
	kindTaskLimit    = "task_limit_reached"
)

// Bounds of the arguments.
const (
	defaultYield = 30 * time.Second
	maxYield     = time.Hour
	defaultWait  = 30 * time.Second // of TaskOutput
	maxWait      = time.Hour
	// maxCommandBytes stays below the kernel's limit of 128 KiB for one argument.
	maxCommandBytes = 120_000
	maxBatch        = 12
)

// defaultTaskTime is how long a task may run.
const defaultTaskTime = 24 * time.Hour

// Options are what the family works with.
type Options struct {
	Starter *process.Supervisor
	// Tasks takes over what still runs when its caller stops waiting. Without it
	// there are no tasks: such a command is ended, and the task tools are missing.
	Tasks    *tasks.Manager
	TaskTime time.Duration // 0 means defaultTaskTime
	// StreamBytes is how much of each stream a log file holds; 0 means
	// that of package process.
	StreamBytes int64
}

// New returns the tools of the family.
func New(o Options) ([]tools.Tool, error) {
	c := &commands{starter: o.Starter, tasks: o.Tasks, taskTime: o.TaskTime, streamBytes: o.StreamBytes}
	if c.taskTime <= 0 {
		c.taskTime = defaultTaskTime
	}
	makers := []func(*commands) (tools.Tool, error){newExec, newBatch}
	if c.tasks != nil {
		makers = append(makers, newList, newStatus, newOutput, newInput, newStop)
	}
	list := make([]tools.Tool, len(makers))
	for i, make := range makers {
		var err error
		if list[i], err = make(c); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// commands is what the tools of the family share.
type commands struct {
	starter     *process.Supervisor
	tasks       *tasks.Manager // nil where there are none
	taskTime    time.Duration
	streamBytes int64
}

// define derives the definition of a tool from the type of its arguments.
func define[T any](name, description string, adjust map[string]func(*jsonschema.Schema)) (tools.Definition, error) {
	schema, err := tools.Derive[T](adjust)
	if err != nil {
		return tools.Definition{}, err
	}
	return tools.Definition{Name: name, Description: description, Parameters: schema, Traits: traits[name]}, nil
}

// traits are how the tools of the family behave. A command may do anything.
var traits = map[string]turns.Traits{
	execName:   turns.Writes(true, turns.InterruptCancel, "process"),
	batchName:  turns.Writes(true, turns.InterruptCancel, "process"),
	listName:   turns.Reads(turns.InterruptFinish, "task"),
	statusName: turns.Reads(turns.InterruptFinish, "task"),
	OutputName: turns.Reads(turns.InterruptCancel, "task"),
	inputName:  turns.Writes(true, turns.InterruptFinish, "task"),
	StopName:   turns.Writes(true, turns.InterruptFinish, "task"),
}

// about gives an argument its description, and its bounds.
func about(description string, bounds ...func(*jsonschema.Schema)) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		s.Description = description
		for _, bound := range bounds {
			bound(s)
		}
	}
}

// upTo bounds a number of milliseconds.
func upTo(limit time.Duration) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = new(1.0), new(float64(limit.Milliseconds())) }
}

func positive(s *jsonschema.Schema) { s.Minimum = new(1.0) }

func notEmpty(s *jsonschema.Schema) { s.MinLength = new(1) }

// milliseconds returns a wish of a model as a duration, def where there is none.
func milliseconds(wish int, def time.Duration) time.Duration {
	if wish <= 0 {
		return def
	}
	return time.Duration(wish) * time.Millisecond
}

// decoded returns a canonical result of type T, false when it has another shape.
func decoded[T any](canonical tools.Result) (T, bool) {
	var v T
	err := json.Unmarshal(canonical.Result, &v)
	return v, err == nil
}
