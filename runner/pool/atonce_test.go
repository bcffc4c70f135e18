package pool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/internal/folder"
	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/hosttools"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/runner/workspace"
	"holon/state"
	"holon/test/expect"
)

// waits is a scenario whose turns wait, the first for go1 in the tree, where it made at1.
const waits = `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "n=1; while [ -e at$n ]; do n=$((n+1)); done; touch at$n; ` +
	`while [ ! -e go$n ]; do sleep 0.02; done", yield_time_ms: 900000}}]
  - text: done
`

// calls is waits with a call of the host's then.
var calls = strings.Replace(waits, "  - text: done", `  - calls: [{tool: Ping, arguments: {}}]
  - expect: {contains: "pong"}
    text: done`, 1)

// talk is the conversation of a client with a private tree.
type talk struct {
	*lab
	id   string
	tree workspace.Held
}

func (l *lab) talk() *talk {
	l.t.Helper()
	c := &talk{lab: l, id: state.NewConversationID()}
	dir := l.home.SessionDir(c.id)
	expect.NoError(l.t, os.MkdirAll(dir, 0o700))
	source, err := workspace.Open(l.t.Context(), workspace.Options{Dir: l.t.TempDir(), CacheDir: l.home.CacheDir(),
		Claim: sessions.OfConversation(c.id).String(), TreeDir: filepath.Join(dir, "tree")})
	expect.NoError(l.t, err)
	tree, err := source.Acquire(l.t.Context())
	expect.NoError(l.t, err)
	c.tree = tree.Held()
	expect.NoError(l.t, tree.Leave())
	return c
}

// workDir is where agentd sees the tree.
func (c *talk) workDir() string {
	if c.engine.Name() == "local" {
		return c.tree.TreeDir
	}
	return runner.WorkspacesPath + "/session"
}

// conversations opens a pool of conversations.
func (c *talk) conversations(change ...func(*pool.Options)) *pool.Pool {
	return c.lab.pool(append(change, func(o *pool.Options) {
		o.Key, o.AtOnce = sessions.OfConversation, true
		configure := o.Configure
		o.Configure = func(ctx context.Context, t pool.Turn) (runner.Config, io.Closer, error) {
			cfg, access, err := configure(ctx, t)
			cfg.Resume, cfg.TreeName = &c.tree, "session"
			return cfg, access, err
		}
	})...)
}

// turn is a turn that is asked for with a body of a client, which waits for its answer.
func (c *talk) turn(id string, answer chan<- string) pool.Turn {
	t := pool.Turn{AgentID: c.id, Turn: runner.NewTurn(id, "")}
	t.Ask = func(ctx context.Context, _ *client.Client, token string) (*responses.Response, error) {
		return c.post(ctx, id, token, answer)
	}
	return t
}

// post returns when the turn is announced.
func (c *talk) post(ctx context.Context, id, token string, answer chan<- string) (*responses.Response, error) {
	sockets, err := filepath.Glob(filepath.Join(c.home.Dir(), "ipc", "s-*", "ipc", "agent.sock"))
	if err != nil || len(sockets) != 1 {
		return nil, errors.Join(err, errors.New("there is not one agentd: "+strings.Join(sockets, " ")))
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", sockets[0])
	}}
	accepted := make(chan string, 1)
	ctx = httptrace.WithClientTrace(context.WithoutCancel(ctx), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, head textproto.MIMEHeader) error {
			accepted <- head.Get(responses.HeaderResponseID)
			return nil
		}})
	body, err := json.Marshal(map[string]any{"model": "scripted/x", "input": "go on", "holon": map[string]any{
		"turn_id": id, "session_id": "sess_talk", "workspace_dir": c.workDir()}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agentd/responses", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(responses.HeaderModelToken, token)
	failed := make(chan error, 1)
	go func() {
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(req)
		if err != nil {
			failed <- err
			answer <- "cut: " + err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		failed <- errors.Join(err, errors.New("it was answered at once"))
		answer <- string(text)
	}()
	select {
	case response := <-accepted:
		return &responses.Response{ID: response}, nil
	case err := <-failed:
		return nil, err
	}
}

// await waits for a file in the tree.
func (c *talk) await(name string) {
	c.t.Helper()
	c.eventually("there is "+name, func() bool {
		_, err := os.Stat(filepath.Join(c.tree.TreeDir, name))
		return err == nil
	})
}

func (c *talk) eventually(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not %s", what)
		}
	}
}

