package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/runner/hosttools"
	"holon/runner/pool"
	"holon/state"
	"holon/test/expect"
)

// The agent works in its home, has the tools of the host, and sees nothing of what
// is the host's own there.
func TestHome(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", `
rounds:
  - calls:
      - tool: ExecCommand
        arguments: {cmd: "pwd; cat AGENTS.md; ls -A .holon | wc -l; ! touch .holon/x 2>/dev/null; `+
		`! rmdir .holon 2>/dev/null; ! mv .holon away 2>/dev/null; echo kept > notes.txt"}
    expect: {}
  - expect: {exit_status: 0, contains: ["/holon/workspaces/agent_home", "Be kind."], matches: "(?m)^0$"}
    calls: [{tool: Ping, arguments: {who: me}}]
  - expect: {contains: "pong for ada"}
    text: done
`)
	id := l.agent("ada")
	expect.NoError(t, os.WriteFile(filepath.Join(l.home.AgentDir(id), "AGENTS.md"), []byte("Be kind.\n"), 0o600))
	var calls []hosttools.Call
	k := l.pool(func(o *pool.Options) {
		o.Tools = func(agentID string) []hosttools.Tool {
			return []hosttools.Tool{{Name: "Ping", Description: "Answers.",
				Schema: json.RawMessage(`{"type":"object","properties":{"who":{"type":"string"}}}`),
				Call: func(_ context.Context, c hosttools.Call) (hosttools.Result, error) {
					calls = append(calls, c)
					return hosttools.Result{Text: "pong for " + agentID}, nil
				}}}
		}
	})
	c := &conversation{lab: l, pool: k, agent: id}
	if r := c.say("done"); r.Record.ToolCalls.Total != 2 {
		t.Errorf("%d tool calls", r.Record.ToolCalls.Total)
	}
	if len(calls) != 1 || string(calls[0].Arguments) != `{"who":"me"}` {
		t.Errorf("calls = %v", calls)
	}
	if text, err := os.ReadFile(filepath.Join(l.home.AgentDir(id), "notes.txt")); err != nil ||
		string(text) != "kept\n" {
		t.Errorf("the agent's file: %q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(l.home.AgentPrivateDir(id), "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the agent wrote into what is the host's: %v", err)
	}
}

// A message that the user sends while a turn runs is given to the model in that turn, once.
func TestInterject(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "while [ ! -e go ]; do sleep 0.02; done", yield_time_ms: 900000}}]
  - text: "heard {{last_said}}"
`)
	id := l.agent("ada")
	k := l.pool()
	if err := k.Interject(t.Context(), id, "turn_1", "msg_0", "too early"); !state.IsCode(err, pool.CodeNoTurn) {
		t.Errorf("before the turn: %v", err)
	}
	said := make(chan error, 3)
	w := &lines{onRun: func() {
		for range 2 { // as when the answer was lost
			said <- k.Interject(t.Context(), id, "turn_1", "msg_1", "hurry up")
		}
		said <- k.Interject(t.Context(), id, "turn_1", "msg_1", "another text")
		l.write("go")
	}}
	r, err := k.Turn(t.Context(), turnOf(id, "turn_1", "wait"), w.begin, w)
	expect.NoError(t, err)
	if err := errors.Join(<-said, <-said); err != nil {
		t.Errorf("Interject: %v", err)
	}
	if err := <-said; !state.IsCode(err, responses.CodeInputConflict) {
		t.Errorf("another text under the same id: %v", err)
	}
	if r.Answer != "heard hurry up" || !slices.Equal(r.Inserted(), []string{"msg_1"}) {
		t.Errorf("%q, inserted %v", r.Answer, r.Inserted())
	}
	if err := k.Interject(t.Context(), id, "turn_1", "msg_2", "too late"); !state.IsCode(err, pool.CodeNoTurn) {
		t.Errorf("after the turn: %v", err)
	}
}

// A turn that its user ends is cancelled, and its container takes the next one.
func TestAbort(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", working)
	id := l.agent("ada")
	k := l.pool()
	ctx, abort := context.WithCancelCause(t.Context())
	w := &lines{onRun: func() { abort(runner.ErrInterrupted) }}
	r, err := k.Turn(ctx, turnOf(id, "turn_1", "go on"), w.begin, w)
	expect.NoError(t, err)
	if r.Status != responses.StatusCancelled || r.Lost || r.Failure == nil || r.ResponseID == "" {
		t.Errorf("an aborted turn: %+v", r)
	}
	before := l.only()
	c := &conversation{lab: l, pool: k, agent: id, previous: r.ResponseID}
	if r := c.say("after"); r.Fresh != "" || l.only().Handle != before.Handle {
		t.Errorf("the container was not kept: %s", r.Fresh)
	}
	if _, err := k.Turn(ctx, turnOf(id, "turn_2", "go on"), nil, w); !state.IsCode(err, responses.CodeCancelled) {
		t.Errorf("a turn that was ended before it began: %v", err)
	}
}

// A turn that agentd, the engine or the disk refuses was not begun, says why, and
// hinders no other.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", counting)
	id := l.agent("ada")
	k := l.pool()
	begun := func() { t.Error("a turn was begun") }
	for name, test := range map[string]struct {
		turn pool.Turn
		code state.Code
	}{
		"no home": {turnOf("homeless", "turn_1", "x"), pool.CodeNoHome},
		"no such image": {pool.Turn{AgentID: id, Image: "holon/no-such-image",
			Turn: runner.NewTurn("turn_1", "x")},
			"image_not_found"},
		"no such agent": {turnOf("../ada", "turn_1", "x"),
			state.CodeInvalidAgent},
		"no such conversation": {pool.Turn{AgentID: id,
			Turn: continuing("resp_nothing", "x")},
			responses.CodePreviousNotFound},
		"no turn id": {turnOf(id, "no/id", "x"), responses.CodeInvalidValue},
	} {
		_, err := k.Turn(t.Context(), test.turn, begun, new(lines))
		if !state.IsCode(err, test.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	full := l.pool(func(o *pool.Options) { o.Quota.Free = 1 << 60 })
	if _, err := full.Turn(t.Context(),
		turnOf(l.agent("eve"), "turn_1", "x"), begun,
		new(lines)); !state.IsCode(err, runner.CodeDiskFull) {
		t.Errorf("no room: %v", err)
	}
	c := &conversation{lab: l, pool: k, agent: id}
	c.say("one")
}

// A turn that writes more than it may is ended, and says so. It goes on writing: what it wrote before the first
// measurement does not count.
func TestDiskQuota(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", `
rounds:
  - calls:
      - tool: ExecCommand
        arguments: {cmd: "while head -c 1000000 /dev/zero >> big; do sleep 0.1; done", yield_time_ms: 900000}
  - text: done
