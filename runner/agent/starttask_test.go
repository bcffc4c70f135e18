package agent_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"holon/responses/tasks"
	"holon/runner"
	"holon/runner/agent"
	"holon/runner/agent/scheduler"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
	"holon/test/memory"
)

// starter is a container that is only asked to start commands.
type starter struct {
	agent.Containers
	asked atomic.Int64
	start func(ctx context.Context, agentID string, start tasks.Start) error
}

func (*starter) Attend(context.Context, pool.Turn) error { return nil }

func (c *starter) StartTask(ctx context.Context, t pool.Turn, start tasks.Start) error {
	c.asked.Add(1)
	return c.start(ctx, t.AgentID, start)
}

// A command that could not be started is started when it comes again under its key, and no more than once; one that may
// have been started is not. Callers that come while it is being started get the same answer.
func TestStartTaskAgain(t *testing.T) {
	t.Parallel()
	runs := func(l **alone) func(context.Context, string, tasks.Start) error {
		return func(ctx context.Context, agentID string, start tasks.Start) error {
			return (*l).runtime.Scheduler().ReportTask(ctx, agentID, tasks.Report{Task: &tasks.Snapshot{
				TaskID: start.TaskID, Status: tasks.Running, Command: &tasks.Command{Cmd: start.Cmd}}})
		}
	}
	for name, c := range map[string]struct {
		code  state.Code
		asked int64 // how often the container is
		want  tasks.Status
	}{
		"not started":         {runner.CodeNotReady, 2, tasks.Running},
		"perhaps not started": {pool.CodeUnclear, 1, tasks.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(memory.Dir(t), "ledger.db")
			synctest.Test(t, func(t *testing.T) {
				var l *alone
				begun, end := make(chan bool, 2), make(chan bool)
				containers := &starter{start: func(context.Context, string, tasks.Start) error {
					begun <- true
					<-end
					return &pool.Error{Code: c.code, Message: "there is no container"}
				}}
				l = newAlone(t, path, stillHomes{},
					func(cfg *agent.Config) { cfg.Containers = containers })
				defer l.close()
				start := func() (ledger.Task, error) {
					return l.runtime.StartTask(t.Context(),
						scheduler.NewTask{AgentID: "main", Key: "k", Start: tasks.Start{Cmd: "make"}})
				}
				errs := make(chan error, 2)
				for range cap(errs) {
					go func() {
						_, err := start()
						errs <- err
					}()
				}
				<-begun
				synctest.Wait() // both callers wait for the container now
				close(end)
				one, other := <-errs, <-errs // only a command that was not started fails for both
				if one == nil && other == nil || c.want == tasks.Running && (one == nil || other == nil) {
					t.Errorf("calls at the same time: %v and %v", one, other)
				}
				containers.start = runs(&l)
				for range 2 {
					if task, err := start(); err != nil || task.Status != c.want {
						t.Errorf("the same again: %s (%v), want %s", task.Status, err, c.want)
					}
				}
				if n := containers.asked.Load(); n != c.asked {
					t.Errorf("the container was asked %d times, want %d", n, c.asked)
				}
			})
		})
	}
}
