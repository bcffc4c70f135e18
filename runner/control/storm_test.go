package control_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// counting counts what snapshots cost: reads of the list of waits, which only summaries need.
type counting struct {
	ledger.Store
	running, most, updates atomic.Int64
}

func (c *counting) View(ctx context.Context, fn func(ledger.View) error) error {
	return c.Store.View(ctx, func(v ledger.View) error {
		w := &countingRows{Rows: v.Rows, c: c}
		defer w.end()
		return fn(ledger.View{Rows: w})
	})
}

func (c *counting) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	c.updates.Add(1)
	return c.Store.Update(ctx, fn)
}

type countingRows struct {
	ledger.Rows
	c       *counting
	counted bool
}

func (r *countingRows) List(into ledger.Record, each func(), salvage bool, query string, args ...any) error {
	if query == "unresolved waits" && !r.counted {
		r.counted = true
		for n := r.c.running.Add(1); ; {
			if m := r.c.most.Load(); n <= m || r.c.most.CompareAndSwap(m, n) {
				break
			}
		}
	}
	return r.Rows.List(into, each, salvage, query, args...)
}

func (r *countingRows) end() {
	if r.counted {
		r.c.running.Add(-1)
	}
}

// Many clients that refresh again and again while the agent changes cost a few snapshots at a time, and each sees its
// own changes.
func TestRefreshStorm(t *testing.T) {
	t.Parallel()
	var store *counting
	r := newRig(t, control.Limits{Leaders: 2, Patience: time.Minute}, control.Access{},
		func(s ledger.Store) ledger.Store {
			store = &counting{Store: s}
			return store
		})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			c := client.Unix(r.socket)
			defer c.Close()
			var revision int64
			for range 4 {
				s, err := c.State(t.Context(), "main")
				if err != nil {
					t.Error(err)
					return
				}
				if s.Agent.Agent.Revision < revision {
					t.Errorf("revision %d after %d", s.Agent.Agent.Revision, revision)
				}
				revision = s.Agent.Agent.Revision
			}
		})
	}
	for i := range 10 {
		seq := r.say("main", fmt.Sprint(i), "")
		if s := must(r.client().State(t.Context(), "main"))(t); s.SnapshotThrough < seq {
			t.Errorf("own change %d is not in snapshot %d", seq, s.SnapshotThrough)
		}
	}
	group.Wait()
	if m := store.most.Load(); m > 2 {
		t.Errorf("%d snapshots at a time, want at most 2", m)
	}
}

// No read writes anything.
func TestReadsWriteNothing(t *testing.T) {
	t.Parallel()
	var store *counting
	r := newRig(t, control.Limits{}, tcp(), func(s ledger.Store) ledger.Store {
		store = &counting{Store: s}
		return store
	})
	d := r.described()
	c := r.client()
	said := must(c.Prompt(t.Context(), "", wire.Prompt{Text: "x"}, ""))(t)
	r.turn("main", "y")
	must(c.Trigger(t.Context(), ""))(t)
	work := must(c.CreateWork(t.Context(), "", wire.WorkItem{Objective: "x"}, ""))(t)
	task := must(c.StartTask(t.Context(), "", wire.Task{Cmd: "x"}, ""))(t)
	before := must(c.State(t.Context(), ""))(t)
	left := filepath.Join(r.session, "output", "turns", "turn_1")
	expect.NoError(t, os.MkdirAll(left, 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(left, "turn.json"), []byte("{}"), 0o600))
	run := r.newRun("")
	expect.NoError(t, os.WriteFile(filepath.Join(run.Dir(), "turn.json"), []byte("{}"), 0o600))
	expect.NoError(t, run.WriteManifest(named(run.ID(), "turn.json")))
	read := 0
	for path, item := range d.doc.Paths.Map() {
		if item.Get == nil || strings.HasSuffix(path, "/stream") {
			continue
		}
		path = strings.NewReplacer("{id}", "main", "{message_id}", said.MessageID, "{work_item_id}", work.ID,
			"{task_id}", task.ID, "{session_id}", "first", "{model}", "queue_snapshot",
			"{kind}", "evidence", "{turn_id}", "turn_1", "{run_id}", run.ID(), "{path}", "turn.json").
			Replace(strings.Replace(path, "{source_ref}", "mem_1", 1))
		if strings.HasSuffix(path, "/memory/search") {
			path += "?query=x"
		}
		if a := r.ask(d, get(path)); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		read++
	}
	s := r.stream("/agents/main/events/stream?after_seq=0", nil)
	s.control()
	s.next()
	if read < 15 || store.updates.Load() != 0 {
		t.Errorf("%d reads, %d writes through the server's store", read, store.updates.Load())
	}
	if after := must(c.State(t.Context(), ""))(t); after.Agent.Agent.Revision != before.Agent.Agent.Revision ||
		after.SnapshotThrough != before.SnapshotThrough {
		t.Errorf("reading made revision %d of %d", after.Agent.Agent.Revision, before.Agent.Agent.Revision)
	}
}

// A body that does not come is not waited for, and a handler that panics is an answer.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{Body: 50 * time.Millisecond}, control.Access{})
	conn, err := net.Dial("unix", r.socket)
	expect.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /control/agents/main/prompt HTTP/1.1\r\nHost: x\r\nContent-Type: "+
		"application/json\r\nContent-Length: 100\r\n\r\n{\"text\":")
	text := make([]byte, 12)
	if _, err := conn.Read(text); err != nil || string(text) != "HTTP/1.1 408" {
		t.Errorf("%q, %v", text, err)
	}
	r.host.prompt = func() { panic("boom") }
	a := r.ask(r.described(), post("/control/agents/main/debug-prompt", `{"text":"x"}`))
	a.is(t, "a panic", http.StatusInternalServerError, "internal_error", "")
	if strings.Contains(a.body, "boom") || !strings.Contains(r.log.String(), "boom") {
		t.Errorf("told %s", a.body)
	}
	// A private agent is never shown, and takes no messages from outside.
	expect.NoError(t, r.store.Update(t.Context(), func(tx ledger.Tx) error {
		return tx.Insert(&ledger.Agent{ID: "hidden", Visibility: ledger.Private, CreatedAt: time.Now(),
			UpdatedAt: time.Now()}, &ledger.AgentState{AgentID: "hidden", UpdatedAt: time.Now()})
	}))
	d := r.described()
	for _, path := range []string{"/status", "/state", "/briefs", "/transcript", "/timers", "/events", "/latency",
		"/events/stream"} {
		r.ask(d, get("/agents/hidden"+path)).is(t, path, 403, "agent_private", "agent_id")
	}
	if a := r.ask(d, get("/agents/list")); strings.Contains(a.body, "hidden") {
		t.Error("a private agent is listed")
	}
}
