package agent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holon/runner/agent"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/memory"
)

// counted is a store that counts what is asked of it, and the records that it returned.
type counted struct {
	ledger.Store
	asked, read atomic.Int64
}

func (c *counted) View(ctx context.Context, fn func(ledger.View) error) error {
	return c.Store.View(ctx, func(v ledger.View) error { return fn(ledger.View{Rows: countedRows{v.Rows, c}}) })
}

func (c *counted) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return c.Store.Update(ctx, func(tx ledger.Tx) error {
		return fn(ledger.Tx{View: ledger.View{Rows: countedRows{tx.Rows, c}}})
	})
}

type countedRows struct {
	ledger.Rows
	count *counted
}

func (r countedRows) Get(into ledger.Record, key ...any) error {
	r.count.asked.Add(1)
	return r.Rows.Get(into, key...)
}

func (r countedRows) List(into ledger.Record, each func(), salvage bool, query string, args ...any) error {
	r.count.asked.Add(1)
	return r.Rows.List(into, func() { r.count.read.Add(1); each() }, salvage, query, args...)
}

func (r countedRows) Values(each func(func(...any) error) error, query string, args ...any) error {
	r.count.asked.Add(1)
	return r.Rows.Values(each, query, args...)
}

// idleContainers and noChecks are asked for nothing.
type idleContainers struct{ agent.Containers }

type noChecks struct{ agent.Checks }

func (noChecks) Clear(context.Context) error { return nil }

// Agents that sleep cost the same statements, and no rows, however many they are.
func TestSleepersCostNothing(t *testing.T) {
	t.Parallel()
	of := func(agents int) (asked int64) {
		path := filepath.Join(memory.Dir(t), "ledger.db")
		synctest.Test(t, func(t *testing.T) {
			var count *counted
			l := newAlone(t, path, stillHomes{}, func(c *agent.Config) {
				c.Containers, c.Checks = idleContainers{}, noChecks{}
				count = &counted{Store: c.Store}
				c.Store = count
			})
			defer l.close()
			for n := range agents {
				_, err := l.runtime.Scheduler().Create(t.Context(), scheduler.NewAgent{ID: fmt.Sprintf("agent-%03d", n)})
				expect.NoError(t, err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			before, read := count.asked.Load(), count.read.Load()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			expect.Equal(t, "rows that were read", count.read.Load()-read, 0)
			asked = count.asked.Load() - before
		})
		return asked
	}
	few := of(2)
	if few == 0 {
		t.Error("nothing polls")
	}
	expect.Equal(t, "statements of 50 agents", of(50), few)
}
