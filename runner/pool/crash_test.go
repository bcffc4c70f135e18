package pool_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/test/expect"
)

// working runs a command that waits for the test, or until its directory is removed, and leaves a trace each time that
// it is run.
const working = `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: "echo run >> ran; while [ -e ran -a ! -e go ]; do sleep 0.02; done", ` +
	`yield_time_ms: 900000}}]
      - text: done
  - rounds: [{text: after}]
  - rounds: [{text: later}]
`

const crashTurn = "turn_crash"

// child is another process with a pool: it asks the agent of the home in
// childEnv for a turn, and says on standard output how far it is.
func child() int {
	dir, eng := os.Getenv(childEnv), os.Getenv(childEnv+"_ENGINE")
	home, err := state.MakeHome(dir, "")
	if err != nil {
		panic(err)
	}
	e, err := openEngine(eng, dir)
	if err != nil {
		panic(err)
	}
	k := pool.New(pool.Options{
		Home: home, Engine: e, Agentd: os.Getenv(childEnv + "_AGENTD"), Image: image, Version: "test",
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Configure: func(context.Context, pool.Turn) (runner.Config, io.Closer, error) {
			fmt.Println("configured")
			if url := os.Getenv(childEnv + "_PROVIDER"); url != "" {
				return provided(url)
			}
			return runner.Config{Models: runner.Models{Model: "scripted/x",
					Scenario: filepath.Join(dir, "scenario.yaml")}, Confinement: runner.Confinement{Memory: 512 << 20}},
				nil, nil
		},
	})
	w := &lines{onRun: func() {
		// The command has begun: a test that kills this process now relies on that.
		for ran := filepath.Join(home.AgentDir("ada"), "ran"); ; time.Sleep(time.Millisecond) {
			if data, err := os.ReadFile(ran); err == nil && len(data) > 0 {
				break
			}
		}
		fmt.Println("running")
	}}
	r, err := k.Turn(context.Background(), turnOf("ada", crashTurn, "go on"),
		func() {
			fmt.Println("began")
		}, w)
	fmt.Println("ended", r.Status, err)
	select {} // until it is killed
}

// provided is the configuration of an agent whose model is behind the gateway.
func provided(url string) (runner.Config, io.Closer, error) {
	g, err := gateway.New(gateway.Options{Providers: map[string]gateway.Provider{
		"lab": {BaseURL: url, Credential: gateway.NewSecret("sk-lab-0123456789abcdef"),
			Contract: providers.ChatCompletions},
	}})
	if err != nil {
		return runner.Config{}, nil, err
	}
	return runner.Config{
		Models: runner.Models{Model: "lab/m", Gateway: g,
			Providers: []string{"lab=" + string(providers.ChatCompletions)}},
		Confinement: runner.Confinement{Memory: 512 << 20},
	}, closed(g.Close), nil
}

// closed is an io.Closer.
type closed func()

func (c closed) Close() error { c(); return nil }

// crash starts a child and kills it when it says a word, or some time after.
func (l *lab) crash(eng, word string, after ...time.Duration) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+l.home.Dir(), childEnv+"_AGENTD="+agentd, childEnv+"_ENGINE="+eng,
		childEnv+"_PROVIDER="+l.provider)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	expect.NoError(l.t, err)
	expect.NoError(l.t, cmd.Start())
	found := false
	for in := bufio.NewScanner(out); !found && in.Scan(); {
		found = strings.HasPrefix(in.Text(), word)
	}
	for _, d := range after {
		time.Sleep(d)
	}
	expect.NoError(l.t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait() // it was killed
	if !found {
		l.t.Fatalf("the child never said %q", word)
	}
}

// How the turn of a killed holon is found.
const (
	live = "live" // agentd made or reported its end
	lost = "lost"
)

// recover takes up the turn of the child.
func (l *lab) recover(k *pool.Pool, want string) runner.End {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	w := &lines{onRun: func() { l.write("go") }}
	end, err := k.Recover(ctx, turnOf("ada", crashTurn, "go on"), w.begin, w)
	if err != nil {
		l.t.Fatalf("Recover: %v", err)
	}
	found := lost
	if end.NotBegun {
		found = "never begun"
	} else if end.Err == nil {
		found = live
	}
	if found != want {
		l.t.Fatalf("found %+v, want %s", end, want)
	}
	// of a turn that is over, its facts are read once more
	if (want == live) != (w.began == 1) || want != live && w.text.Len() > 0 ||
		!slices.Contains(w.facts, turns.TurnStarted) {
		l.t.Errorf("%s: began %d times, told %q, %v", want, w.began, w.text.String(), w.facts)
	}
	return end
}

