package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

const taskOps = "task-start task-start task-start task-end task-end task-stop task-report task-report task-report " +
	"task-stale task-run task-gone task-fail "

// taskWorld is what the containers of agents know of their tasks.
type taskWorld struct {
	known map[string][]tasks.Report // by agent
	done  map[string]bool           // steps of the script that changed a container
	ended map[string]tasks.Status   // tasks that the ledger says have ended
	run   []string                  // tasks of the operator that no container knows
}

// task is what happens to the tasks of an agent.
func (w *world) task(i int, o op) error {
	tw := &w.tasks
	known := tw.known[o.Agent]
	once := func(change func()) {
		if key := fmt.Sprint(o.Do, i); !tw.done[key] {
			tw.done[key] = true
			change()
		}
	}
	at := func() *tasks.Report { return &known[o.N%len(known)] }
	switch {
	case o.Do == "task-start":
		once(func() {
			r := report(fmt.Sprint("task_", o.Agent, i), tasks.Running, w.now)
			if t := w.running[o.Agent]; t != nil { // its facts tell of the process and the task, before the follower or after
				r.Task.TurnID = w.turnOf(t)
				t.begin(turns.ProcessOf(r.Task.TaskID), "")
				t.facts = append(t.facts, scheduler.Progress{Task: r.Task})
			}
			tw.known[o.Agent] = append(known, r)
		})
		return nil
	case o.Do == "task-run":
		t, _, err := w.m.CreateTask(w.ctx, scheduler.NewTask{AgentID: o.Agent, Key: fmt.Sprint("run", i),
			Start: tasks.Start{Cmd: "make"}})
		if err == nil && o.N%2 == 0 {
			once(func() { tw.known[o.Agent] = append(known, report(t.ID, tasks.Running, w.now)) })
		} else if err == nil {
			tw.run = append(tw.run, t.ID)
		}
		return err
	case o.Do == "task-fail":
		if len(tw.run) == 0 {
			return nil
		}
		err := w.m.EndTask(w.ctx, o.Agent, tw.run[o.N%len(tw.run)], ledger.TaskNotStarted, "it was not started")
		if state.IsCode(err, ledger.CodeNotFound) {
			return nil // it is of the other agent
		}
		return err
	case len(known) == 0:
		return nil
	case o.Do == "task-stop":
		if r := at(); r.Task.Status == tasks.Running {
			r.Task.Status = tasks.Cancelling
		}
	case o.Do == "task-end":
		if r := at(); !r.Task.Status.Terminal() {
			end := []tasks.Status{tasks.Completed, tasks.Failed, tasks.Cancelled}[o.N%3]
			*r = report(r.Task.TaskID, end, w.now)
		}
	case o.Do == "task-stale": // an older state comes after a newer one
		return w.m.ReportTask(w.ctx, o.Agent, report(at().Task.TaskID, tasks.Running, w.now))
	case o.Do == "task-gone": // the container has lost its records
		once(func() { tw.known[o.Agent] = slices.Delete(slices.Clone(known), 0, o.N%len(known)) })
		return w.follow(o.Agent)
	}
	return w.follow(o.Agent)
}

// follow reports what the container of an agent knows.
func (w *world) follow(agent string) error {
	var ids []string
	for _, r := range w.tasks.known[agent] {
		if err := w.m.ReportTask(w.ctx, agent, r); err != nil {
			return err
		}
		ids = append(ids, r.Task.TaskID)
	}
	return w.m.SettleTasks(w.ctx, agent, ids, w.now, "its container does not know it")
}

func (w *world) turnOf(t *turn) string {
	for id, other := range w.containers {
		if other == t {
			return id
		}
	}
	return ""
}

