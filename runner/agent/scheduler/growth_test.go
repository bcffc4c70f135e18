package scheduler_test

import (
	"context"
	"encoding/json"
	"testing"

	"holon/state/ledger"
)

// work is what a store was asked to do.
type work struct{ reads, writes, bytes int }

// counting counts it.
type counting struct {
	ledger.Store
	done work
}

func (c *counting) Update(ctx context.Context, fn func(ledger.Tx) error) error {
	return c.Store.Update(ctx, func(tx ledger.Tx) error {
		tx.Rows = countedRows{tx.Rows, &c.done}
		return fn(tx)
	})
}

func (c *counting) View(ctx context.Context, fn func(ledger.View) error) error {
	return c.Store.View(ctx, func(v ledger.View) error {
		v.Rows = countedRows{v.Rows, &c.done}
		return fn(v)
	})
}

type countedRows struct {
	ledger.Rows
	done *work
}

func (c countedRows) has(r ledger.Record, rows *int) {
	data, _ := json.Marshal(r) // it was read or is written
	*rows++
	c.done.bytes += len(data)
}

func (c countedRows) Get(r ledger.Record, key ...any) error {
	err := c.Rows.Get(r, key...)
	c.has(r, &c.done.reads)
	return err
}

func (c countedRows) List(r ledger.Record, each func(), salvage bool, query string, args ...any) error {
	return c.Rows.List(r, func() { c.has(r, &c.done.reads); each() }, salvage, query, args...)
}

func (c countedRows) Values(each func(scan func(...any) error) error, query string, args ...any) error {
	return c.Rows.Values(func(scan func(...any) error) error { c.done.reads++; return each(scan) }, query, args...)
}

func (c countedRows) Insert(r ledger.Record) error {
	c.has(r, &c.done.writes)
	return c.Rows.Insert(r)
}

func (c countedRows) Update(r ledger.Record) error {
	c.has(r, &c.done.writes)
	return c.Rows.Update(r)
}

// A turn of an old agent, from the admission of its message to its settlement, reads and writes as many records as one
// of a young agent, and they are as large.
func TestATurnOfAnOldAgentCostsWhatOneOfAYoungAgentCosts(t *testing.T) {
	const window = 24 // turns, after which an episode ends and a conversation was renewed a whole number of times
	oldest := 3_000
	if testing.Short() {
		oldest = 288
	}
	w := open(t)
	c := &counting{Store: w.store.Store}
	w.store.Store = c
	costs := func(after, until int) work {
		for n := after; n < until-window; n++ {
			w.takes(prompt("one and the same"), 50, answers(10_000+n))
		}
		c.done = work{}
		for n := until - window; n < until; n++ {
			w.takes(prompt("one and the same"), 50, answers(10_000+n))
		}
		return c.done
	}
	young := costs(0, 4*window)
	old := costs(4*window, oldest)
	if old.reads != young.reads || old.writes != young.writes || old.bytes > young.bytes+young.bytes/50 {
		t.Errorf("%d turns cost %+v before turn %d, and %+v before turn %d", window, young, 4*window, old, oldest)
	}
	if m := w.memory(); m.Archived != int64(oldest/window) || w.state().Totals.Compactions != int64(oldest/4) {
		t.Errorf("%d episodes and %d renewals", m.Archived, w.state().Totals.Compactions)
	}
}