func (l *lab) write(name string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.home.AgentDir("ada"), name), nil, 0o644); err != nil {
		l.t.Error(err)
	}
}

// ranOnce checks that no command was run twice.
func (l *lab) ranOnce() {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.home.AgentDir("ada"), "ran"))
	if err != nil || string(data) != "run\n" {
		l.t.Errorf("the command left %q, %v", data, err)
	}
}

// awaitEnd waits until the turn has its end on the disk.
func (l *lab) awaitEnd() {
	l.t.Helper()
	dir := filepath.Join(l.home.AgentPrivateDir("ada"), "session")
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, end, err := turnfiles.Read(dir, crashTurn); err == nil && end != nil {
			return
		}
		if time.Since(begin) > patience {
			l.t.Fatal("the turn does not end")
		}
	}
}

// A turn whose holon was killed in the middle ends depending on what becomes of
// its container.
func TestRecover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, l *lab, h engine.Handle)
		how       string
		status    responses.Status
		next      string // what the next turn says, which continues the response of this one
	}{
		"running": {func(*testing.T, *lab, engine.Handle) {}, live, responses.StatusCompleted, "after"},
		"paused": {func(t *testing.T, l *lab, h engine.Handle) {
			expect.NoError(t, l.engine.(engine.Pauser).Pause(t.Context(), h))
		}, live, responses.StatusCompleted, "after"},
		"ended, still there": {func(t *testing.T, l *lab, _ engine.Handle) {
			l.write("go")
			l.awaitEnd()
		}, live, responses.StatusCompleted, "after"},
		"ended, exited": {func(t *testing.T, l *lab, h engine.Handle) {
			l.write("go")
			l.awaitEnd()
			expect.NoError(t, l.engine.Stop(t.Context(), h, 0))
		}, live, responses.StatusCompleted, "after"},
		"ended, gone": {func(t *testing.T, l *lab, h engine.Handle) {
			l.write("go")
			l.awaitEnd()
			expect.NoError(t, l.engine.Remove(t.Context(), h))
		}, live, responses.StatusCompleted, "after"},
		"killed": {func(t *testing.T, l *lab, h engine.Handle) {
			expect.NoError(t, l.engine.Remove(t.Context(), h))
		}, lost, "", "after"},
		"stopped": {func(t *testing.T, l *lab, h engine.Handle) {
			expect.NoError(t, l.engine.Stop(t.Context(), h, patience))
		}, live, responses.StatusIncomplete, "after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", working)
			l.agent("ada")
			l.crash("docker", "running")
			test.meanwhile(t, l, l.only().Handle)
			k := l.pool()
			r := l.recover(k, test.how)
			expect.Equal(t, "r.Status", r.Status, test.status)
			expect.Equal(t, "r.Lost", r.Lost, test.status != responses.StatusCompleted)
			expect.Equal(t, "r.Lost", r.Lost, (r.Failure != nil))
			expect.Equal(t, "r.ResponseID is empty", r.ResponseID == "", false)
			l.ranOnce()
			l.still(k)
			c := &conversation{lab: l, pool: k, agent: "ada", previous: r.ResponseID}
			c.say(test.next)
			l.ranOnce()
			l.still(k)
		})
	}
}

// still checks that the host can see to the trees of the agent.
func (l *lab) still(k *pool.Pool) {
	l.t.Helper()
	ran := false
	err := k.Still(l.t.Context(), "ada", func(context.Context, *folder.Owner) error { ran = true; return nil })
	if err != nil || !ran {
		l.t.Errorf("its trees cannot be seen to: %v", err)
	}
}

// A container that cannot be taken up stays, and its agent's trees are not touched: the reason is told.
func TestStillOfTheLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", working)
	l.agent("ada")
	l.crash("docker", "running")
	missing := errors.New("there is no key")
	configure := l.options().Configure
	k := l.pool(func(o *pool.Options) {
		o.Configure = func(ctx context.Context, t pool.Turn) (runner.Config, io.Closer, error) {
			if missing != nil {
				return runner.Config{}, nil, missing
			}
			return configure(ctx, t)
		}
	})
	err := k.Still(t.Context(), "ada", func(context.Context, *folder.Owner) error {
		t.Error("something may run in the container")
		return nil
	})
	if !state.IsCode(err, "container_busy") || !strings.Contains(err.Error(), missing.Error()) {
		t.Errorf("%v", err)
	}
	missing = nil
	l.still(k)
	l.recover(k, live)
}