// The end of a task tells how long its command ran, also before it became a task, and that its agent gets it; and names
// the file with what it printed as agentd names it, not by its path in the container.
func TestTaskEndTellsItsCommand(t *testing.T) {
	w := open(t)
	r := report("task_1", tasks.Failed, w.now)
	r.Task.Command.DurationMS = 6030
	r.Task.Command.OutputPath = "/holon/output/tasks/task_1/stdout.log"
	w.must(w.m.ReportTask(w.ctx, "alpha", r))
	var p turns.TaskEnd
	w.must(json.Unmarshal(w.newest(turns.TaskFailed).Data, &p))
	expect.Equal(t, "duration", p.DurationMS, 6030)
	expect.Equal(t, "delivery", p.DeliveryState, "queued")
	_, events := w.events(0)
	for _, e := range events {
		var data map[string]any
		if json.Unmarshal(e.Data, &data) == nil && data["output_ref"] != nil {
			expect.Equal(t, "file in "+e.Class, data["output_ref"], "tasks/task_1/stdout.log")
		}
	}
	contains(t, "the end", string(w.newest(turns.TaskFailed).Data), `"output_ref"`)
}

// What a fuller report said of a command stays, in whatever order the facts of its turn and the container's list come.
func TestFullerReportStays(t *testing.T) {
	full := tasks.Command{Cmd: "make all", CmdPreview: "make all", CmdDigest: "sha256:1", Workdir: "/w", Shell: "sh",
		TTY: true, Login: true, OutputPath: "/o/stdout.log",
		StderrPath: "/o/stderr.log", AcceptsInput: true, InputTarget: "tty",
		TerminalReentry: true, PromotedFromExecCommand: true}
	thin := tasks.Command{Cmd: "make", CmdPreview: "make", Workdir: "/w", AcceptsInput: true}
	ended := full
	ended.AcceptsInput, ended.InputTarget, ended.ExitStatus, ended.ResultSummary = false, "", new(0), "done"
	for name, order := range map[string][]tasks.Command{"the list first": {full, thin, full},
		"the facts first": {thin, full}, "twice": {thin, full, thin}} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			reported := func(c tasks.Command, status tasks.Status) (got ledger.Task) {
				r := report("task_1", status, w.now)
				r.Task.Command = &c
				w.must(w.m.ReportTask(w.ctx, "alpha", r))
				w.must(w.store.View(w.ctx, func(v ledger.View) (err error) { got, err = v.Task("alpha", "task_1"); return err }))
				return got
			}
			var got ledger.Task
			for _, c := range order {
				got = reported(c, tasks.Running)
			}
			expect.Equal(t, "command", *got.Command(), full)
			got = reported(ended, tasks.Completed)
			expect.Equal(t, "input target at the end", got.Command().InputTarget, "tty")
			expect.Equal(t, "summary at the end", got.Command().ResultSummary, "done")
			expect.Equal(t, "exit status at the end", *got.Command().ExitStatus, 0)
		})
	}
}

func report(id string, status tasks.Status, now time.Time) tasks.Report {
	r := tasks.Report{
		Task: &tasks.Snapshot{TaskID: id, Kind: tasks.KindCommand, Status: status, Summary: "command is " +
			string(status), CreatedAt: turns.At(now), UpdatedAt: turns.At(now), Command: &tasks.Command{Cmd: "make",
			CmdPreview: "make"}},
	}
	if status.Terminal() {
		r.Output = &tasks.Output{
			OutputPreview:  "printed\n",
			OutputBytes:    8,
			Artifacts:      []tasks.Artifact{{Path: "/out"}},
			OutputArtifact: new(0),
		}
		r.Task.Failure = map[tasks.Status]string{tasks.Failed: "nonzero_exit", tasks.Cancelled: "stopped"}[status]
	}
	return r
}