`)
	k := l.pool(func(o *pool.Options) { o.Quota.Run = 10 << 20 })
	w := new(lines)
	r, err := k.Turn(t.Context(), turnOf(l.agent("ada"), "turn_1", "x"), w.begin, w)
	expect.NoError(t, err)
	expect.Equal(t, "r.Status", r.Status, responses.StatusIncomplete)
	expect.Equal(t, "r.Failure.Code", r.Failure.Code, "disk_quota")
	expect.Equal(t, "r.Lost", r.Lost, false)
}

// More agents than containers: all get their turn, in few containers.
func TestRoom(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "sleep 0.05"}}]
  - text: done
`)
	const most = 2
	k := l.pool(func(o *pool.Options) { o.MaxContainers = most })
	var group sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		l.agent(id)
		for range 3 {
			group.Go(func() {
				w := new(lines)
				r, err := k.Turn(t.Context(), turnOf(id, responses.NewID(responses.PrefixTurn), "x"), w.begin, w)
				if err != nil || r.Status != responses.StatusCompleted {
					t.Errorf("agent %s: %+v, %v", id, r, err)
				}
				running := 0
				for _, c := range l.containers() {
					if c.Status != "exited" {
						running++
					}
				}
				if running > most {
					t.Errorf("%d containers run", running)
				}
			})
		}
	}
	group.Wait()
}

// A turn that waits for a container can be cancelled, and does not block others.
func TestRoomGivenUp(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", working)
	k := l.pool(func(o *pool.Options) { o.MaxContainers = 1 })
	l.agent("ada")
	l.agent("eve")
	ctx, giveUp := context.WithCancelCause(t.Context())
	waited := make(chan error, 1)
	w := &lines{onRun: func() {
		go func() {
			_, err := k.Turn(ctx, turnOf("eve", "turn_1", "x"), nil, new(lines))
			waited <- err
		}()
		giveUp(runner.ErrInterrupted)
		if err := <-waited; !state.IsCode(err, responses.CodeCancelled) {
			t.Errorf("given up: %v", err)
		}
		l.write("go")
	}}
	r, err := k.Turn(t.Context(), turnOf("ada", "turn_1", "x"), w.begin, w)
	if err != nil || r.Status != responses.StatusCompleted {
		t.Fatalf("%+v, %v", r, err)
	}
	c := &conversation{lab: l, pool: k, agent: "eve"}
	l.scenario = filepath.Join(l.home.Dir(), "other.yaml")
	expect.NoError(t, os.WriteFile(l.scenario, []byte(counting), 0o644))
	c.say("one")
}

// Old turns leave the disk, the conversation stays.
func TestPrune(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", counting)
	id := l.agent("ada")
	k := l.pool(func(o *pool.Options) { o.KeepTurns = 2 })
	c := &conversation{lab: l, pool: k, agent: id}
	var ids []string
	for _, want := range []string{"one", "two", "three", "four"} {
		ids = append(ids, c.say(want).TurnID)
	}
	dir := filepath.Join(l.home.AgentPrivateDir(id), "session", "output", "turns")
	outside := filepath.Join(l.home.Dir(), "outside")
	expect.NoError(t, os.Mkdir(outside, 0o700))
	expect.NoError(t, os.Symlink(outside, filepath.Join(dir, "turn_0")))
	l.clock.pass(time.Minute)
	l.sweep(k)
	left, err := os.ReadDir(dir)
	expect.NoError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, ids[2:]) {
		t.Errorf("left %v of %v", names, ids)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	c.say("five")
}

// No secret is told: not of the turn's own token, nor of others.
func TestSecrets(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", `
rounds:
  - text: "the key is hunter2-hunter2-hunter2"
    error: {kind: transport, message: "no: hunter2-hunter2-hunter2", attempts: 9}
`)
	l.secrets.Add("KEY", "hunter2-hunter2-hunter2")
	w := new(lines)
	r, err := l.pool().Turn(t.Context(), turnOf(l.agent("ada"), "turn_1", "x"), w.begin, w)
	expect.NoError(t, err)
	if r.Status != responses.StatusFailed || r.Failure == nil || strings.Contains(r.Answer+r.Failure.Message, "hunter2") {
		t.Errorf("the turn is %+v, %+v", r, r.Failure)
	}
}