// A program of the local engine dies with its holon.
func TestRecoverLocal(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", working)
	l.agent("ada")
	l.crash("local", "running")
	k := l.pool()
	r := l.recover(k, lost)
	expect.Equal(t, "the response that the next turn continues", r.ResponseID, "") // its commands could write it
	l.ranOnce()
}

// Whenever a holon is killed, its turn has one end, and a turn that was not begun
// can be made under the same id.
func TestRecoverAtAnyInstant(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		after := time.Duration(i*560/rounds) * time.Millisecond
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", working)
			l.agent("ada")
			l.write("go")
			l.crash("docker", "configured", after)
			k := l.pool()
			turn := turnOf("ada", crashTurn, "go on")
			r, err := k.Recover(t.Context(), turn, nil, new(lines))
			expect.NoError(t, err)
			if r.NotBegun {
				w := new(lines)
				if r, err = k.Turn(t.Context(), turn, w.begin, w); err != nil || w.began != 1 {
					t.Fatalf("the turn afterwards: %v, began %d times", err, w.began)
				}
			}
			if r.Status != responses.StatusCompleted || r.Answer != "done" {
				t.Errorf("%+v, %+v", r, r.Failure)
			}
			l.ranOnce()
		})
	}
}

// A container of a killed holon whose agent has nothing to recover goes back to
// its agent, or is removed where that cannot be. One whose record is damaged stays, and its agent is refused.
func TestSweepAfterCrash(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"intact":  func(string) error { return nil },
		"damaged": func(path string) error { return durable.WriteFile(path, []byte("{"), 0o600) },
		"lost":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", working)
			l.agent("ada")
			l.write("go")
			l.crash("docker", "ended")
			before := l.only()
			file := filepath.Join(l.home.AgentPrivateDir("ada"), "session.json")
			expect.NoError(t, damage(file))
			k := l.pool()
			l.sweep(k)
			list := l.containers()
			if name != "lost" && (len(list) != 1 || list[0].Handle != before.Handle) || name == "lost" && len(list) != 0 {
				t.Errorf("after the sweep there is %v", list)
			}
			if name == "damaged" {
				_, err := k.Turn(t.Context(), turnOf("ada", "turn_x", "x"), nil, new(lines))
				if !state.IsCode(err, sessions.CodeDamaged) || !strings.Contains(err.Error(), file) || len(l.containers()) != 1 {
					t.Errorf("a turn with the damaged record: %v", err)
				}
				expect.NoError(t, os.Remove(file)) // as the error advises
			}
			rec, _, err := turnfiles.Read(filepath.Join(l.home.AgentPrivateDir("ada"), "session"), crashTurn)
			expect.NoError(t, err)
			c := &conversation{lab: l, pool: k, agent: "ada", previous: rec.ResponseID}
			if r := c.say("after"); (r.Fresh == "") != (name == "intact") {
				t.Errorf("the next turn: %q", r.Fresh)
			}
		})
	}
}