// checkTasks: what has ended stays as it is, and its agent gets one message of it (9).
func (w *world) checkTasks(v ledger.View, agentID string, msgs []ledger.Message) error {
	recorded := make(map[string]int)
	for _, m := range msgs {
		if m.Kind == ledger.KindTaskResult {
			recorded[m.TaskID]++
		}
	}
	list, err := v.Tasks(agentID, 1000)
	for _, t := range list {
		want := 0
		if t.Status.Terminal() && t.Result.Failure != "not_started" {
			want = 1
		}
		if agent, err := v.Agent(agentID); err == nil && agent.ArchivedAt != nil {
			want = min(want, recorded[t.ID]) // no one is there to get it
		}
		if recorded[t.ID] != want {
			w.t.Fatalf("task %s is %s, and %d messages tell of its end, want %d", t.ID, t.Status, recorded[t.ID], want)
		}
		if old, ended := w.tasks.ended[t.ID]; ended && old != t.Status {
			w.t.Fatalf("task %s ended as %s and is %s now", t.ID, old, t.Status)
		}
		if t.Status.Terminal() {
			w.tasks.ended[t.ID] = t.Status
		}
	}
	return err
}

// A report of a container that makes no sense is refused, and one that says too much is cut.
func TestReportsAreNotTrusted(t *testing.T) {
	w := open(t)
	for name, change := range map[string]func(*tasks.Report){
		"no task":            func(r *tasks.Report) { r.Task = nil },
		"no command":         func(r *tasks.Report) { r.Task.Command = nil },
		"another prefix":     func(r *tasks.Report) { r.Task.TaskID = "turn_1" },
		"a path":             func(r *tasks.Report) { r.Task.TaskID = "task_../x" },
		"an unknown status":  func(r *tasks.Report) { r.Task.Status = "fine" },
		"the host's status":  func(r *tasks.Report) { r.Task.Status = tasks.Queued },
		"a huge id":          func(r *tasks.Report) { r.Task.TaskID = "task_" + strings.Repeat("x", 1<<20) },
		"a status of spaces": func(r *tasks.Report) { r.Task.Status = " " },
	} {
		r := report("task_1", tasks.Running, w.now)
		change(&r)
		t.Log(name)
		w.refused(ledger.CodeInvalidTask)(w.m.ReportTask(w.ctx, "alpha", r))
	}
	r := report("task_1", tasks.Completed, w.now.Add(1000*time.Hour))
	long := strings.Repeat("\xff\x00x", 1<<20)
	r.Task.Command.Cmd, r.Task.Summary, r.Task.Command.OutputPath, r.Task.TurnID = long, long, long, "turn_of_another"
	r.Output.OutputPreview, r.Output.OutputArtifact = long, new(7)
	for range 30 {
		r.Output.Artifacts = append(r.Output.Artifacts, tasks.Artifact{Path: long})
	}
	w.must(w.m.ReportTask(w.ctx, "alpha", r))
	w.check()
	w.view(func(v ledger.View) error {
		task, err := v.Task("alpha", "task_1")
		if err != nil {
			return err
		}
		if len(task.Command().Cmd) > 9000 || len(task.Result.Summary) > 600 || len(task.Result.Output.OutputPreview) > 9000 ||
			len(task.Result.Output.Artifacts) > 4 || task.Result.Output.OutputArtifact != nil || task.Owner.TurnID != "" ||
			task.EndedAt.After(w.now) {
			t.Errorf("it is kept as %.2000v", task)
		}
		return nil
	})
}

// The message of a task's end waits while its agent is stopped, and wakes one that sleeps.
func TestTaskResults(t *testing.T) {
	w := open(t)
	w.must(w.m.Stop(w.ctx, "alpha", "test"))
	w.must(w.m.ReportTask(w.ctx, "alpha", report("task_1", tasks.Completed, w.now)))
	w.nothing()
	w.must(w.m.Start(w.ctx, "alpha", "test"))
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok || c.Message.TaskID != "task_1" || c.Message.Authority != ledger.RuntimeInstruction ||
		c.Message.Trust != ledger.TrustedSystem || !c.Continuation.ModelVisible {
		t.Fatalf("the claim is %+v, %v, %v", c, ok, err)
	}
	contains(t, "the message", c.Message.Body.Text, "task_1", "completed", "make", "printed", "/out")
}
