package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
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

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/agentd/model/openai"
	"holon/agentd/model/scripted"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/agentd/tools/command"
	"holon/agentd/tools/image"
	"holon/agentd/tools/patch"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
	"holon/test/memory"
)

// sideBySide is how many tests run at the same time, which mostly wait.
const sideBySide = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", sideBySide); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. No test takes that long unless it fails.
const patience = 3 * time.Minute

// harness is a server as a container has it, except that the supervisor shares
// the process with the test.
type harness struct {
	t      *testing.T
	dir    string
	cfg    config.Config
	server *agentd.Server
	gate   *gate
	http   *http.Client // over the Unix socket
	tcp    string       // address of the TCP listener
	stop   func() error // ends Serve as SIGTERM does and waits for it

	address chan string // where it listens
}

// gate is a model that says a little and then waits to be let on. As
// gate/thinker it thinks first.
type gate struct {
	started chan struct{} // one for each sampling that waits
	release chan struct{}

	deadline atomic.Pointer[time.Time] // of the latest turn that came
}

// Stream implements model.Transport.
func (g *gate) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if req.Model == "thinker" && (!yield(model.Event{Kind: model.ReasoningBegin}, nil) ||
			!yield(model.Event{Kind: model.SummaryDelta, Text: "Hm."}, nil) ||
			!yield(model.Event{Kind: model.ReasoningEnd}, nil)) {
			return
		}
		if !yield(model.Event{Kind: model.MessageBegin}, nil) ||
			!yield(model.Event{Kind: model.TextDelta, Text: "Working."}, nil) {
			return
		}
		if at, ok := ctx.Deadline(); ok {
			g.deadline.Store(&at)
		}
		g.started <- struct{}{}
		select {
		case <-g.release:
		case <-ctx.Done():
			yield(model.Event{}, model.Cancelled(ctx))
			return
		}
		if yield(model.Event{Kind: model.TextDelta, Text: " Done."}, nil) {
			yield(model.Event{Kind: model.Done, Stop: model.StopEnd,
				Usage: responses.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}}, nil)
		}
	}
}

// wait waits until n samplings wait at the gate.
func (g *gate) wait(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-g.started:
		case <-time.After(patience):
			t.Fatal("no turn came to the gate")
		}
	}
}

// start serves on a Unix socket, and on TCP when change sets an address.
func start(t *testing.T, change ...func(*config.Config, *agentd.Parts)) *harness {
	t.Helper()
	return startIn(t, shortDir(t), change...)
}

// shortDir makes a directory whose path leaves room for a socket's, in memory if there is enough of it: no test cuts
// the power.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory.Place(), "agentd") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func startIn(t *testing.T, dir string, change ...func(*config.Config, *agentd.Parts)) *harness {
	t.Helper()
	h := prepare(t, dir, change...)
	h.serve()
	return h
}

// impatient serves with little patience for slow connections.
func impatient(t *testing.T, heartbeat, write, body time.Duration,
	change ...func(*config.Config, *agentd.Parts)) *harness {
	t.Helper()
	h := prepare(t, shortDir(t), change...)
	h.server.SetWaits(heartbeat, write, body)
	h.serve()
	return h
}

// prepare opens a server that does not serve yet.
func prepare(t *testing.T, dir string, change ...func(*config.Config, *agentd.Parts)) *harness {
	t.Helper()
	h := &harness{t: t, dir: dir, cfg: config.Default(),
		gate: &gate{started: make(chan struct{}, 64), release: make(chan struct{})}}
	h.cfg.Server.Socket = filepath.Join(dir, "ipc", "agent.sock")
	for name, at := range map[string]*string{"input": &h.cfg.Dirs.Input, "output": &h.cfg.Dirs.Output,
		"state": &h.cfg.Dirs.State, "tree": &h.cfg.Dirs.Workspace, "skills": &h.cfg.Dirs.Skills,
		"anchors": &h.cfg.Dirs.Anchors} {
		*at = filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(*at, 0o700))
	}
	h.cfg.Models.Default, h.cfg.Turns.MinFree, h.cfg.Turns.Concurrency, h.cfg.Turns.Grace = "gate/any", 0, 4,
		time.Second
	h.cfg.Models.RetryFor = 0 // a test that wants failures to pass says so
	h.address = make(chan string, 2)
	parts := h.parts(slog.New(&addresses{slog.DiscardHandler, h.address}))
	for _, f := range change {
		f(&h.cfg, &parts)
	}
	expect.NoError(t, h.cfg.Validate())
	server, err := agentd.Open(h.cfg, parts)
	if err != nil {
		t.Fatal(errors.Join(err, parts.Close()))
	}
	h.server = server
	return h
}

