package agent_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/agent"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/memory"
)

// played are turns without a container: do is what the agent does in each.
type played struct {
	turns           atomic.Int64
	last, recovered atomic.Pointer[pool.Turn]
	do              func(ctx context.Context, t pool.Turn) error
}

func (*played) Stored(string, string) bool { return true }

func (p *played) Turn(ctx context.Context, t pool.Turn, began func(), _ runner.Observer) (runner.End, error) {
	p.turns.Add(1)
	p.last.Store(&t)
	began()
	if p.do != nil {
		if err := p.do(ctx, t); err != nil {
			return runner.End{}, err
		}
	}
	return runner.End{Status: responses.StatusCompleted, Answer: "I am still at it.",
		Record: &turns.Record{StartedAt: turns.At(time.Now()), CompletedAt: turns.At(time.Now())}}, nil
}

func (p *played) Recover(_ context.Context, t pool.Turn, _ func(), _ runner.Observer) (runner.End, error) {
	p.recovered.Store(&t)
	return runner.End{TurnID: t.ID(), NotBegun: true}, nil
}

func (p *played) Preview(context.Context, pool.Turn) (turns.Preview, error) {
	return turns.Preview{}, nil
}

func (p *played) Interject(context.Context, string, string, string, string) error { return nil }

// stillHomes hold the same for ever. broken is an agent whose home cannot be used.
type stillHomes struct{ broken string }

func (h stillHomes) Create(context.Context, string, string) error { return nil }

func (h stillHomes) CheckTemplate(string) error { return nil }

func (h stillHomes) EnsureDefault(_ context.Context, id string) error {
	if id == h.broken {
		return errors.New("the home is not a directory")
	}
	return nil
}

func (h stillHomes) Digest(context.Context, string) (string, error) { return "the same", nil }

// alone is a runtime without containers, on a real ledger.
type alone struct {
	t       *testing.T
	store   ledger.Store
	runtime *agent.Runtime
	played  *played
	close   func()
}

func newAlone(t *testing.T, path string, homes agent.Homes, change func(*agent.Config)) *alone {
	t.Helper()
	l := &alone{t: t, played: &played{}}
	var err error
	if l.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	cfg := agent.Config{Store: l.store, Turns: l.played, Homes: homes, Owner: responses.NewID("boot_"), Default: "main",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&cfg)
	}
	if l.runtime, err = agent.Open(t.Context(), cfg); err != nil {
		t.Fatal(errors.Join(err, l.store.Close()))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.runtime.Run(ctx) }()
	l.close = func() {
		stop()
		if err := errors.Join(<-ended, l.runtime.Close(context.Background()), l.store.Close()); err != nil {
			t.Error(err)
		}
	}
	return l
}

func (l *alone) prompt(agentID, text string) string {
	l.t.Helper()
	a, err := l.runtime.Scheduler().Admit(l.t.Context(), said(agentID, text))
	expect.NoError(l.t, err)
	return a.MessageID
}

// told is the text of the briefs about an agent.
func (l *alone) told(agentID string) (texts []string) {
	l.t.Helper()
	err := l.store.View(l.t.Context(), func(v ledger.View) error {
		list, err := v.Notifications(agentID, 10)
		for _, n := range list {
			texts = append(texts, n.Message)
		}
		return err
	})
	expect.NoError(l.t, err)
	return texts
}

// answered waits until a message was answered.
func (l *alone) answered(agentID, message string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for {
		changed := l.store.Changed(agentID)
		var e ledger.Entry
		err := l.store.View(ctx, func(v ledger.View) (err error) {
			e, err = v.Entry(message)
			return err
		})
		if err == nil && e.Status == ledger.Processed {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.t.Fatalf("message %s is %s (%v)", message, e.Status, err)
		}
	}
}

// What is damaged of one agent stops that agent, tells the operator, and lets the
// others go on.
func TestDamagedAgent(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"state":   "UPDATE agent_states SET data = '{' WHERE agent_id = 'bad'",
		"agent":   "UPDATE agents SET data = '{' WHERE id = 'bad'",
		"message": "UPDATE messages SET data = '{' WHERE agent_id = 'bad'",
		"timer":   "UPDATE timers SET data = '{' WHERE agent_id = 'bad'",
		"wait":    "UPDATE waits SET data = '{' WHERE agent_id = 'bad'",
		"attempt": "UPDATE attempts SET data = '{' WHERE agent_id = 'bad'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(memory.Dir(t), "ledger.db")
			leave(t, path, name == "attempt")
			db, err := sql.Open("sqlite", path)
			if err == nil {
				_, err = db.ExecContext(t.Context(), damage)
			}
			expect.NoError(t, errors.Join(err, db.Close()))
			l := newAlone(t, path, stillHomes{}, nil)
			defer l.close()
			l.answered("main", l.prompt("main", "are you there?"))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for changed := l.store.Changed(""); len(l.told("main"))+len(l.told("bad")) == 0; changed = l.store.Changed(
				"") {
				select {
				case <-changed:
				case <-ctx.Done():
					t.Fatal("the operator is told nothing")
				}
			}
			if told := append(l.told("main"), l.told("bad")...); !strings.Contains(told[0], "Agent bad is left alone") {
				t.Errorf("the operator was told %q", told)
			}
			err = l.store.View(t.Context(), func(v ledger.View) error {
				list, err := view.New(v, view.Facts{}).List()
				expect.Equal(t, "agents are listed", len(list), 2)
				return err
			})
			expect.NoError(t, err)
		})
	}
}