func (c *talk) release(name string) {
	c.t.Helper()
	expect.NoError(c.t, os.WriteFile(filepath.Join(c.tree.TreeDir, name), nil, 0o600))
}

// ids are those of two turns at once.
var ids = []string{"turn_1", "turn_2"}

// ends collects the ends of turns.
type ends struct {
	group sync.WaitGroup
	mu    sync.Mutex
	of    map[string]runner.End
	errs  map[string]error
}

func (e *ends) run(id string, turn func() (runner.End, error)) {
	e.group.Go(func() {
		end, err := turn()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.of == nil {
			e.of, e.errs = make(map[string]runner.End), make(map[string]error)
		}
		e.of[id], e.errs[id] = end, err
	})
}

// withEngines runs a test with each engine, at once.
func withEngines(t *testing.T, scenario string, test func(t *testing.T, c *talk)) {
	for _, name := range []string{"local", "docker"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newLab(t, name, scenario).talk())
		})
	}
}

// Turns of a conversation are made as the client asked for them, several at a time, with one container, which other
// calls use meanwhile and no sweep takes. Its tree is its owner's, also while a turn runs, and outlives it.
func TestUserTurnsAtOnce(t *testing.T) {
	t.Parallel()
	withEngines(t, waits, turnsAtOnce)
}

func turnsAtOnce(t *testing.T, c *talk) {
	k := c.conversations(func(o *pool.Options) { o.IdlePause, o.IdleStop = time.Second, time.Minute })
	ctx := t.Context()
	var e ends
	first, second := make(chan string, 1), make(chan string, 1)
	began := make(chan struct{}, 2)
	turn := func(id string, answer chan<- string) func() (runner.End, error) {
		return func() (runner.End, error) {
			return k.Turn(ctx, c.turn(id, answer), func() { began <- struct{}{} }, new(lines))
		}
	}
	e.run("turn_1", turn("turn_1", first))
	c.await("at1")
	e.run("turn_2", turn("turn_2", second))
	<-began
	<-began // the second is accepted while the first runs
	expect.NoError(t, k.Do(ctx, pool.Turn{AgentID: c.id}, func(ctx context.Context, agent *client.Client) error {
		health, err := agent.Health(ctx)
		if health.ActiveTurns != 1 || health.QueuedTurns != 1 {
			t.Errorf("%+v, want a turn that runs and one that is queued", health)
		}
		return err
	}))
	c.clock.pass(time.Hour)
	expect.NoError(t, k.Sweep(ctx))
	expect.NoError(t, k.Still(ctx, c.id, func(ctx context.Context, _ *folder.Owner) error {
		tree, err := workspace.Resume(ctx, workspace.Options{CacheDir: c.home.CacheDir()}, c.tree)
		if err == nil {
			err = tree.Leave()
		}
		return err
	}))
	used := c.only().Handle.ID
	if len(first)+len(second) > 0 {
		t.Error("a turn was answered before it ended")
	}
	c.release("go1")
	c.await("at2")
	c.release("go2")
	e.group.Wait()
	for _, id := range ids {
		if end := e.of[id]; e.errs[id] != nil || end.Answer != "done" || end.Lost {
			t.Errorf("%s: %+v, %v, want it done", id, end, e.errs[id])
		}
	}
	for _, answer := range []string{<-first, <-second} {
		if !strings.Contains(answer, `"text":"done"`) {
			t.Errorf("the client of a turn got %.300s, want what it did", answer)
		}
	}
	expect.Equal(t, "the container", c.only().Handle.ID, used)
	c.clock.pass(time.Hour)
	for range 2 { // it was used when the first looks
		expect.NoError(t, k.Sweep(ctx))
		c.clock.pass(time.Hour)
	}
	expect.Equal(t, "containers of an idle conversation", len(c.containers()), 0)
	third := make(chan string, 1)
	c.release("go3")
	end, err := turn("turn_3", third)()
	if err != nil || end.Answer != "done" || end.Fresh == "" {
		t.Errorf("after a stop: %+v, %v", end, err)
	}
	<-third
	expect.NoError(t, k.Stop(ctx, c.id))
	if _, err := os.Stat(filepath.Join(c.tree.TreeDir, "at1")); err != nil {
		t.Errorf("the tree is not there any more: %v", err)
	}
	tree, err := workspace.Resume(ctx, workspace.Options{CacheDir: c.home.CacheDir()}, c.tree)
	expect.NoError(t, err)
	expect.NoError(t, tree.Release(ctx))
}

