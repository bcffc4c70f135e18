package tasks

import (
	"context"
	"testing"

	wire "holon/responses/tasks"
)

// A follower is told of the tasks that there are, of each that changes, of how all end, and then of no more.
func TestFollow(t *testing.T) {
	b := newBench(t, Options{})
	ended := b.start(wire.Command{Cmd: "echo one"})
	b.ended(ended.TaskID)
	running := b.start(wire.Command{Cmd: "sleep 600"})
	reports, over := b.follow(t.Context())

	first := <-reports
	if first.Task == nil || first.Task.TaskID != ended.TaskID || first.Output == nil ||
		first.Output.OutputPreview != "one\n" {
		t.Errorf("the first report is %+v, want the ended task with its output", first)
	}
	if r := <-reports; r.Task == nil || r.Task.TaskID != running.TaskID || r.Task.Status != wire.Running ||
		r.Output != nil {
		t.Errorf("the second report is %+v, want the running task", r)
	}
	if r := <-reports; !r.Complete || r.Task != nil {
		t.Errorf("the third report is %+v, want the mark that all were told", r)
	}
	later := b.start(wire.Command{Cmd: "sleep 600"})
	if r := <-reports; r.Task == nil || r.Task.TaskID != later.TaskID {
		t.Errorf("the report of a new task is %+v", r)
	}
	if _, err := b.Stop(t.Context(), "", later.TaskID, false); err != nil {
		t.Fatal(err)
	}
	if r := <-reports; r.Task == nil || r.Task.TaskID != later.TaskID {
		t.Errorf("the report of a stopped task is %+v", r)
	} else if r.Task.Status == wire.Cancelling {
		if r = <-reports; r.Task.Status != wire.Cancelled {
			t.Errorf("the last report of a stopped task is %+v", r.Task)
		}
	}
	go b.Close()
	for r := range reports {
		if r.Task == nil || r.Task.TaskID != running.TaskID {
			t.Errorf("while the manager ends, it tells %+v", r)
		} else if r.Task.Status.Terminal() && r.Task.Status != wire.Cancelled {
			t.Errorf("a task that ended with the runtime is %s", r.Task.Status)
		}
	}
	if err := <-over; err != nil {
		t.Errorf("the follower of a manager that has ended: %v", err)
	}
}

// follow follows in the background. reports is closed at the end, whose error over has.
func (b *bench) follow(ctx context.Context) (reports chan wire.Report, over chan error) {
	reports, over = make(chan wire.Report), make(chan error, 1)
	go func() {
		defer close(reports)
		over <- b.Follow(ctx, func(r wire.Report) error {
			reports <- r
			return nil
		})
	}()
	return reports, over
}

// A reader that leaves ends its stream and nothing else.
func TestFollowerLeaves(t *testing.T) {
	b := newBench(t, Options{})
	ctx, leave := context.WithCancel(t.Context())
	reports, over := b.follow(ctx)
	if r := <-reports; !r.Complete {
		t.Errorf("without tasks the first report is %+v, want the mark that all were told", r)
	}
	leave()
	if err := <-over; err == nil {
		t.Error("a follower whose reader left has no error")
	}
}
