package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/responses/turns"
	"holon/runner/agent/home"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/clientsessions"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

var viewAll = view.EventQuery{Limit: view.MaxLimit}

// host is the runtime as far as the control plane needs it: it makes agents without homes, and runs none.
type host struct {
	machine *scheduler.Scheduler
	info    view.RuntimeInfo
	ended   atomic.Int32
	retired atomic.Pointer[string] // the agent that was retired last
	prompt  func()                 // called by Prompt; nil: nothing
	now     atomic.Pointer[written]
}

func (h *host) CreateAgent(ctx context.Context, id, template string) (ledger.Agent, error) {
	return h.machine.Create(ctx, scheduler.NewAgent{ID: id, Template: template})
}

func (h *host) Prompt(_ context.Context, agentID, text string) (json.RawMessage, error) {
	if h.prompt != nil {
		h.prompt()
	}
	return json.Marshal(map[string]string{"agent_id": agentID, "text": text})
}

// CheckModel refuses models of the provider nowhere, and those of keyless without force.
func (h *host) CheckModel(ref string, keyless bool) error {
	if strings.HasPrefix(ref, "nowhere/") || strings.HasPrefix(ref, "keyless/") && !keyless {
		return &state.Error{Code: wire.CodeInvalidValue, Param: "model", Message: ref + " cannot be asked", Hint: "no"}
	}
	return nil
}

// CheckImage refuses the image nope.
func (h *host) CheckImage(_ context.Context, image string) error {
	if image == "nope" {
		return &state.Error{Code: wire.CodeInvalidValue, Param: "image", Message: "nope is not here", Hint: "no"}
	}
	return nil
}

func (h *host) Models(context.Context) (view.Models, error) {
	return view.Models{DefaultModel: h.info.DefaultModel, FallbackModels: h.info.FallbackModels,
		Available:    []view.Model{{Model: h.info.DefaultModel, Provider: "scripted"}},
		Availability: []view.ModelAvailability{{Model: h.info.DefaultModel, Available: true}}}, nil
}

// written is what the model writes, until changed is closed.
type written struct {
	record.Writing
	changed chan struct{}
}

// show has the model write.
func (h *host) show(w record.Writing) {
	if before := h.now.Swap(&written{w, make(chan struct{})}); before != nil {
		close(before.changed)
	}
}

func (h *host) Writing(string) (record.Writing, <-chan struct{}) {
	h.now.CompareAndSwap(nil, &written{changed: make(chan struct{})})
	now := h.now.Load()
	return now.Writing, now.changed
}

func (h *host) Info() view.RuntimeInfo { return h.info }

func (h *host) SetBudget(ctx context.Context, agentID string, b scheduler.Budget) (ledger.TreeAccount, error) {
	return h.machine.SetBudget(ctx, agentID, "operator", b)
}

func (h *host) Shutdown() { h.ended.Add(1) }

// rig is a control plane on a real ledger, reachable in both ways.
type rig struct {
	t        testing.TB
	store    ledger.Store
	machine  *scheduler.Scheduler
	host     *host
	options  control.Options // of the server
	sessions *clientsessions.Sessions
	server   *control.Server
	socket   string
	addr     string // of the TCP port
	session  string // what the container of an agent wrote
	runs     *files.Runs
	home     string // of the agent main
	log      *buffer
	clock    atomic.Int64 // milliseconds
	stop     func()
}

type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// wrap lets a test put something between the control plane and the store.
type wrap func(ledger.Store) ledger.Store

func newRig(t testing.TB, limits control.Limits, access control.Access, wraps ...wrap) *rig {
	t.Helper()
	dir := memory.Dir(t)
	r := &rig{t: t, socket: filepath.Join(dir, "run", "holon.sock"), session: filepath.Join(dir, "session"),
		log: new(buffer)}
	r.clock.Store(time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC).UnixMilli())
	now := func() time.Time { return time.UnixMilli(r.clock.Add(1)).UTC() }
	base, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "ledger.db")})
	expect.NoError(t, err)
	r.store = base
	r.machine = scheduler.New(r.store, scheduler.Options{Owner: "inst_test", Now: now})
	must(r.machine.Create(t.Context(), scheduler.NewAgent{ID: "main", Default: true}))(t)
	for _, w := range wraps {
		r.store = w(r.store)
	}
	r.host = &host{machine: r.machine, info: view.RuntimeInfo{PID: 42, Version: "test", HomeDir: "/home",
		SocketPath: "/home/run/holon.sock", StartedAt: turns.At(now()),
		ConfigFingerprint: "abc", Engine: "docker", DefaultAgent: "main", DefaultModel: "scripted/demo",
		FallbackModels: []string{"scripted/other"}, Ready: true}}
	r.options = control.Options{Store: r.store, Steps: r.machine, Host: r.host, Limits: limits, Memory: memories{},
		OpenTurnFile: func(_, turnID, name string) (*os.File, error) {
			turn, err := turnfiles.Open(r.session, turnID)
			if err != nil {
				return nil, err
			}
			defer turn.Close()
			return turn.OpenPlain(name)
		},
		Log:   slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Facts: view.Facts{Home: func(id string) string { return "/home/agents/" + id }}}
	stateHome, err := state.MakeHome(dir, "")
	expect.NoError(t, err)
	homes := home.New(home.Options{Home: stateHome})
	expect.NoError(t, homes.Create(t.Context(), "main", ""))
	r.runs, r.home = files.New(stateHome), stateHome.AgentDir("main")
	r.options.OpenRunFile, r.options.KeepFile = r.runs.OpenResult, homes.Keep
	r.sessions = clientsessions.New(t)
	r.options.Sessions = r.sessions
	r.server = control.New(r.options)
	r.run(access)
	t.Cleanup(func() {
		r.stop()
		expect.NoError(t, base.Close())
	})
	return r
}

// run opens the listeners and serves on them until stop.
func (r *rig) run(access control.Access) {
	r.t.Helper()
	l, err := control.Listen(r.t.Context(), r.socket, access)
	expect.NoError(r.t, err)
	r.addr = l.HTTPAddr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.server.Run(ctx, l) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// tcp is the access of a loopback port with a token.
func tcp() control.Access {
	return control.Access{Mode: control.ModeLocal, Listen: "127.0.0.1:0", Token: token}
}

func (r *rig) client() *client.Client {
	c := client.Unix(r.socket)
	r.t.Cleanup(c.Close)
	return c
}

// raw makes a request over the Unix socket.
func (r *rig) raw() *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.socket)
	}}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// turn lets a message of an agent be worked off, as the runtime would.
func (r *rig) turn(agentID, answer string) {
	r.t.Helper()
	ctx := r.t.Context()
	c, ok, err := r.machine.Claim(ctx, agentID)
	if err != nil || !ok {
		r.t.Fatalf("claim: %v, %v", ok, err)
	}
	expect.NoError(r.t, r.machine.Began(ctx, c.Attempt.ID,
		scheduler.Sent{Prompt: json.RawMessage(`{}`), Digest: "digest"}))
	at := time.UnixMilli(r.clock.Load()).UTC()
	must(r.machine.Settle(ctx, c.Attempt.ID,
		scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, ResponseID: "resp_" + c.Attempt.TurnID,
			Last: answer, ModelRounds: 2, ToolCalls: 1, StartedAt: at,
			CompletedAt: at.Add(250 * time.Millisecond)}}))(r.t)
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v (%+v)", err, fmt.Sprintf("%#v", err))
		}
		return v
	}
}