// leave leaves an agent with something of everything: a message, a timer and a wait
// that are due, and a turn that runs if it is to.
func leave(t *testing.T, path string, running bool) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	expect.NoError(t, err)
	past := time.Now().Add(-time.Hour)
	m := scheduler.New(store, scheduler.Options{Owner: "boot_0", Now: func() time.Time { return past }})
	_, err = m.Create(t.Context(), scheduler.NewAgent{ID: "bad"})
	in := said("bad", "go")
	if err == nil {
		_, err = m.Admit(t.Context(), in)
	}
	var c scheduler.Claim
	if err == nil {
		c, _, err = m.Claim(t.Context(), "bad")
	}
	if err == nil {
		_, err = m.Sleep(t.Context(), "bad", "call", time.Second, "")
	}
	if err == nil {
		_, _, err = m.CreateTimer(t.Context(), scheduler.NewTimer{AgentID: "bad", After: time.Second})
	}
	if err == nil && !running {
		_, err = m.Settle(t.Context(), c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
	}
	if err == nil {
		_, err = m.Admit(t.Context(), in)
	}
	expect.NoError(t, errors.Join(err, store.Close()))
}

// A home that cannot be used any more stops its agent, and no other one.
func TestDamagedHome(t *testing.T) {
	t.Parallel()
	path := filepath.Join(memory.Dir(t), "ledger.db")
	first := newAlone(t, path, stillHomes{}, nil)
	if _, err := first.runtime.CreateAgent(t.Context(), "other", ""); err != nil {
		t.Error(err)
	}
	first.close()
	l := newAlone(t, path, stillHomes{broken: "main"}, nil)
	defer l.close()
	l.answered("other", l.prompt("other", "are you there?"))
	if told := l.told("main"); len(told) != 1 || !strings.Contains(told[0], "not a directory") {
		t.Errorf("the operator was told %q", told)
	}
}

// What was set of a turn's limits holds for the turns of agents too.
func TestTurnLimits(t *testing.T) {
	t.Parallel()
	budget := gateway.Budget{MaxTokens: 7, MaxRequests: 8, MaxCost: 9}
	l := newAlone(t, filepath.Join(memory.Dir(t), "ledger.db"), stillHomes{}, func(c *agent.Config) {
		c.MaxRounds, c.MaxToolCalls, c.Budget = 5, 6, budget
	})
	defer l.close()
	l.answered("main", l.prompt("main", "go"))
	got := l.played.last.Load()
	expect.Equal(t, "got.MaxRounds", got.Limits().MaxRounds, 5)
	expect.Equal(t, "got.MaxToolCalls", *got.Request.MaxToolCalls, 6)
	expect.Equal(t, "got.Budget", got.Budget, budget)
}

// The prompt of a turn whose message brings what an item waited for that is not the current one says so.
func TestPromptShowsWhatWasTriggered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAlone(t, filepath.Join(memory.Dir(t), "ledger.db"), stillHomes{}, nil)
		defer l.close()
		steps := l.runtime.Scheduler()
		item := func(name string, status ledger.PlanStatus) string {
			w, _, err := steps.CreateWork(t.Context(), scheduler.NewWork{AgentID: "main", Key: name, Objective: name,
				PlanStatus: status})
			expect.NoError(t, err)
			_, err = steps.PickWork(t.Context(), "main", w.ID, "pick "+name)
			expect.NoError(t, err)
			return w.ID
		}
		reports := func(status tasks.Status, turn string) error {
			return steps.ReportTask(t.Context(), "main", tasks.Report{Task: &tasks.Snapshot{TaskID: "task_1", Status: status,
				TurnID: turn, Command: &tasks.Command{Cmd: "make"}}})
		}
		first := ""
		l.played.do = func(ctx context.Context, turn pool.Turn) error {
			first = item("first", "")
			_, err := steps.Sleep(ctx, "main", "call", 0, "")
			return errors.Join(err, reports(tasks.Running, turn.ID()))
		}
		l.prompt("main", "go")
		synctest.Wait()
		l.played.do = nil
		item("second", ledger.PlanNeedsInput)
		expect.NoError(t, reports(tasks.Completed, ""))
		synctest.Wait()
		asked := l.played.last.Load().Request.Input
		if shown := asked[len(asked)-1].(*responses.Message).Text(); !strings.Contains(shown, "\ntriggered_blocked:\n- "+first) {
			t.Errorf("the prompt does not list the item that its message is about as triggered: %s", shown)
		}
	})
}
