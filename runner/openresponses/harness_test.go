package openresponses_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"holon/responses"
	"holon/responses/client"
	"holon/runner"
	"holon/runner/access"
	"holon/runner/gateway"
	"holon/runner/openresponses"
	"holon/state"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/memory"
)

// patience bounds every wait of a test.
const patience = time.Minute

const scenario = `
turns:
- rounds: [{text: "Hello from the session.", chunk_size: 5}]
- rounds: [{text: "Once more."}]
- rounds: [{text: "And again."}]
- rounds: [{text: "The last time."}]
`

const slow = `rounds: [{chunks: ["begun", "."], gap: 1h}]`

// door is a server whose sessions are real agentd processes.
type door struct {
	t    *testing.T
	dir  string
	url  string
	log  bytes.Buffer
	stop func() // ends the server as holon does

	scenario string        // of the model scripted/conformance
	saving   chan struct{} // what a turn waits for at its end; nil: nothing

	mu       sync.Mutex
	sessions []*session
	running  int
	grown    *sync.Cond // of the ids of a session, or a turn has ended
	turns    sync.WaitGroup
}

// session returns the session n.
func (d *door) session(n int) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[n]
}

// count is how many sessions were opened.
func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

func (x *session) close() {
	x.door.mu.Lock()
	defer x.door.mu.Unlock()
	x.closed = true
}

// session is one agentd. It indexes the items of its turns as they are reported, and responses when it is told of them: a
// client may ask for one as soon as it has its id.
type session struct {
	door *door
	ask  openresponses.Ask
	id   string
	host *load.Agentd

	cut string // socket on which agentd takes turns and is cut off before it answers; "": it answers

	// Under door.mu.
	closed    bool
	ids       map[string]bool // of responses, turns and items
	responses []string
	deleted   []string
}

// open serves. The scenario of a file is that of the model scripted/conformance.
func open(t *testing.T, file ...string) *door {
	t.Helper()
	scenario := ""
	for _, name := range file {
		data, err := os.ReadFile(filepath.Join("..", "..", "test", "clients", "testdata", name))
		expect.NoError(t, err)
		scenario = string(data)
	}
	dir, err := os.MkdirTemp(memory.Place(), "door") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	d := &door{t: t, dir: dir, scenario: scenario}
	d.grown = sync.NewCond(&d.mu)
	server := openresponses.New(openresponses.Options{Sessions: d, HoldEnds: true,
		Log: slog.New(slog.NewTextHandler(&d.log, nil)),
		Models: func(context.Context) ([]responses.Model, error) {
			return []responses.Model{{ID: "scripted/demo", Object: "model", OwnedBy: "scripted"}}, nil
		}})
	above := chi.NewRouter() // as the control plane has it
	above.HandleFunc("/v1/*", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		server.ServeHTTP(w, r.WithContext(access.With(r.Context(),
			access.Caller{Name: name, Sessions: name != "none", Operator: name == "ops"})))
	})
	web := httptest.NewServer(above)
	d.url = web.URL
	d.stop = sync.OnceFunc(func() {
		web.CloseClientConnections()
		server.Close()
		web.Close()
	})
	t.Cleanup(func() {
		d.stop()
		for _, x := range d.sessions {
			x.host.Kill()
		}
		if t.Failed() {
			t.Log(d.log.String())
		}
		_ = os.RemoveAll(dir)
	})
	return d
}

