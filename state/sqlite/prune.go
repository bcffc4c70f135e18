package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"holon/state/ledger"
)

// Prune implements ledger.Store. The limit counts rows that are inspected as well
// as rows that are removed.
func (s *Store) Prune(ctx context.Context, keep ledger.Retention, now time.Time, limit int) (more bool, err error) {
	err = s.writer.update(ctx, func(t *tx) error {
		left, err := t.pruneEvents(keep, now, int64(max(limit, 1)))
		if err == nil && keep.Messages > 0 {
			left, err = t.pruneRecords(s.pruned, now.Add(-keep.Messages), left)
		}
		more = left == 0
		if err == nil {
			err = t.vacuum()
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
	err := t.rows("list lanes", func(r *row) error {
		newest[r.text()] = r.integer()
		return nil
	}, "SELECT agent_id, event_seq FROM lanes WHERE event_seq > 0")
	if err != nil {
		return left, err
	}
	for agentID, last := range newest {
		if left == 0 {
			break
		}
		oldest, _, err := t.bounds(agentID, "")
		if err != nil {
			return left, err
		}
		until, err := t.keptFrom(agentID, keep, now, last, left)
		if err != nil {
			return left, err
		}
		until = min(until, oldest+left)
		if _, err := t.write("DELETE FROM events WHERE agent_id = ? AND seq < ?", agentID, until); err != nil {
			return left, failed("prune events", err)
		}
		left -= max(until-oldest, 0)
	}
	return left, nil
}

// keptFrom returns the number of the oldest event that stays, or a later one
// when none of the first stays.
func (t *tx) keptFrom(agentID string, keep ledger.Retention, now time.Time, last, first int64) (int64, error) {
	tooMany, tooOld := int64(0), int64(0)
	if keep.MaxEvents > 0 {
		tooMany = last - keep.MaxEvents
	}
	if keep.Events > 0 {
		tooOld = now.Add(-keep.Events).UnixMilli()
	}
	seq, ok, err := find(&t.view, "events", (*row).integer,
		`SELECT seq FROM (SELECT seq, created_at FROM events WHERE agent_id = ? ORDER BY seq LIMIT +?)
		WHERE seq > ? AND created_at >= ? LIMIT 1`, agentID, first, tooMany, tooOld)
	if !ok {
		return last, err
	}
	return seq, err
}

// cursors hold the position of a pass in each table, so that the next call does
// not inspect the same rows again. Only updates use them.
type cursors map[string]driver.Value

// pruneRecords continues a pass and returns the rest of the limit.
func (t *tx) pruneRecords(done cursors, before time.Time, left int64) (int64, error) {
	for _, p := range prunables() {
		if left == 0 {
			return 0, nil
		}
		seen, end, err := t.pruneTable(p, done, before.UnixMilli(), left)
		if err != nil {
			return left, err
		}
		left -= seen
		if end {
			delete(done, p.table)
		}
	}
	return left, nil
}

// pruneTable continues a pass in one table. end is true when it reached a row that
// is too young.
func (t *tx) pruneTable(p declared, done cursors, before, limit int64) (seen int64, end bool, err error) {
	var gone []driver.Value
	young := false
	last, ok := done[p.table]
	if !ok {
		last = first(p.key)
	}
	err = t.rows("list "+p.table, func(r *row) error {
		key := r.value()
		if young = r.integer() >= before; young {
			return errStop
		}
		seen, last = seen+1, key
		if !r.flag() {
			gone = append(gone, key)
		}
		return nil
	}, p.oldest(), last, limit)
	if err != nil {
		return 0, false, err
	}
	for _, key := range gone {
		if err := t.remove(p, key); err != nil {
			return 0, false, failed("prune "+p.table, err)
		}
	}
	done[p.table] = last
	return seen, young || seen < limit, nil
}

// first is before every key.
func first(key string) driver.Value {
	if key == "n" {
		return int64(0)
	}
	return ""
}

func (t *tx) remove(p declared, key driver.Value) error {
	if p.table == "messages" {
		if _, err := t.write("DELETE FROM entries WHERE (agent_id, number) = (SELECT agent_id, number FROM messages "+
			"WHERE id = ?)", key); err != nil {
			return err
		}
	}
	_, err := t.write(fmt.Sprintf("DELETE FROM %s WHERE %s = ?", p.table, p.key), key)
	return err
}

// reservePages stay free for new rows; at most vacuumPages are returned to the file
// system in one call.
const (
	reservePages = 1024
	vacuumPages  = 256
)

// vacuum makes the file smaller when much of it is free.
func (t *tx) vacuum() error {
	free, err := t.count("count free pages", "SELECT freelist_count FROM pragma_freelist_count")
	if err != nil || free <= reservePages {
		return err
	}
	_, err = t.write(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
	return failed("make the ledger smaller", err)
}
