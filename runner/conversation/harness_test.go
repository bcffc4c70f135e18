package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/internal/folder"
	"holon/responses"
	"holon/responses/client"
	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/test/expect"
	"holon/test/gittest"
	"holon/test/load"
	"holon/test/memory"
)

// write is a conversation whose first turn changes a file and adds one.
const write = `
turns:
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "echo agent > file.txt; echo new > new.txt"}}]}, {text: done}]
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "echo more >> file.txt"}}]}, {text: done}]
`

const slow = `rounds: [{chunks: ["begun", "."], gap: 1h}]`

// lab has a home with sessions whose containers are agentd processes.
type lab struct {
	*testing.T
	home state.Home
	repo string
	log  logged
	opts Options
	*Sessions

	mu     sync.Mutex
	agents map[string]*load.Agentd
	dir    string
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

func newLab(t *testing.T, change func(*Options)) *lab {
	t.Helper()
	dir, err := os.MkdirTemp(memory.Place(), "ses") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	home, err := state.MakeHome(filepath.Join(dir, "home"), "")
	expect.NoError(t, err)
	l := &lab{T: t, home: home, dir: dir, agents: make(map[string]*load.Agentd)}
	l.repo = filepath.Join(dir, "src", "app")
	expect.NoError(t, os.MkdirAll(l.repo, 0o755))
	gittest.FillRepo(t, l.repo, map[string]string{"file.txt": "file\n", "talk.yaml": write, "slow.yaml": slow})
	l.opts = Options{Home: home, Pool: l, Roots: []string{filepath.Join(dir, "src")}, Engine: "local", Local: true,
		Borrowing: func() git.Borrowing { return git.Borrowing{StateHome: home.Dir()} },
		Log:       slog.New(slog.NewTextHandler(&l.log, nil))}
	if change != nil {
		change(&l.opts)
	}
	l.open()
	t.Cleanup(func() {
		for _, a := range l.agents {
			a.Kill()
		}
		if t.Failed() {
			t.Log(l.log.b.String())
		}
		_ = os.RemoveAll(dir)
	})
	return l
}

// open is what a process does that finds the home.
func (l *lab) open() {
	l.Helper()
	var err error
	l.Sessions, err = Open(l.Context(), l.opts)
	expect.NoError(l, err)
}

func (l *lab) start(a Ask) *Session {
	l.Helper()
	if a.Owner == "" {
		a.Owner = "ann"
	}
	a.Model = "scripted/talk"
	x, err := l.Start(l.Context(), a)
	expect.NoError(l, err)
	return x
}

// turn makes a turn to its end, which must be completed.
func (l *lab) turn(x *Session, model string) runner.End {
	l.Helper()
	end, err := x.Turn(l.Context(), responses.NewID(responses.PrefixTurn), model, l.post(x, model))
	expect.NoError(l, err)
	expect.Equal(l, "status", end.Response.Status, responses.StatusCompleted)
	return end
}

// post asks for a turn as a door does, with the session's last response before.
func (l *lab) post(x *Session, model string) runner.Ask {
	return func(ctx context.Context, agent *client.Client, token string) (*responses.Response, error) {
		r := responses.NewRequest(model, responses.UserMessage("go on"))
		r.Holon.SessionID, r.Holon.TurnID, r.Holon.WorkspaceDir = x.AgentSession(), currentTurn(ctx), x.WorkDir()
		if ids := x.Info().ResponseIDs; len(ids) > 0 {
			r.PreviousResponseID = ids[len(ids)-1]
		}
		return agent.WithModelToken(token).Background(ctx, r)
	}
}

type turnKey struct{}

func currentTurn(ctx context.Context) string { return ctx.Value(turnKey{}).(string) }

// agent is the agentd of a session, which is launched if need be.
func (l *lab) agent(ctx context.Context, id string) (*load.Agentd, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.agents[id]; a != nil {
		return a, nil
	}
	tree, err := l.Tree(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "a")
	if err != nil {
		return nil, err
	}
	a, err := load.NewAgentd(dir, filepath.Join(l.home.SessionDir(id), sessionDir), "--min-free-bytes", "0")
	if err != nil {
		return nil, err
	}
	a.Output = filepath.Join(l.home.SessionDir(id), sessionDir, "output")
	if tree != nil {
		a.Flags = append(a.Flags, "--workspace-dir", tree.TreeDir)
	}
	for _, dir := range []string{a.Output, a.State} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := a.Launch(); err != nil {
		return nil, err
	}
	l.agents[id] = a
	return a, a.Ready(ctx)
}

// Turn implements containers.
func (l *lab) Turn(ctx context.Context, t pool.Turn, began func(), watch runner.Observer) (runner.End, error) {
	return l.follow(ctx, t, t.Ask, began, watch)
}

// Recover implements containers.
func (l *lab) Recover(ctx context.Context, t pool.Turn, began func(), watch runner.Observer) (runner.End, error) {
	end, err := l.follow(ctx, t, nil, began, watch)
	if e, ok := errors.AsType[*responses.Error](err); ok && e.Code == responses.CodeTurnNotFound {
		return runner.End{NotBegun: true}, nil
	}
	return end, err
}

func (l *lab) follow(ctx context.Context, t pool.Turn, ask runner.Ask, began func(), watch runner.Observer) (end runner.End,
	err error) {
	a, err := l.agent(ctx, t.AgentID)
	if err != nil {
		return end, err
	}
	agent := client.Unix(a.Socket())
	defer agent.Close()
	token, _ := gateway.NewToken()
	if ask != nil {
		ctx := context.WithValue(ctx, turnKey{}, t.ID())
		if end.Response, err = ask(ctx, agent, token.Reveal()); err != nil {
			return end, err
		}
	}
	began()
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), runner.ErrLeft) {
			if rec, err := agent.Turn(context.WithoutCancel(ctx), t.ID()); err == nil {
				_, _ = agent.Cancel(context.WithoutCancel(ctx), rec.ResponseID) // its end is read
			}
		}
	})
	defer stop()
	reading, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), runner.ErrLeft) {
			leave()
		}
	})()
	for e, err := range agent.Entries(reading, t.ID()) {
		switch {
		case errors.Is(context.Cause(ctx), runner.ErrLeft):
			return end, &state.Error{Code: pool.CodeLeft}
		case err != nil:
			return end, err
		case e.Runtime != nil:
			watch.Fact(*e.Runtime)
			continue
		case e.Stream.Response != nil:
			end.Response = e.Stream.Response
		}
		watch.Event(*e.Stream)
	}
	end.TurnID, end.Account = t.ID(), &gateway.Account{Usage: gateway.Usage{Requests: 1, Total: 10, Cost: 5}}
	return end, nil
}

// Do implements containers.
func (l *lab) Do(ctx context.Context, t pool.Turn, fn func(context.Context, *client.Client) error) error {
	a, err := l.agent(ctx, t.AgentID)
	if err != nil {
		return err
	}
	agent := client.Unix(a.Socket())
	defer agent.Close()
	return fn(ctx, agent)
}

// Still implements containers: the tests write no tree meanwhile.
func (l *lab) Still(ctx context.Context, _ string, fn func(context.Context, *folder.Owner) error) error {
	return fn(ctx, nil)
}

// Stop implements containers.
func (l *lab) Stop(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.agents[id]
	delete(l.agents, id)
	if a == nil {
		return nil
	}
	return a.End()
}

// Isolation implements containers.
func (l *lab) Isolation(id string) *state.Isolation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.agents[id] == nil {
		return nil
	}
	return new(state.Isolation)
}

// wait waits until what says that it is so.
func (l *lab) wait(what string, so func() bool) {
	l.Helper()
	err := load.Eventually(l.Context(), time.Minute, func() error {
		if so() {
			return nil
		}
		return fmt.Errorf("%s: not yet", what)
	})
	expect.NoError(l, err)
}