// parts are the real ones with two fake providers.
func (h *harness) parts(log *slog.Logger) agentd.Parts {
	h.t.Helper()
	script, err := scripted.New(scripted.Options{Dirs: []string{h.cfg.Dirs.Workspace}})
	expect.NoError(h.t, err)
	remote, err := openai.New(openai.Options{})
	expect.NoError(h.t, err)
	models, err := model.NewResolver(model.Options{
		Transports: map[string]model.Transport{"scripted": script, "openai": remote, "gate": h.gate, "flood": flood{}},
		Default:    h.cfg.Models.Default, Retry: model.Policy{},
	})
	expect.NoError(h.t, err)
	supervisor := process.New(process.Options{Logger: log})
	managed := tasks.New(tasks.Options{Dir: filepath.Join(h.cfg.Dirs.State, "tasks")})
	commands := command.Options{Starter: supervisor, Tasks: managed}
	family, err := command.New(commands)
	expect.NoError(h.t, err)
	apply, err := patch.New()
	expect.NoError(h.t, err)
	view, err := image.New()
	expect.NoError(h.t, err)
	registry, err := tools.NewRegistry(append(family, apply, view)...)
	expect.NoError(h.t, err)
	return agentd.Parts{Models: models, Tools: func() (*tools.Registry, error) { return registry, nil },
		Tasks: managed, Commands: commands, Log: log, Version: "test",
		Environ: process.Environ(os.Environ()), Now: time.Now, Close: func() error {
			return errors.Join(managed.Close(), supervisor.Close())
		}}
}

// serve runs the server until stop, and at the latest until the test ends.
func (h *harness) serve() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.server.Serve(ctx) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.cfg.Server.Socket)
	}}
	h.http = &http.Client{Transport: &validator{h.t, transport}}
	h.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		transport.CloseIdleConnections()
		err = errors.Join(err, h.server.Close())
		checkFacts(h.t, h.cfg.Dirs.Output)
		return err
	})
	h.t.Cleanup(func() {
		if err := h.stop(); err != nil {
			h.t.Errorf("serve: %v", err)
		}
	})
	listeners := 0
	for _, at := range []string{h.cfg.Server.Socket, h.cfg.Server.Listen} {
		if at != "" {
			listeners++
		}
	}
	for range listeners {
		select {
		case a := <-h.address:
			if a != h.cfg.Server.Socket && !strings.HasPrefix(a, h.cfg.Server.Socket+".") {
				h.tcp = a
			}
		case err := <-done:
			done <- err
			h.t.Fatalf("serve: %v", err)
		case <-time.After(patience):
			h.t.Fatal("the server does not listen")
		}
	}
}

// addresses passes on where the server listens.
type addresses struct {
	slog.Handler
	at chan<- string
}

func (a *addresses) Enabled(context.Context, slog.Level) bool { return true }

func (a *addresses) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "address" {
			a.at <- attr.Value.String()
		}
		return true
	})
	return nil
}

// With attributes it is the same handler: the address comes without any.
func (a *addresses) WithAttrs([]slog.Attr) slog.Handler { return a }

// answer is an answer read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
	asked  string // the request, for messages
}

// response decodes a response object.
func (a answer) response(t *testing.T) *responses.Response {
	t.Helper()
	resp, err := responses.DecodeResponse(a.body)
	if err != nil {
		t.Fatalf("status %d, %v: %.500s", a.status, err, a.body)
	}
	return resp
}

// failure decodes an error envelope.
func (a answer) failure(t *testing.T) *responses.Error {
	t.Helper()
	if a.status < 400 {
		t.Fatalf("status %d, want an error: %.500s", a.status, a.body)
	}
	return responses.DecodeEnvelope(a.status, a.body)
}

