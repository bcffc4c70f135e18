package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/internal/providers"
	"holon/responses"
	"holon/runner"
	"holon/runner/agent"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/runner/engine/local"
	"holon/runner/gateway"
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

func (b bareHomes) CheckTemplate(string) error { return nil }

func (b bareHomes) Digest(context.Context, string) (string, error) { return "", nil }

// lab is a home with everything of a runtime: a real store, a real engine and
// real agentds.
type lab struct {
	t        *testing.T
	home     state.Home
	scenario string
	log      *slog.Logger
	fallback []string         // models that are asked when the scenario fails
	budget   int64            // tokens of a conversation; 0: no bound
	gateway  *gateway.Gateway // leads to the provider acme, which is asked in place of the scenario; nil: it is not

	store   ledger.Store
	keeper  *pool.Pool
	runtime *agent.Runtime
	stop    context.CancelFunc
	ended   chan error
}

func newLab(t *testing.T, scenario string) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "ha-") // t.TempDir's paths are too long for sockets
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l := &lab{t: t, scenario: filepath.Join(dir, "scenario.yaml"),
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	expect.NoError(t, os.WriteFile(l.scenario, []byte(scenario), 0o644))
	if l.home, err = state.MakeHome(dir, ""); err != nil {
		t.Fatal(err)
	}
	return l
}

// start opens the runtime and runs it.
func (l *lab) start() {
	l.t.Helper()
	ctx := l.t.Context()
	var err error
	if l.store, err = sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(l.home.Dir(), "ledger.db"),
		Log: l.log}); err != nil {
		l.t.Fatal(err)
	}
	eng, err := local.New(local.Options{Dir: filepath.Join(l.home.Dir(), "local"),
		Env: []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}})
	expect.NoError(l.t, err)
	l.keeper = pool.New(pool.Options{Home: l.home, Engine: eng, Agentd: agentd, Image: "none", Log: l.log,
		Configure: func(_ context.Context, t pool.Turn) (runner.Config, io.Closer, error) {
			c := runner.Config{Models: runner.Models{Model: "scripted/scenario.yaml", Scenario: l.scenario,
				Fallbacks: t.Fallbacks},
				Environment: runner.Environment{AgentEnv: []string{"HOLON_RETRY_FOR=0"}}} // failures are for good
			if l.gateway != nil {
				c.Models = runner.Models{Model: "acme/large", Gateway: l.gateway,
					Providers: []string{"acme=" + string(providers.ChatCompletions)}}
			}
			return c, nil, nil
		}})
	l.runtime, err = agent.Open(ctx, agent.Config{Store: l.store, Turns: l.keeper, Homes: bareHomes{l.home},
		Owner: responses.NewID("boot_"), Default: "main", Model: "scripted/scenario.yaml",
		Fallbacks: l.fallback, Drain: time.Millisecond, Log: l.log, ConversationBudget: l.budget,
		HomeText: func(id, name string) (string, time.Time, error) {
			text, err := os.ReadFile(filepath.Join(l.home.AgentDir(id), name))
			return string(text), time.Time{}, err
		}})
	expect.NoError(l.t, err)
	ctx, l.stop = context.WithCancel(ctx)
	l.ended = make(chan error, 1)
	go func() { l.ended <- l.runtime.Run(ctx) }()
}

// end closes the runtime as a daemon does when it is asked to.
func (l *lab) end() {
	l.t.Helper()
	l.stop()
	ctx := context.Background()
	if err := errors.Join(<-l.ended, l.runtime.Close(ctx), l.keeper.Close(ctx), l.store.Close()); err != nil {
		l.t.Error(err)
	}
}

// said is what the operator says to an agent.
func said(agentID, text string) ledger.Message {
	return ledger.Message{AgentID: agentID, Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Body: ledger.Body{Type: "text", Text: text},
		Surface: ledger.SurfaceCLIPrompt, AdmissionContext: ledger.LocalProcess}
}

func (l *lab) prompt(text, key string, p ledger.Priority) string {
	l.t.Helper()
	in := said("main", text)
	in.Key, in.Priority = key, p
	a, err := l.runtime.Scheduler().Admit(l.t.Context(), in)
	expect.NoError(l.t, err)
	return a.MessageID
}

// until waits until what the ledger says holds.
func (l *lab) until(what string, holds func(v ledger.View) (bool, error)) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for {
		changed := l.store.Changed("")
		ok := false
		err := l.store.View(ctx, func(v ledger.View) (err error) {
			ok, err = holds(v)
			return err
		})
		if err != nil && ctx.Err() == nil {
			l.t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.t.Fatalf("gave up waiting for %s; turns %d, events %s", what, len(l.turns()),
				strings.Join(l.events(), " "))
		}
	}
}