// A container that dies with two turns gives each of them one end, and the next turn gets another.
func TestUserKilledAtOnce(t *testing.T) {
	t.Parallel()
	c := newLab(t, "local", waits).talk()
	k := c.conversations()
	var e ends
	began, answers := make(chan struct{}, 2), make(chan string, 3)
	for _, id := range ids {
		e.run(id, func() (runner.End, error) {
			return k.Turn(t.Context(), c.turn(id, answers), func() { began <- struct{}{} }, new(lines))
		})
		<-began
	}
	c.await("at1")
	expect.NoError(t, c.engine.Remove(t.Context(), c.only().Handle))
	e.group.Wait()
	for _, id := range ids {
		if end := e.of[id]; e.errs[id] != nil || !end.Lost || end.TurnID != id {
			t.Errorf("%s: %+v, %v, want a turn that is lost", id, end, e.errs[id])
		}
	}
	for _, name := range []string{"go1", "go2", "go3"} {
		c.release(name)
	}
	end, err := k.Turn(t.Context(), c.turn("turn_3", answers), func() {}, new(lines))
	if err != nil || end.Status != responses.StatusCompleted || end.Fresh == "" {
		t.Errorf("the next turn: %+v, %v", end, err)
	}
	c.only()
}

// A container that dies before it was asked for anything is replaced, and asked once more.
func TestUserUsedAgainAtOnce(t *testing.T) {
	t.Parallel()
	c := newLab(t, "local", "rounds: [{text: done}]").talk()
	k := c.conversations()
	asked := 0
	expect.NoError(t, k.Do(t.Context(), pool.Turn{AgentID: c.id}, func(ctx context.Context, agent *client.Client) error {
		if asked++; asked == 1 {
			expect.NoError(t, c.engine.Remove(ctx, c.only().Handle))
		}
		_, err := agent.Health(ctx)
		return err
	}))
	expect.Equal(t, "asked", asked, 2)
}

// A container that dies before it took a turn is replaced, and the turn asked for once more.
func TestUserAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	c := newLab(t, "local", "rounds: [{text: done}]").talk()
	k := c.conversations()
	expect.NoError(t, k.Do(t.Context(), pool.Turn{AgentID: c.id}, func(context.Context, *client.Client) error {
		return nil
	}))
	turn, asked := c.turn("turn_1", make(chan string, 2)), 0
	ask := turn.Ask
	turn.Ask = func(ctx context.Context, agent *client.Client, token string) (*responses.Response, error) {
		if asked++; asked == 1 {
			expect.NoError(t, c.engine.Remove(ctx, c.only().Handle))
		}
		return ask(ctx, agent, token)
	}
	began := 0
	end, err := k.Turn(t.Context(), turn, func() { began++ }, new(lines))
	if err != nil || end.Answer != "done" || end.Fresh == "" || asked != 2 || began != 1 {
		t.Errorf("%+v, %v, asked %d times, begun %d times", end, err, asked, began)
	}
}

// Another process rejoins each turn that was left. Before all are, none reaches the host, which would refuse it: both
// go on to their ends.
func TestUserRecoveredAtOnce(t *testing.T) {
	t.Parallel()
	withEngines(t, calls, recoveredAtOnce)
}

