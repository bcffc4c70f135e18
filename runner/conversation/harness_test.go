package conversation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/engine/local"
	"holon/runner/pool"
	"holon/runner/sessions"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/test/expect"
	"holon/test/gittest"
	"holon/test/load"
	"holon/test/programs"
)

// write is a conversation whose first turn changes a file and adds one.
const write = `
turns:
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "echo agent > file.txt; echo new > new.txt"}}]}, {text: done}]
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "echo more >> file.txt"}}]}, {text: done}]
`

const slow = `rounds: [{chunks: ["begun", "."], gap: 1h}]`

// patience bounds what a test waits for.
const patience = time.Minute

// lab has a home with sessions whose containers are those of a pool.
type lab struct {
	*testing.T
	home     state.Home
	dir      string
	repo     string
	log      logged
	opts     Options
	engine   engine.Engine
	agentd   string
	scenario string
	pool     *pool.Pool
	*Sessions
}

type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// newLab makes a lab with the local engine.
func newLab(t *testing.T, change func(*Options)) *lab {
	t.Helper()
	l := &lab{T: t, dir: gittest.DiskDir(t)} // no engine mounts what lies below /dev
	var err error
	l.engine, err = local.New(local.Options{Dir: filepath.Join(l.dir, "l"), Env: []string{"PATH=" + os.Getenv("PATH")}})
	expect.NoError(t, err)
	l.setUp(write, change)
	return l
}

// newDockerLab makes a lab with a Docker engine, which is needed.
func newDockerLab(t *testing.T, scenario string) *lab {
	t.Helper()
	l := &lab{T: t, dir: gittest.DiskDir(t)}
	var err error
	l.engine, err = docker.New("", "")
	expect.NoError(t, err)
	if _, err := l.engine.Check(t.Context()); err != nil {
		t.Skipf("no engine answers: %v", err)
	}
	l.setUp(scenario, nil)
	return l
}

func (l *lab) setUp(scenario string, change func(*Options)) {
	l.Helper()
	var err error
	l.home, err = state.MakeHome(filepath.Join(l.dir, "h"), "")
	expect.NoError(l, err)
	l.repo, l.scenario = filepath.Join(l.dir, "src", "app"), filepath.Join(l.dir, "scenario.yaml")
	expect.NoError(l, os.MkdirAll(l.repo, 0o755))
	gittest.FillRepo(l, l.repo, map[string]string{"file.txt": "file\n"})
	l.play(scenario)
	l.agentd, err = programs.Path("agentd")
	expect.NoError(l, err)
	l.opts = Options{Home: l.home, Roots: []string{filepath.Join(l.dir, "src")}, Engine: l.engine.Name(),
		Local:     l.engine.Name() == "local",
		Borrowing: func() git.Borrowing { return git.Borrowing{StateHome: l.home.Dir()} },
		Log:       slog.New(slog.NewTextHandler(&l.log, nil))}
	if change != nil {
		change(&l.opts)
	}
	l.restart()
	l.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		expect.NoError(l, l.pool.Close(ctx))
		if l.Failed() {
			l.Log(l.log.b.String())
		}
	})
}

// play has the model of turns from now on play a scenario.
func (l *lab) play(scenario string) {
	expect.NoError(l, os.WriteFile(l.scenario, []byte(scenario), 0o644))
}

// restart is what a holon does that finds the home.
func (l *lab) restart() {
	l.Helper()
	l.pool = pool.New(pool.Options{Key: sessions.OfConversation, AtOnce: true, Home: l.home, Engine: l.engine,
		Agentd: l.agentd, Image: "holon/base:latest", Version: "test", Log: l.opts.Log, KeepTurns: -1, KeepBytes: -1,
		Configure: func(ctx context.Context, t pool.Turn) (c runner.Config, _ io.Closer, err error) {
			c.Model, c.Scenario, c.Memory = "scripted/x", l.scenario, 512<<20
			return c, nil, l.Configure(ctx, t.AgentID, &c)
		}})
	l.opts.Pool = l.pool
	l.open()
}

// open reads the home anew.
func (l *lab) open() {
	l.Helper()
	var err error
	l.Sessions, err = Open(l.Context(), l.opts)
	expect.NoError(l, err)
	l.decided = 0 // tests look before anything recovers what was left
}

// run runs the sessions until stop is called.
func (l *lab) run() (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	ran, s := make(chan error, 1), l.Sessions
	go func() { ran <- s.Run(ctx) }()
	return func() {
		cancel()
		<-ran
	}
}

func (l *lab) start(a Ask) *Session {
	l.Helper()
	if a.Owner == "" {
		a.Owner = "ann"
	}
	a.Model = "scripted/x"
	x, err := l.Start(l.Context(), a)
	expect.NoError(l, err)
	return x
}

// turn makes a turn to its end, which must be completed.
func (l *lab) turn(x *Session) runner.End {
	l.Helper()
	id := responses.NewID(responses.PrefixTurn)
	end, err := x.Turn(l.Context(), id, "", "go on", l.post(x, id))
	expect.NoError(l, err)
	if end.Status != responses.StatusCompleted {
		l.Fatalf("%s: %+v", end.Status, end.Failure)
	}
	return end
}

// post asks for a turn as a door does, after the session's current response.
func (l *lab) post(x *Session, turnID string) runner.Ask {
	previous := x.Current()
	return func(ctx context.Context, agent *client.Client, _ string) (*responses.Response, error) {
		r := responses.NewRequest("scripted/x", responses.UserMessage("go on"))
		r.Holon.SessionID, r.Holon.TurnID, r.Holon.WorkspaceDir = x.AgentSession(), turnID, x.WorkDir()
		r.PreviousResponseID = previous
		return agent.Background(ctx, r)
	}
}

// leave begins a turn that takes long, and leaves it as a holon does that ends.
func (l *lab) leave(x *Session, turnID string) {
	l.Helper()
	ctx, leave := context.WithCancelCause(l.Context())
	left := make(chan error)
	go func() {
		_, err := x.Turn(ctx, turnID, "", "go on", l.post(x, turnID))
		left <- err
	}()
	l.wait("a response", func() bool { return len(x.Info().ResponseIDs) == 1 })
	expect.Equal(l, "activity", x.Info().Activity, "running")
	leave(runner.ErrLeft)
	if err := <-left; !state.IsCode(err, pool.CodeLeft) {
		l.Fatal(err)
	}
	expect.NoError(l, l.pool.Leave(l.Context()))
}

// wait waits until what says that it is so.
func (l *lab) wait(what string, so func() bool) {
	l.Helper()
	expect.NoError(l, load.Eventually(l.Context(), patience, func() error {
		if so() {
			return nil
		}
		return fmt.Errorf("%s: not yet", what)
	}))
}

// none are containers of which there is none.
type none struct{ containers }

func (none) Stop(context.Context, string) error { return nil }
func (none) Isolation(string) *state.Isolation  { return nil }
func (none) Stored(string, string) bool         { return true }
