package pool_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/engine/local"
	"holon/runner/pool"
	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// patience says when a test gives up, not how fast anything has to be.
const patience = 2 * time.Minute

// image is made by `make image`. imageToo is another name of it.
const (
	image    = "holon/base"
	imageToo = "holon/base:latest"
)

// agentd is the program under test, static, and connection the one to the engine.
var (
	agentd     string
	connection engine.Engine
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(withAgentd(m))
}

// atOnce is how many tests run at once. They wait for containers more than they compute.
const atOnce = "6"

func withAgentd(m *testing.M) int {
	agentd = programs.Must("agentd")
	var err error
	if connection, err = docker.New("", ""); err == nil {
		err = flag.Set("test.parallel", atOnce) // which the command line overrides
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if err := connection.Close(); err != nil {
		panic(err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// clock is a clock that only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// lab is a home with an engine.
type lab struct {
	t        testing.TB
	home     state.Home
	engine   engine.Engine
	scenario string
	provider string // URL of the model provider of a child; "": the scenario
	clock    *clock
	secrets  *redact.Set
}

// newLab makes a home whose containers are removed with the test. It is not in
// t.TempDir, whose paths are too long for sockets.
func newLab(t testing.TB, eng string, scenario string) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "hw-")
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l := &lab{t: t, clock: &clock{now: time.Now()}, secrets: new(redact.Set)}
	if l.home, err = state.MakeHome(dir, ""); err != nil {
		t.Fatal(err)
	}
	l.scenario = filepath.Join(dir, "scenario.yaml")
	expect.NoError(t, os.WriteFile(l.scenario, []byte(scenario), 0o644))
	if l.engine = connection; eng != "docker" {
		if l.engine, err = openEngine(eng, dir); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := l.engine.Check(ctx); err != nil {
		t.Skipf("no engine answers: %v", err)
	}
	t.Cleanup(func() {
		for _, c := range l.containers() {
			t.Errorf("container %s is left", c.Handle.Name)
			if err := l.engine.Remove(context.Background(), c.Handle); err != nil {
				t.Error(err)
			}
		}
		if l.engine != connection {
			expect.NoError(t, l.engine.Close())
		}
	})
	return l
}

func openEngine(name, dir string) (engine.Engine, error) {
	if name == "docker" {
		return docker.New("", "")
	}
	return local.New(local.Options{Dir: filepath.Join(dir, "local"), Env: []string{"PATH=" + os.Getenv("PATH")}})
}

func (l *lab) agent(id string) string {
	l.t.Helper()
	expect.NoError(l.t, os.MkdirAll(l.home.AgentDir(id), 0o700))
	return id
}

func (l *lab) options() pool.Options {
	return pool.Options{
		Home: l.home, Engine: l.engine, Agentd: agentd, Image: image, Version: "test", Secrets: l.secrets,
		Log: slog.New(slog.DiscardHandler), Now: l.clock.Now,
		Configure: func(context.Context, pool.Turn) (runner.Config, io.Closer, error) {
			return runner.Config{Models: runner.Models{Model: "scripted/x", Scenario: l.scenario},
				Confinement: runner.Confinement{Memory: 512 << 20}}, nil, nil
		},
	}
}

// pool opens a pool that is closed with the test.
func (l *lab) pool(change ...func(*pool.Options)) *pool.Pool {
	l.t.Helper()
	o := l.options()
	for _, f := range change {
		f(&o)
	}
	k := pool.New(o)
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			l.t.Errorf("Close: %v", err)
		}
	})
	return k
}

func (l *lab) containers() []engine.Summary {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := l.engine.List(ctx, map[string]string{runner.LabelHome: l.home.Dir()})
	expect.NoError(l.t, err)
	return list
}

// only returns the one container that there is.
func (l *lab) only() engine.Summary {
	l.t.Helper()
	list := l.containers()
	if len(list) != 1 {
		l.t.Fatalf("%d containers, want 1", len(list))
	}
	return list[0]
}

// lines notes what a turn's observer is told.
type lines struct {
	mu    sync.Mutex
	began int
	text  strings.Builder
	facts []string
	onRun func() // when a command begins

	onResult func(payload string) // of a command that succeeded
}

func (w *lines) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began++
}

func (w *lines) Event(ev responses.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(ev.Delta)
}

func (w *lines) Fact(ev turns.RuntimeEvent) {
	w.mu.Lock()
	w.facts = append(w.facts, ev.Type)
	f := w.onRun
	w.mu.Unlock()
	if ev.Type == turns.ToolResult && w.onResult != nil && strings.Contains(string(ev.Payload), `"ExecCommand"`) {
		w.onResult(string(ev.Payload))
	}
	if ev.Type == turns.ToolStarted && f != nil {
		f()
	}
}

// conversation makes the turns of one agent, each continuing the one before.
type conversation struct {
	*lab
	pool     *pool.Pool
	agent    string
	previous string
	image    string
	model    string
}

// turnOf is a turn of an agent.
func turnOf(agent, id, prompt string) pool.Turn {
	return pool.Turn{AgentID: agent, Turn: runner.NewTurn(id, prompt)}
}

// continuing is a turn of a conversation.
func continuing(previous, prompt string) runner.Turn {
	t := runner.NewTurn(responses.NewID(responses.PrefixTurn), prompt)
	t.Request.PreviousResponseID = previous
	return t
}

// say makes a turn that must complete with the answer want.
func (c *conversation) say(want string) runner.End {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	w := new(lines)
	turn := pool.Turn{AgentID: c.agent, Image: c.image, Model: c.model,
		Turn: continuing(c.previous, "go on")}
	turn.Request.Instructions = new("be brief")
	r, err := c.pool.Turn(ctx, turn, w.begin, w)
	if err != nil {
		c.t.Fatalf("the turn was not begun: %v", err)
	}
	if r.Status != responses.StatusCompleted || r.Answer != want || r.Lost || r.Failure != nil {
		c.t.Fatalf("the turn is %+v with the failure %+v, want it completed with %q", r, r.Failure, want)
	}
	expect.Equal(c.t, "w.began", w.began, 1)
	expect.Equal(c.t, "w.text.String()", w.text.String(), want)
	expect.Equal(c.t, "has facts", len(w.facts) > 0, true)
	if r.TurnID != turn.ID() || r.Record.Rounds < 1 || r.Usage == nil || r.Record.ProviderAttempts == nil || r.Record.StartedAt.IsZero() ||
		r.Record.CompletedAt.IsZero() || r.Model == "" {
		c.t.Errorf("the result lacks something: %+v", r)
	}
	c.previous = r.ResponseID
	return r
}

const counting = `
turns:
  - rounds: [{text: one}]
  - rounds: [{text: two}]
  - rounds: [{text: three}]
  - rounds: [{text: four}]
  - rounds: [{text: five}]
  - rounds: [{text: six}]
  - rounds: [{text: seven}]
  - rounds: [{text: eight}]
  - rounds: [{text: nine}]
`

const childEnv = "HOLON_POOL_TEST_CHILD"
