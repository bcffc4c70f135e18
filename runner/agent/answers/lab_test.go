package answers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/responses"
	"holon/runner"
	"holon/runner/access"
	"holon/runner/agent"
	"holon/runner/agent/answers"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/engine/local"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/programs"
)

// patience says when a test gives up, not how fast anything has to be.
const patience = time.Minute

var agentd string // the program that runs turns

func TestMain(m *testing.M) {
	agentd = programs.Must("agentd")
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// bareHomes makes homes with nothing in them.
type bareHomes struct{ home state.Home }

func (b bareHomes) Create(_ context.Context, id, _ string) error {
	return os.MkdirAll(b.home.AgentDir(id), 0o700)
}
func (b bareHomes) EnsureDefault(ctx context.Context, id string) error { return b.Create(ctx, id, "") }
func (b bareHomes) CheckTemplate(string) error                         { return nil }
func (b bareHomes) Digest(context.Context, string) (string, error)     { return "", nil }

// lab is a runtime with a real store, engine and agentd, and its responses over HTTP.
type lab struct {
	t        *testing.T
	home     state.Home
	engine   string
	scenario string
	change   []func(*agent.Config)
	url      string

	store   ledger.Store
	eng     engine.Engine
	keeper  *pool.Pool
	runtime *agent.Runtime
	server  *httptest.Server
	stop    context.CancelFunc
	ended   chan error
}

// callers are those that send requests, by their tokens.
var callers = map[string]access.Caller{
	"operator": {Name: "operator", Operator: true, AllAgents: true},
	"app":      {Name: "app", Agents: []string{"main"}},
	"other":    {Name: "other", AllAgents: true},
	"none":     {Name: "none", Sessions: true},
}

func start(t *testing.T, scenario string, change ...func(*agent.Config)) *lab {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp("", "hr-") // t.TempDir's paths are too long for sockets
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(dir)) })
	l := labIn(t, dir, "local", change...)
	expect.NoError(t, os.WriteFile(l.scenario, []byte(scenario), 0o644))
	l.open()
	t.Cleanup(func() { l.close() })
	return l
}

// labIn is a lab whose runtime is not open yet.
func labIn(t *testing.T, dir, eng string, change ...func(*agent.Config)) *lab {
	t.Helper()
	home, err := state.MakeHome(dir, "")
	expect.NoError(t, err)
	return &lab{t: t, home: home, engine: eng, scenario: filepath.Join(dir, "scenario.yaml"), change: change}
}

func (l *lab) openEngine() (engine.Engine, error) {
	if l.engine == "docker" {
		return docker.New("", "")
	}
	return local.New(local.Options{Dir: filepath.Join(l.home.Dir(), "local"),
		Env: []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}})
}

// open opens the runtime and serves it.
func (l *lab) open() {
	l.t.Helper()
	log := slog.New(slog.NewTextHandler(l.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	ctx := l.t.Context()
	var err error
	l.store, err = sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(l.home.Dir(), "ledger.db"), Log: log})
	expect.NoError(l.t, err)
	l.eng, err = l.openEngine()
	expect.NoError(l.t, err)
	l.keeper = pool.New(pool.Options{Home: l.home, Engine: l.eng, Agentd: agentd, Image: "holon/base", Log: log,
		Version: "test",
		Configure: func(context.Context, pool.Turn) (runner.Config, io.Closer, error) {
			return runner.Config{Models: runner.Models{Model: "scripted/scenario.yaml", Scenario: l.scenario},
				Environment: runner.Environment{AgentEnv: []string{"HOLON_RETRY_FOR=0"}}}, nil, nil
		}})
	cfg := agent.Config{Store: l.store, Turns: l.keeper, Homes: bareHomes{l.home},
		Owner: responses.NewID("boot_"), Default: "main", Model: "scripted/scenario.yaml", Drain: time.Millisecond,
		Log: log}
	for _, change := range l.change {
		change(&cfg)
	}
	l.runtime, err = agent.Open(ctx, cfg)
	expect.NoError(l.t, err)
	a := answers.New(answers.Options{Store: l.store, Steps: l.runtime.Scheduler(), OpenTurnFile: l.keeper.OpenTurnFile,
		Log: log})
	l.server = httptest.NewServer(door(a))
	l.url = l.server.URL
	ctx, l.stop = context.WithCancel(ctx)
	l.ended = make(chan error, 1)
	go func() { l.ended <- l.runtime.Run(ctx) }()
}

