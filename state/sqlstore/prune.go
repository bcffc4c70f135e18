package sqlstore

import (
	"context"
	"fmt"
	"time"

	"holon/state/ledger"
)

// Prune implements ledger.Store.
func (s *Store) Prune(ctx context.Context, keep ledger.Retention, now time.Time, limit int) (more bool, err error) {
	err = s.update(ctx, func(t *tx) error {
		left, err := t.pruneEvents(keep, now, int64(max(limit, 1)))
		for _, a := range Retention() {
			if err == nil && left > 0 && keep.Messages > 0 {
				left, err = t.pruneTable(a, now.Add(-keep.Messages), left)
			}
		}
		more = left == 0
		if err == nil {
			err = t.failed("make the ledger smaller", s.db.Dialect.Shrink(t.raw))
		}
		return err
	})
	return more && err == nil, err
}

// pruneEvents removes events beyond the retention, agent by agent, and returns the
// rest of the limit. The newest event of an agent always stays, so that readers
// know its sequence number.
func (t *tx) pruneEvents(keep ledger.Retention, now time.Time, left int64) (int64, error) {
	newest := make(map[string]int64)
	err := t.values(func(one scanner) error {
		var agentID string
		var seq int64
		err := t.scan(one, &agentID, &seq)
		newest[agentID] = seq
		return err
	}, "SELECT agent_id, event_seq FROM agent_states WHERE event_seq > 0")
	for agentID, last := range newest {
		if err != nil || left == 0 {
			break
		}
		var until, removed int64
		if until, err = t.keptFrom(agentID, keep, now, last, left); err == nil {
			removed, err = t.exec("events", "DELETE FROM events WHERE agent_id = ? AND seq < ?", agentID, until)
		}
		left -= removed
	}
	return left, t.failed("prune events", err)
}

// keptFrom returns the number of an agent's oldest event that stays, or that after the first limit events.
func (t *tx) keptFrom(agentID string, keep ledger.Retention, now time.Time, last, limit int64) (until int64,
	err error) {
	err = t.values(func(one scanner) error {
		var seq, created int64
		if err := t.scan(one, &seq, &created); err != nil {
			return err
		}
		tooMany := keep.MaxEvents > 0 && seq <= last-keep.MaxEvents
		if tooOld := keep.Events > 0 && created < now.Add(-keep.Events).UnixMilli(); !tooMany && !tooOld {
			return errStop
		}
		until = seq + 1
		return nil
	}, "SELECT seq, created_at FROM events WHERE agent_id = ? AND seq < ? ORDER BY seq LIMIT ?", agentID, last, limit)
	return until, err
}

// pruneTable removes rows of a table that are too old, and returns the rest of the limit.
func (t *tx) pruneTable(a Aged, before time.Time, limit int64) (left int64, err error) {
	young, err := t.keys(a.young(), before.UnixMilli())
	var gone []any
	if err == nil {
		gone, err = t.keys(a.oldest(len(young) > 0), append(young, limit)...)
	}
	for _, key := range gone {
		if err == nil {
			_, err = t.exec("", fmt.Sprintf("DELETE FROM %s WHERE %s = ?", a.Table, a.Key), key)
		}
	}
	return limit - int64(len(gone)), t.failed("prune "+a.Table, err)
}

func (t *tx) keys(text string, args ...any) (keys []any, err error) {
	err = t.values(func(one scanner) error {
		keys = append(keys, nil)
		return t.scan(one, &keys[len(keys)-1])
	}, text, args...)
	return keys, err
}