func (h *harness) do(method, path string, body string, header ...string) answer {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	a, err := h.try(ctx, method, path, body, header...)
	expect.NoError(h.t, err)
	return a
}

func (h *harness) try(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agentd"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, data, fmt.Sprintf("%s %s %.200s", method, path, body)}, err
}

func (h *harness) post(body string, header ...string) answer {
	h.t.Helper()
	return h.do(http.MethodPost, "/v1/responses", body, header...)
}

// later posts in the background; the result waits in the channel.
func (h *harness) later(ctx context.Context, body string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		a, err := h.try(ctx, http.MethodPost, "/responses", body)
		if err != nil {
			a.body = []byte(err.Error())
		}
		done <- a
	}()
	return done
}

// get waits for an answer posted in the background.
func get(t *testing.T, from <-chan answer) answer {
	t.Helper()
	select {
	case a := <-from:
		return a
	case <-time.After(patience):
		t.Fatal("there is no answer")
		return answer{}
	}
}

// record reads turn.json from disk; as long as there is none, the server tells of
// the turn.
func (h *harness) record(turnID string) *turns.Record {
	h.t.Helper()
	var data []byte
	eventually(h.t, "the turn has its record", func() (there bool) {
		var err error
		if data, err = os.ReadFile(h.file(turnID, turns.RecordFile)); err == nil {
			return true
		}
		if !errors.Is(err, fs.ErrNotExist) {
			h.t.Fatal(err)
		}
		a := h.do(http.MethodGet, "/turns/"+turnID, "")
		data = a.body
		return a.status == http.StatusOK
	})
	rec, err := turns.DecodeRecord(data)
	expect.NoError(h.t, err)
	return rec
}

func (h *harness) file(turnID, name string) string {
	return filepath.Join(h.cfg.Dirs.Output, "turns", turnID, name)
}

// read returns a file of a turn.
// runtimeEvents returns the runtime events that GET /turns/{id}/events has, and checks that its lines have no gap.
func (h *harness) runtimeEvents(turnID, query string) (list []turns.RuntimeEvent) {
	h.t.Helper()
	seq := int64(0)
	for line := range bytes.Lines(h.do(http.MethodGet, "/turns/"+turnID+"/events"+query, "").body) {
		e, err := turns.DecodeEntry(line)
		if err != nil || seq != 0 && e.Seq != seq+1 {
			h.t.Fatalf("after the line %d comes %s (%v)", seq, line, err)
		}
		if seq = e.Seq; e.Runtime != nil {
			list = append(list, *e.Runtime)
		}
	}
	return list
}

func (h *harness) read(turnID, name string) []byte {
	h.t.Helper()
	data, err := os.ReadFile(h.file(turnID, name))
	expect.NoError(h.t, err)
	return data
}

// alone serves with the models of one provider, of which the first is the default.
func alone(t *testing.T, provider, name string, transport model.Transport) func(*config.Config, *agentd.Parts) {
	return func(c *config.Config, p *agentd.Parts) {
		c.Models.Default = provider + "/" + name
		models, err := model.NewResolver(model.Options{Transports: map[string]model.Transport{provider: transport},
			Default: c.Models.Default})
		expect.NoError(t, err)
		p.Models = models
	}
}

// scenario writes a scripted model and returns its reference.
func (h *harness) scenario(name, yaml string) string {
	h.t.Helper()
	expect.NoError(h.t, os.WriteFile(filepath.Join(h.cfg.Dirs.Workspace, name+".yaml"), []byte(yaml), 0o600))
	return "scripted/" + name
}

// eventually waits for a condition that another goroutine will bring about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (h *harness) health() turns.Health {
	h.t.Helper()
	health, err := turns.DecodeHealth(h.do(http.MethodGet, "/health", "").body)
	expect.NoError(h.t, err)
	return health
}

// lines returns the data lines of a stream of server-sent events.
func lines(body []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !bytes.HasPrefix(data, []byte("[DONE]")) {
			out.Write(data)
		}
	}
	return out.Bytes()
}

// quote writes s as a JSON string.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a string that is no JSON: %v", err))
	}
	return string(b)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