func (l *lab) untilStatus(message string, want ledger.EntryStatus) {
	l.t.Helper()
	l.until(fmt.Sprintf("%s to be %s", message, want), func(v ledger.View) (bool, error) {
		e, err := v.Entry(message)
		return e.Status == want, err
	})
}

func (l *lab) untilBegun() {
	l.t.Helper()
	l.until("the turn to begin", func(v ledger.View) (bool, error) {
		a, ok, err := v.OpenAttempt("main")
		return ok && a.BegunAt != nil, err
	})
}

func (l *lab) turns() (list []ledger.Turn) {
	l.t.Helper()
	err := l.store.View(l.t.Context(), func(v ledger.View) (err error) {
		list, err = v.Turns("main", 100)
		return err
	})
	expect.NoError(l.t, err)
	return list
}

func (l *lab) events() (types []string) {
	l.t.Helper()
	for i, e := range l.recorded() {
		expect.Equal(l.t, "number of an event", e.Seq, int64(i+1))
		types = append(types, record.Of(e).Name)
	}
	return types
}

// recorded are the events of the agent.
func (l *lab) recorded() []ledger.Event {
	l.t.Helper()
	var page ledger.EventPage
	err := l.store.View(l.t.Context(), func(v ledger.View) (err error) {
		page, err = v.Events("main", ledger.EventQuery{Limit: 1000})
		return err
	})
	expect.NoError(l.t, err)
	return page.Events
}

// Two prompts are two turns of one conversation; a restart in between changes
// nothing of it.
func TestTurns(t *testing.T) {
	t.Parallel()
	l := newLab(t, `
turns:
  - rounds:
      - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "echo seen >> log"}}]}
      - {text: "first answer"}
  - rounds: [{text: "second answer"}]
after_last_turn: diverge
`)
	l.start()
	l.untilStatus(l.prompt("one", "k1", ""), ledger.Processed)
	l.end()
	l.start()
	if again := l.prompt("one", "k1", ""); again == "" {
		t.Error("a key that is known was not answered")
	}
	l.untilStatus(l.prompt("two", "k2", ""), ledger.Processed)
	l.end()
	l.start()
	defer l.end()
	turns := l.turns()
	expect.Equal(t, "len(turns)", len(turns), 2)
	expect.Equal(t, "turns[0].Last", turns[0].Last, "first answer")
	expect.Equal(t, "turns[1].Last", turns[1].Last, "second answer")
	expect.Equal(t, "turns[1].Previous", turns[1].Previous, turns[0].ResponseID)
	expect.Equal(t, "turns[0].ToolCalls", turns[0].ToolCalls, 1)
	types := l.events()
	for _, want := range []string{record.MessageAdmitted, record.TurnStarted, record.ToolExecuted, record.AssistantRound,
		record.BriefCreated, record.TurnTerminal} {
		if !slices.Contains(types, want) {
			t.Errorf("there is no event %s in %s", want, strings.Join(types, " "))
		}
	}
}

// An abort ends the turn, not the agent.
func TestAbort(t *testing.T) {
	t.Parallel()
	l := newLab(t, `rounds: [{cases: [{when: {user: {contains: slow}}, delay: 1h, text: never}, {text: here}]}]`)
	l.start()
	defer l.end()
	slow := l.prompt("slow", "", "")
	l.untilBegun()
	if _, _, err := l.runtime.Scheduler().Abort(t.Context(), scheduler.Abort{AgentID: "main", By: "test"}); err != nil {
		t.Fatal(err)
	}
	l.untilStatus(slow, ledger.Aborted)
	l.untilStatus(l.prompt("quick", "", ""), ledger.Processed)
}

// A message whose turn a shutdown cut short is answered after the next start.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	l := newLab(t, `rounds: [{cases: [{when: {user: {contains: was interrupted}}, text: now}, {delay: 1h, `+
		`text: never}]}]`)
	l.start()
	m := l.prompt("work", "", "")
	l.untilBegun()
	l.end()
	l.start()
	defer l.end()
	l.untilStatus(m, ledger.Processed)
	turns := l.turns()
	expect.Equal(t, "len(turns)", len(turns), 2)
	expect.Equal(t, "turns[0].Kind", turns[0].Kind, ledger.TurnAborted)
	expect.Equal(t, "turns[1].Last", turns[1].Last, "now")
}