// door serves as the host's door does: it finds the caller by the token, and writes errors.
func door(a *answers.Answers) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := callers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/responses/"), "/")
		var err error
		if r.URL.Path == "/v1/responses" {
			body, _ := io.ReadAll(r.Body)
			name := strings.TrimPrefix(field(body, "model"), answers.Prefix)
			err = a.Create(r.Context(), caller, name, r.Header.Get(responses.HeaderIdempotencyKey), body, w)
		} else {
			var found bool
			if found, err = a.Serve(r.Context(), caller, id, w, r); !found && err == nil {
				err = responses.NotFound("id", responses.CodeNotFound, "there is no such response")
			}
		}
		if err != nil {
			e := responses.AsError(err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(e.Status())
			_, _ = w.Write(e.Envelope())
		}
	})
}

// close closes the runtime as a daemon does when it is asked to.
func (l *lab) close() {
	l.t.Helper()
	l.server.Close()
	l.stop()
	ctx := context.Background()
	expect.NoError(l.t, errors.Join(<-l.ended, l.runtime.Close(ctx), l.keeper.Close(ctx), l.eng.Close(),
		l.store.Close()))
}

// call makes a request and returns the status and the body.
func (l *lab) call(token, method, path, body string, header ...string) (int, []byte) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	resp := l.begin(ctx, token, method, path, body, header...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	expect.NoError(l.t, err)
	return resp.StatusCode, data
}

func (l *lab) begin(ctx context.Context, token, method, path, body string, header ...string) *http.Response {
	l.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, l.url+"/v1/responses"+path, strings.NewReader(body))
	expect.NoError(l.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if len(header) > 0 {
		r.Header.Set(header[0], header[1])
	}
	resp, err := http.DefaultClient.Do(r)
	expect.NoError(l.t, err)
	return resp
}

// ask sends a request whose answer is a response.
func (l *lab) ask(token, method, path, body string) *responses.Response {
	l.t.Helper()
	status, data := l.call(token, method, path, body)
	if status != http.StatusOK {
		l.t.Fatalf("%s %s %s: %d %s", method, path, body, status, data)
	}
	resp, err := responses.DecodeResponse(data)
	expect.NoError(l.t, err)
	return resp
}

// refused sends a request that is refused with a code and a parameter.
func (l *lab) refused(token, method, path, body string, status int, code, param string) *responses.Error {
	l.t.Helper()
	got, data := l.call(token, method, path, body)
	e := responses.DecodeEnvelope(got, data)
	if got != status || e.Code != code || e.Param != param {
		l.t.Errorf("%s %s %s: %d %s, want %d, %s, %s", method, path, body, got, data, status, code, param)
	}
	return e
}

// until waits until what the ledger says holds.
func (l *lab) until(what string, holds func(ledger.View) (bool, error)) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for {
		changed, ok := l.store.Changed(""), false
		expect.NoError(l.t, l.store.View(ctx, func(v ledger.View) (err error) {
			ok, err = holds(v)
			return err
		}))
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.t.Fatalf("gave up waiting for %s", what)
		}
	}
}

func (l *lab) untilBegun(id string) {
	l.t.Helper()
	l.until("the turn of "+id, func(v ledger.View) (bool, error) {
		e, err := v.Entry(ledger.OfResponse(id))
		if err != nil || e.AttemptID == "" {
			return false, err
		}
		a, err := v.Attempt(e.AttemptID)
		return a.BegunAt != nil, err
	})
}

// untilStatus waits until a response is read with a status.
func (l *lab) untilStatus(id string, status responses.Status) {
	l.t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); l.ask("app", "GET", "/"+id, "").Status != status; <-again.C {
		if time.Now().After(end) {
			l.t.Fatalf("gave up waiting until %s is %s", id, status)
		}
	}
}