// The remains of a process that was killed while it made a container are removed by the
// next, and what a record names is not.
func TestTidy(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", counting)
	private := l.home.AgentPrivateDir(l.agent("ada"))
	left, half := filepath.Join(l.home.IPCDir(state.NewIPCID(state.AgentIPC)), "host.sock"),
		filepath.Join(private, ".tmp-0123456789abcdef")
	of, mine := filepath.Join(l.home.IPCDir("run_1"), "agent.sock"),
		filepath.Join(l.home.AgentDir("ada"), ".tmp-0123456789abcdef")
	for _, path := range []string{left, half, of, mine} {
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	l.sweep(l.pool())
	for path, want := range map[string]bool{filepath.Dir(left): false, half: false, of: true, mine: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The directory of a client's session is not swept by the pool: its record is written while the pool looks around.
func TestTidyOfSessions(t *testing.T) {
	t.Parallel()
	l := newLab(t, "local", counting)
	half := filepath.Join(l.home.SessionDir(state.NewConversationID()), ".tmp-0123456789abcdef")
	expect.NoError(t, os.MkdirAll(filepath.Dir(half), 0o700))
	expect.NoError(t, os.WriteFile(half, nil, 0o600))
	l.sweep(l.pool(func(o *pool.Options) { o.Key, o.AtOnce = sessions.OfConversation, true }))
	_, err := os.Stat(half)
	expect.NoError(t, err)
}

// What a turn wrote in a container that shares no directory with this machine comes here, also when the container is
// killed or stopped.
func TestStreamThatEnds(t *testing.T) {
	for _, how := range []string{"kill", "stop"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			apart, err := docker.New("", "")
			expect.NoError(t, err)
			apart.SetLink(engine.LinkStream)
			l := newLab(t, "docker", working)
			l.engine = apart
			k := l.pool()
			l.agent("ada")
			w := &lines{onRun: func() {
				go func() {
					id := l.only().Handle.ID
					for shown := ""; !strings.Contains(shown, "sleep"); time.Sleep(10 * time.Millisecond) { // it wrote the file
						text, err := exec.CommandContext(t.Context(), "docker", "top", id).Output()
						if shown = string(text); err != nil {
							t.Error(err)
							return
						}
					}
					if text, err := exec.CommandContext(t.Context(), "docker", how, id).CombinedOutput(); err != nil {
						t.Errorf("%v\n%s", err, text)
					}
				}()
			}}
			_, _ = k.Turn(t.Context(), turnOf("ada", crashTurn, "go on"), w.begin, w) // that it was cut is not the matter here
			l.ranOnce()
		})
	}
}

// A turn that is left goes on, and another pool takes it up.
func TestLeave(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", working)
	l.agent("ada")
	first := pool.New(l.options())
	ctx, leave := context.WithCancelCause(t.Context())
	w := &lines{onRun: func() { leave(runner.ErrLeft) }}
	_, err := first.Turn(ctx, turnOf("ada", crashTurn, "go on"), w.begin, w)
	if !state.IsCode(err, pool.CodeLeft) {
		t.Fatalf("a turn that was left: %v", err)
	}
	expect.NoError(t, first.Leave(t.Context()))
	if _, err := first.Turn(t.Context(), turnOf("ada", "turn_x", "go on"),
		nil,
		w); !state.IsCode(err, pool.CodeClosed) {
		t.Errorf("a turn after Leave: %v", err)
	}
	before := l.only()
	k := l.pool()
	r := l.recover(k, live)
	c := &conversation{lab: l, pool: k, agent: "ada", previous: r.ResponseID}
	if r := c.say("after"); r.Fresh != "" || l.only().Handle != before.Handle {
		t.Errorf("the container was not kept: %q", r.Fresh)
	}
	l.ranOnce()
}

// A turn that goes on while no holon is there asks its models under the same
// token afterwards, and no other token is taken.
func TestRecoverGrant(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the request is not examined
		w.Header().Set("Content-Type", "text/event-stream")
		delta := `"content":"done"},"finish_reason":"stop"`
		if asked.Add(1) == 1 {
			delta = `"tool_calls":[{"index":0,"id":"c1","function":{"name":"ExecCommand","arguments":"{\"cmd\":` +
				`\"echo run >> ran; while [ -e ran -a ! -e go ]; do sleep 0.02; done\",\"yield_time_ms\":900000}"}}]},` +
				`"finish_reason":"tool_calls"`
		}
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{`+delta+"}]}\n\n",
			`data: {"choices":[],"usage":{"prompt_tokens":60,"completion_tokens":40,"total_tokens":100}}`,
			"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(provider.Close)
	l := newLab(t, "docker", working)
	l.provider = provider.URL
	l.agent("ada")
	l.crash("docker", "running")
	k := l.pool(func(o *pool.Options) {
		o.Configure = func(context.Context, pool.Turn) (runner.Config, io.Closer, error) {
			return provided(provider.URL)
		}
	})
	r := l.recover(k, live)
	expect.Equal(t, "r.Status", r.Status, responses.StatusCompleted)
	expect.Equal(t, "r.Answer", r.Answer, "done")
	expect.Equal(t, "asked.Load()", asked.Load(), 2)
	l.ranOnce()
}

// awaitFile waits until the agent has made a file.
func (l *lab) awaitFile(name string) {
	l.t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(l.home.AgentDir("ada"), name)); err == nil {
			return
		}
		if time.Since(begin) > patience {
			l.t.Fatalf("there is no %s", name)
		}
	}
}