func recoveredAtOnce(t *testing.T, c *talk) {
	ping := func(o *pool.Options) {
		o.Tools = func(string) []hosttools.Tool {
			return []hosttools.Tool{{Name: "Ping", Description: "Answers.", Schema: json.RawMessage(`{"type":"object"}`),
				Call: func(context.Context, hosttools.Call) (hosttools.Result, error) {
					return hosttools.Result{Text: "pong"}, nil
				}}}
		}
	}
	before := c.conversations(ping)
	ctx, leave := context.WithCancelCause(t.Context())
	var e ends
	began, answers := make(chan struct{}, 4), make(chan string, 2)
	for _, id := range ids {
		e.run(id, func() (runner.End, error) {
			return before.Turn(ctx, c.turn(id, answers), func() { began <- struct{}{} }, new(lines))
		})
		<-began
	}
	c.await("at1")
	leave(runner.ErrLeft)
	expect.NoError(t, before.Leave(t.Context()))
	e.group.Wait()
	for _, id := range ids {
		if !state.IsCode(e.errs[id], pool.CodeLeft) {
			t.Errorf("%s was not left: %v", id, e.errs[id])
		}
	}
	after := c.conversations(ping)
	recover := func(id string) {
		e.run(id, func() (runner.End, error) {
			return after.Recover(t.Context(), pool.Turn{AgentID: c.id, Turn: runner.NewTurn(id, "")},
				func() { began <- struct{}{} }, new(lines))
		})
		<-began
	}
	recover("turn_2")
	c.release("go1")
	c.eventually("turn_1 calls the host", func() bool {
		text, err := os.ReadFile(filepath.Join(c.home.SessionDir(c.id), "session", "output", "turns", "turn_1",
			turns.JournalFile))
		return err == nil && strings.Count(string(text), `"`+turns.ToolStarted+`"`) == 2
	})
	recover("turn_1")
	c.release("go2")
	e.group.Wait()
	for _, id := range ids {
		if end := e.of[id]; e.errs[id] != nil || end.Answer != "done" {
			t.Errorf("%s: %+v, %v, want it done", id, end, e.errs[id])
		}
	}
	end, err := after.Recover(t.Context(), pool.Turn{AgentID: c.id, Turn: runner.NewTurn("turn_never", "")}, nil,
		new(lines))
	if err != nil || !end.NotBegun {
		t.Errorf("a turn that was never asked for: %+v, %v", end, err)
	}
}

// A turn whose models are asked through another gateway waits for the turns that have theirs, and holds up nothing that
// asks none.
func TestUserOtherModelsAtOnce(t *testing.T) {
	t.Parallel()
	c := newLab(t, "local", waits).talk()
	configured := make(chan string, 10)
	k := c.conversations(func(o *pool.Options) {
		configure := o.Configure
		o.Configure = func(ctx context.Context, t pool.Turn) (cfg runner.Config, access io.Closer, err error) {
			if cfg, access, err = configure(ctx, t); err == nil {
				cfg.Gateway, err = gateway.New(gateway.Options{})
				configured <- t.Model
			}
			return cfg, access, err
		}
	})
	var e ends
	began, answers := make(chan string, 2), make(chan string, 2)
	for _, id := range ids {
		turn := c.turn(id, answers)
		turn.Model = "scripted/" + id
		e.run(id, func() (runner.End, error) {
			return k.Turn(t.Context(), turn, func() { began <- id }, new(lines))
		})
		if id == "turn_1" {
			c.await("at1")
		}
		expect.Equal(t, "configured", <-configured, turn.Model)
	}
	agent := pool.Turn{AgentID: c.id, Model: "scripted/another"}
	expect.NoError(t, k.Do(t.Context(), agent, func(ctx context.Context, agent *client.Client) error {
		health, err := agent.Health(ctx)
		expect.Equal(t, "turns", health.ActiveTurns+health.QueuedTurns, 1)
		return err
	}))
	c.release("go1")
	c.await("at2")
	c.release("go2")
	e.group.Wait()
	for _, id := range ids {
		if end := e.of[id]; e.errs[id] != nil || end.Answer != "done" || end.Fresh != "" && id != "turn_1" {
			t.Errorf("%s: %+v, %v, want it done in the same container", id, end, e.errs[id])
		}
	}
}
