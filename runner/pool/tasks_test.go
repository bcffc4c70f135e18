package pool_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/responses/tasks"
	"holon/runner/engine"
	"holon/runner/pool"
	"holon/state"
	"holon/test/expect"
)

// A task goes on when its agent's runtime shuts down and starts, also in another version, when the agent's model
// changes, and when another agent wants the room of its container. It is counted all the time.
func TestTaskGoesOn(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: "while [ ! -e go ]; do sleep 0.02; done; echo run >> ran", `+
		`yield_time_ms: 250}}]
      - text: one
  - rounds: [{text: two}]
  - rounds: [{text: three}]
`)
	k := pool.New(l.options())
	c := &conversation{lab: l, pool: k, agent: l.agent("ada")}
	c.say("one")
	before := l.only()
	goesOn := func(after string) {
		t.Helper()
		if now := l.only(); now.Handle != before.Handle || c.pool.Tasks("ada") != 1 {
			t.Fatalf("after %s: %+v, %d tasks", after, now, c.pool.Tasks("ada"))
		}
	}
	goesOn("its turn")

	expect.NoError(t, k.Close(t.Context()))
	c.pool = l.pool(func(o *pool.Options) { o.Version, o.MaxContainers = "another", 1 })
	c.say("two")
	elsewhere := turnOf("ada", "t", "go on")
	elsewhere.WorkDir = "api"
	if _, err := c.pool.Turn(t.Context(), elsewhere, nil, new(lines)); !state.IsCode(err, "container_busy") {
		t.Errorf("a turn in a workspace: %v, want container_busy", err)
	}
	goesOn("a shutdown and a turn of another version")
	expect.NoError(t, c.pool.Leave(t.Context()))
	c.pool = l.pool(func(o *pool.Options) { o.MaxContainers = 1 })
	l.sweep(c.pool)
	goesOn("another start")

	l.scenario = filepath.Join(l.home.Dir(), "other.yaml")
	expect.NoError(t, os.WriteFile(l.scenario, []byte("rounds: [{text: another model}]\n"), 0o644))
	c.model = "scripted/other"
	c.say("another model")
	goesOn("a change of the model")

	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		(&conversation{lab: l, pool: c.pool, agent: l.agent("eve"), model: "scripted/other"}).say("another model")
	}()
	for !pool.Crowded(c.pool) {
		time.Sleep(time.Millisecond)
	}
	c.say("another model")
	goesOn("a turn of an agent that waits for room")
	for range 2 { // it is not idle: neither held still nor stopped
		l.clock.pass(15 * time.Minute)
		l.sweep(c.pool)
		goesOn("a quarter of an hour")
		expect.Equal(t, "status of the container in which it works", l.only().Status, engine.StatusRunning)
	}
	l.write("go")
	l.awaitFile("ran")
	for done := false; !done; {
		select {
		case <-waiting:
			done = true
		case <-time.After(10 * time.Millisecond):
			l.sweep(c.pool)
		}
	}
	expect.Equal(t, "tasks after the end of the only one", c.pool.Tasks("ada"), 0)
	l.ranOnce()
}

// A command of the operator counts from its start on, so that its container is not given to another agent.
func TestStartedTaskCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", "rounds: [{text: done}]\n")
	k := l.pool(func(o *pool.Options) { o.MaxContainers = 1 })
	l.agent("ada")
	expect.NoError(t, k.StartTask(t.Context(), pool.Turn{AgentID: "ada"},
		tasks.Start{TaskID: tasks.Prefix + "0123456789abcdef", Cmd: "while [ ! -e go ]; do sleep 0.02; done"}))

	expect.Equal(t, "tasks after the start of one", k.Tasks("ada"), 1)
	l.write("go")
	for k.Tasks("ada") > 0 {
		l.sweep(k)
	}
}
