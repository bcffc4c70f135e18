package agent_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent"
	"holon/runner/agent/scheduler"
	"holon/runner/pool"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/memory"
)

// stopped is a container that is only stopped.
type stopped struct {
	agent.Containers
	agents chan string
}

func (c *stopped) Stop(_ context.Context, agentID string) error {
	c.agents <- agentID
	return nil
}

// Attend is asked when the tasks are looked after while the agent is not removed yet.
func (*stopped) Attend(context.Context, pool.Turn) error { return nil }

func (c *stopped) StopTask(context.Context, pool.Turn, string, bool) (*tasks.StopResult, error) {
	return nil, &pool.Error{Code: "engine_unavailable", Message: "no engine answers"}
}

// removedWithTask removes the agent worker while a task of it is open, and returns the id of the task.
func (l *alone) removedWithTask() string {
	l.t.Helper()
	s := l.runtime.Scheduler()
	if _, err := l.runtime.CreateAgent(l.t.Context(), "worker", ""); err != nil {
		l.t.Fatal(err)
	}
	task, _, err := s.CreateTask(l.t.Context(), scheduler.NewTask{AgentID: "worker", Start: tasks.Start{Cmd: "sleep 9"}})
	expect.NoError(l.t, err)
	report := tasks.Report{Task: &tasks.Snapshot{TaskID: task.ID, Status: tasks.Running,
		Command: &tasks.Command{Cmd: "sleep 9"}}}
	expect.NoError(l.t, s.ReportTask(l.t.Context(), "worker", report))
	if _, err := s.Archive(l.t.Context(), scheduler.Archive{AgentID: "worker", By: "operator"}); err != nil {
		l.t.Fatal(err)
	}
	return task.ID
}

// wantEnded waits until the container of worker was stopped and the task has failed.
func (l *alone) wantEnded(containers *stopped, taskID string) {
	l.t.Helper()
	select {
	case id := <-containers.agents:
		expect.Equal(l.t, "the container of … is stopped", id, "worker")
	case <-time.After(time.Minute):
		l.t.Fatal("no container is stopped")
	}
	for {
		changed := l.store.Changed("worker")
		var task ledger.Task
		err := l.store.View(l.t.Context(), func(v ledger.View) (err error) {
			task, err = v.Task("worker", taskID)
			return err
		})
		expect.NoError(l.t, err)
		if task.Status == tasks.Failed {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			l.t.Fatalf("the task is %s, want %s", task.Status, tasks.Failed)
		}
	}
}

// Retiring an agent that was removed stops its container, also when its tasks cannot be stopped one by one, and ends
// them with it.
func TestRetire(t *testing.T) {
	t.Parallel()
	containers := &stopped{agents: make(chan string, 100)}
	l := newAlone(t, filepath.Join(memory.Dir(t), "ledger.db"), stillHomes{}, func(cfg *agent.Config) {
		cfg.Containers = containers
	})
	defer l.close()
	task := l.removedWithTask()
	l.runtime.Retire(t.Context(), "worker")
	l.wantEnded(containers, task)
}

// A process that finds an agent that was removed with a task that is open gives it no container: it ends what is left.
func TestRetireAtTheNextStart(t *testing.T) {
	t.Parallel()
	path, containers := filepath.Join(memory.Dir(t), "ledger.db"), &stopped{agents: make(chan string, 100)}
	l := newAlone(t, path, stillHomes{}, nil) // which looks after no tasks
	task := l.removedWithTask()
	l.close()
	l = newAlone(t, path, stillHomes{}, func(cfg *agent.Config) { cfg.Containers = containers })
	defer l.close()
	l.wantEnded(containers, task)
}