// Start implements openresponses.Sessions with a new agentd, or with the session that its owner calls so already.
func (d *door) Start(ctx context.Context, a openresponses.Ask) (openresponses.Session, error) {
	if a.Workspace == "/elsewhere" {
		return nil, &state.Error{Code: "workspace_not_allowed", Param: "holon.workspace", Message: "no root has it",
			Err: errors.New(d.dir)}
	}
	if a.Workspace == "/broken" {
		return nil, &state.Error{Code: "broken_repository", Param: "holon.workspace", Message: d.dir + " is broken"}
	}
	if a.Workspace == "/taken-over" {
		return nil, &state.Error{Code: responses.CodeElsewhere, Message: "another host has them", Hint: "ask there: " + d.dir}
	}
	if a.Workspace == "/gone" {
		return nil, &state.Error{Code: "other", Param: "holon.workspace", Message: d.dir}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.sessions {
		if a.Name != "" && x.ask.Name == a.Name && x.ask.Owner == a.Owner && !x.closed {
			return x, nil
		}
	}
	dir := filepath.Join(d.dir, fmt.Sprint(len(d.sessions)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	host, err := load.NewAgentd(dir, dir, "--min-free-bytes", "0")
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"talk.yaml": scenario, "slow.yaml": slow, "call.yaml": call,
		"conformance.yaml": d.scenario} {
		if err := os.WriteFile(filepath.Join(host.Workspace(), name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	key := sha256.Sum256([]byte(a.Owner)) // what is compacted in one session of an owner opens in another
	err = errors.Join(os.Mkdir(host.State, 0o700),
		os.WriteFile(filepath.Join(host.State, "compaction.key"), key[:], 0o600))
	if err != nil {
		return nil, err
	}
	x := &session{door: d, ask: a, id: fmt.Sprintf("ses_%d", len(d.sessions)), host: host, ids: map[string]bool{}}
	host.Env = []string{"HOLON_RETRY_FOR=0s"}
	if err := host.Launch(); err != nil {
		return nil, err
	}
	d.sessions = append(d.sessions, x)
	return x, host.Ready(ctx)
}

// find finds a session, and waits for turns that may tell of it.
func (d *door) find(fits func(x *session) bool) (openresponses.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for _, x := range d.sessions {
			if fits(x) {
				return x, nil
			}
		}
		if d.running == 0 {
			return nil, &state.Error{Code: responses.CodeNotFound, Message: "there is none"}
		}
		d.grown.Wait()
	}
}

// Find and the others implement openresponses.Sessions.
func (d *door) Find(owner, name string) (openresponses.Session, error) {
	return d.find(func(x *session) bool { return x.ask.Owner == owner && (x.ask.Name == name || x.id == name) })
}

func (d *door) OfResponse(owner, id string) (openresponses.Session, error) {
	return d.find(func(x *session) bool { return (owner == "" || x.ask.Owner == owner) && x.ids[id] })
}

func (d *door) OfTurn(owner, id string) (openresponses.Session, error) {
	return d.OfResponse(owner, id)
}

func (d *door) OfItem(owner, id string) (openresponses.Session, error) {
	return d.OfResponse(owner, id)
}

func (x *session) Info() openresponses.Info {
	x.door.mu.Lock()
	defer x.door.mu.Unlock()
	return openresponses.Info{ID: x.id, Name: x.ask.Name, Model: x.ask.Model, Closed: x.closed}
}

// Line implements openresponses.Session: the next turn follows none that was cancelled.
func (x *session) Line() []string {
	x.door.mu.Lock()
	line := slices.Clone(x.responses)
	x.door.mu.Unlock()
	agent := client.Unix(x.host.Socket())
	defer agent.Close()
	for len(line) > 0 {
		last, err := agent.GetResponse(context.Background(), line[len(line)-1])
		if err != nil || last.Status != responses.StatusCancelled {
			break
		}
		line = line[:len(line)-1]
	}
	return line
}

func (x *session) AgentSession() string { return "sess_" + x.id }

func (x *session) WorkDir() string { return x.host.Workspace() }

// Turn asks for a turn and follows its journal, as a session of the host does.
func (x *session) Turn(ctx context.Context, turnID, _, _ string, ask runner.Ask) (runner.End, error) {
	x.door.run()
	defer x.door.ran()
	agent := client.Unix(cmp.Or(x.cut, x.host.Socket()))
	defer agent.Close()
	token, _ := gateway.NewToken()
	x.note(turnID)
	first, err := ask(ctx, agent, token.Reveal())
	if x.cut != "" {
		return runner.End{TurnID: turnID}, nil // what agentd stored says that the turn was made
	}
	if err != nil || first.ID == "" {
		return runner.End{}, err
	}
	for e, err := range agent.Entries(ctx, turnID, true) {
		if err != nil {
			return runner.End{}, err
		}
		if e.Stream != nil && e.Stream.Item != nil {
			x.note(e.Stream.Item.ItemID())
		}
	}
	if x.door.saving != nil {
		<-x.door.saving
	}
	return runner.End{TurnID: turnID}, nil
}

func (d *door) run() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
	d.turns.Add(1)
}

func (d *door) ran() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.grown.Broadcast()
	d.turns.Done()
}

// Note implements openresponses.Session.
func (x *session) Note(_, id string) { x.note(id) }

// Deleted implements openresponses.Session.
func (x *session) Deleted(id string) {
	x.door.mu.Lock()
	defer x.door.mu.Unlock()
	x.deleted = append(x.deleted, id)
}

func (x *session) note(id string) {
	x.door.mu.Lock()
	defer x.door.mu.Unlock()
	if strings.HasPrefix(id, responses.PrefixResponse) && !x.ids[id] {
		x.responses = append(x.responses, id)
	}
	x.ids[id] = true
	x.door.grown.Broadcast()
}

func (x *session) Do(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	agent := client.Unix(x.host.Socket())
	defer agent.Close()
	return fn(ctx, agent)
}

// answer is an answer read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) is(t *testing.T, status int, code, param string) {
	t.Helper()
	e := responses.DecodeEnvelope(a.status, []byte(a.body))
	if a.status != status || e.Code != code || e.Param != param {
		t.Errorf("status %d, code %q, param %q, want %d, %q, %q: %.300s", a.status, e.Code, e.Param, status, code, param,
			a.body)
	}
}

func (a answer) response(t *testing.T) *responses.Response {
	t.Helper()
	resp, err := responses.DecodeResponse([]byte(a.body))
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("status %d, %v: %.500s", a.status, err, a.body)
	}
	return resp
}

// request makes a request of ann, unless header says otherwise.
func (d *door) request(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer ann")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(req)
}

func (d *door) do(method, path, body string, header ...string) answer {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	resp, err := d.request(ctx, method, path, body, header...)
	expect.NoError(d.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	expect.NoError(d.t, err)
	return answer{resp.StatusCode, resp.Header, string(data)}
}

func (d *door) post(body string, header ...string) answer {
	d.t.Helper()
	return d.do(http.MethodPost, "/v1/responses", body, header...)
}

// direct asks the agentd of a session itself.
func (x *session) direct(method, path string, header http.Header) answer {
	x.door.t.Helper()
	var a answer
	err := x.Do(x.door.t.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := agent.Raw(ctx, method, path, header, nil)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(resp.Body)
		a = answer{resp.StatusCode, resp.Header, string(data)}
		return errors.Join(err, resp.Body.Close())
	})
	expect.NoError(x.door.t, err)
	return a
}
