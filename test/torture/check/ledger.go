package check

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Ledger reads the ledger of a state home while another process has it open. It
// writes nothing.
type Ledger struct{ db *sql.DB }

func OpenLedger(path string) (*Ledger, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	query := url.Values{"mode": {"ro"}, "_pragma": {"query_only(1)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &Ledger{db}, nil
}

func (l *Ledger) Close() error { return l.db.Close() }

// law is something that must hold: its query finds what breaks it.
type law struct{ broken, query string }

// unrest are the signs that something is still to be done.
var unrest = []law{
	{"a message waits", `SELECT agent_id, message_id, status, failed, reason FROM entries
		WHERE status IN ('queued', 'dequeued')`},
	{"an attempt is open", `SELECT agent_id, id, message_id FROM attempts WHERE status = 'open'`},
	{"a wait is triggered", `SELECT agent_id, id, message_id FROM waits WHERE status = 'triggered'`},
	{"a wait ends soon", `SELECT agent_id, id FROM waits WHERE status = 'active' AND due_at IS NOT NULL`},
	{"a wake hint is kept", `SELECT agent_id, stopped FROM agent_states
		WHERE json_extract(data, '$.pending_wake') IS NOT NULL`},
	{"a timer is active", `SELECT agent_id, id FROM timers WHERE status = 'active'`},
	{"a task has not ended", `SELECT agent_id, id, json_extract(data, '$.status') FROM tasks WHERE open = 1`},
	{"a tree is being made", `SELECT agent_id, name FROM trees WHERE status = 'active' AND data ->> '$.held' IS NULL`},
	{"a tree of a removed agent is active", `SELECT t.agent_id, t.name FROM trees t JOIN agents a ON a.id = t.agent_id
		WHERE t.status = 'active' AND a.archived = 1`},
	{"the tree of a task that ended is active", `SELECT agent_id, id FROM tasks WHERE open = 0
		AND data ->> '$.handle.child.worktree.cleanup_status' = 'active'`},
	{"a blocked work item is to be looked at", `SELECT agent_id, id FROM work_items WHERE due_at IS NOT NULL`},
}

// labelled are the events with the labels that laws are about, as runner/agent/record has them.
const labelled = `(SELECT *, CASE
	WHEN class = 'queue.changed' AND data ->> 'status' IS NOT NULL THEN 'queue_entry_settled'
	WHEN class = 'queue.changed' AND data ->> 'op' = 'dequeue' THEN 'message_processing_started'
	WHEN class = 'queue.changed' AND data ->> 'op' = 'interject' THEN 'operator_interjection_admitted'
	WHEN class = 'queue.changed' AND data ->> 'op' = 'enqueue' AND data ->> 'reason' IS NULL THEN 'message_admitted'
	WHEN class = 'turn.started' THEN 'turn_started'
	WHEN class = 'turn.completed' OR class = 'turn.failed' AND data ->> 'kind' IS NOT NULL THEN 'turn_terminal'
	WHEN class = 'task.completed' AND data ->> 'work_item' IS NOT NULL THEN 'work_item_completed'
	WHEN class LIKE 'task.%' AND data ->> 'work_item' IS NOT NULL THEN 'work_item_written'
	WHEN class = 'session.updated' THEN 'control_applied'
	ELSE replace(class, 'holon.', '') END AS type FROM events)`

// laws hold at any moment, in one snapshot.
var laws = []law{
	{"an agent's events have a gap", `SELECT l.agent_id, l.event_seq, count(e.seq), min(e.seq), max(e.seq) FROM agent_states l
		LEFT JOIN events e ON e.agent_id = l.agent_id
		GROUP BY l.agent_id HAVING count(e.seq) <> l.event_seq OR min(e.seq) <> 1 OR max(e.seq) <> l.event_seq`},
	{"a message is not in the queue", `SELECT m.agent_id, m.id FROM messages m
		LEFT JOIN entries e ON e.message_id = m.id WHERE e.message_id IS NULL`},
	{"a message was not admitted once",
		`SELECT m.agent_id, m.id, count(e.seq) FROM messages m LEFT JOIN ` + labelled + ` e ON e.message_id = m.id
			AND e.type = 'message_admitted'
		GROUP BY m.id HAVING count(e.seq) <> 1`},
	{"a message that ended did not end once",
		`SELECT q.agent_id, q.message_id, q.status, count(e.seq) FROM entries q
			LEFT JOIN ` + labelled + ` e ON e.message_id = q.message_id AND e.type = 'queue_entry_settled'
		WHERE q.status NOT IN ('queued', 'dequeued') GROUP BY q.message_id HAVING count(e.seq) <> 1`},
	{"a message that has not ended ended",
		`SELECT q.agent_id, q.message_id, q.status FROM entries q JOIN ` + labelled + ` e ON e.message_id = q.message_id
			AND e.type = 'queue_entry_settled'
		WHERE q.status IN ('queued', 'dequeued')`},
	{"a message was worked off twice", `SELECT agent_id, message_id, count(*) FROM attempts WHERE status = 'settled'
		GROUP BY message_id HAVING count(*) > 1`},
	{"a message came back twice", `SELECT agent_id, message_id, count(*) FROM attempts WHERE status = 'interrupted'
		GROUP BY message_id HAVING count(*) > 2`},
	{"a message is processed without a turn",
		`SELECT q.agent_id, q.message_id, q.reason FROM entries q LEFT JOIN attempts a ON a.message_id = q.message_id
			AND a.status = 'settled'
		WHERE q.status = 'processed' AND q.reason <> 'liveness_only' AND a.id IS NULL`},
	{"a message was interjected and worked off",
		`SELECT q.agent_id, q.message_id FROM entries q JOIN attempts a ON a.message_id = q.message_id
			AND a.status = 'settled' WHERE q.status = 'interjected'`},
	{"a turn began twice", `SELECT agent_id, turn_id, count(*) FROM ` + labelled + `
		WHERE type = 'turn_started' GROUP BY turn_id HAVING count(*) > 1`},
	{"a turn ended twice", `SELECT agent_id, turn_id, count(*) FROM ` + labelled + `
		WHERE type = 'turn_terminal' GROUP BY turn_id HAVING count(*) > 1`},
	{"a turn that began has no end", `SELECT e.agent_id, e.turn_id FROM ` + labelled + ` e
		JOIN attempts a ON json_extract(a.data, '$.turn_id') = e.turn_id
		LEFT JOIN turns t ON t.id = e.turn_id WHERE e.type = 'turn_started' AND a.status <> 'open' AND t.id IS NULL`},
	{"an attempt that had a turn has none",
		`SELECT a.agent_id, a.id, a.status FROM attempts a LEFT JOIN turns t ON t.id = json_extract(a.data, '$.turn_id')
		WHERE a.status IN ('settled', 'interrupted') AND t.id IS NULL`},
	{"a turn belongs to no attempt", `SELECT t.agent_id, t.id FROM turns t
		LEFT JOIN attempts a ON json_extract(a.data, '$.turn_id') = t.id WHERE a.id IS NULL`},
	{"an agent's turns have a gap", `SELECT agent_id, count(*), max(number) FROM turns GROUP BY agent_id
		HAVING count(*) <> max(number)`},
	{"a wait has no source that ends it",
		`SELECT agent_id, id FROM waits WHERE status = 'active' AND due_at IS NULL
			AND coalesce(json_array_length(data, '$.wake_sources'), 0) = 0`},
	{"a wait is triggered by a message that is not queued",
		`SELECT w.agent_id, w.id, q.status FROM waits w LEFT JOIN entries q ON q.message_id = w.message_id
		WHERE w.status = 'triggered' AND coalesce(q.status, '') <> 'queued'`},
	{"a timer did not fire as often as it says",
		`SELECT t.agent_id, t.id, json_extract(t.data, '$.fire_count'), count(m.id) FROM timers t
		LEFT JOIN messages m ON m.agent_id = t.agent_id AND json_extract(m.data, '$.source_refs.timer_id') = t.id
			GROUP BY t.id HAVING count(m.id) <> json_extract(t.data, '$.fire_count')`},
	{"the end of a task is not told once",
		`SELECT t.agent_id, t.id, t.open, count(m.id) FROM tasks t LEFT JOIN messages m ON m.agent_id = t.agent_id
			AND json_extract(m.data, '$.task_id') = t.id AND json_extract(m.data, '$.kind') = 'task_result'
		GROUP BY t.agent_id, t.id HAVING count(m.id) <> 1 - t.open`},
	{"a timer for one time fired otherwise", `SELECT agent_id, id, json_extract(data, '$.fire_count') FROM timers
		WHERE status = 'completed' AND json_extract(data, '$.fire_count') <> 1
		AND coalesce(json_extract(data, '$.interval_ms'), 0) = 0`},
}

// unpacked are the tables of which queries need more than the ledger has columns for.
const unpacked = `WITH events AS MATERIALIZED (SELECT agent_id, seq, created_at, turn_id, data ->> '$.class' AS class,
		data ->> '$.message_id' AS message_id, data ->> '$.ref' AS ref, data -> '$.data' AS data FROM main.events),
	entries AS MATERIALIZED (SELECT agent_id, message_id, status, data ->> '$.failed' AS failed,
		coalesce(data ->> '$.reason', '') AS reason FROM main.entries) `

// each calls scan with every row of a query.
func (l *Ledger) each(ctx context.Context, scan func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := l.db.QueryContext(ctx, unpacked+query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (l *Ledger) Quiet(ctx context.Context) error { return l.obey(ctx, unrest) }

// Lawful returns what breaks a promise of docs/explanation/runtime.md.
func (l *Ledger) Lawful(ctx context.Context) error {
	_, err := l.Paced(ctx)
	return errors.Join(l.obey(ctx, slices.Concat(laws, workLaws, treeLaws)), err)
}

func (l *Ledger) obey(ctx context.Context, all []law) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it has only read
	var errs []error
	for _, one := range all {
		found, err := offenders(ctx, tx, one.query)
		if err != nil {
			return fmt.Errorf("look whether %s: %w", one.broken, err)
		}
		for _, who := range found {
			errs = append(errs, fmt.Errorf("%s: %s", one.broken, who))
		}
	}
	return errors.Join(errs...)
}

// offenders returns the first rows of a query, each as text.
func offenders(ctx context.Context, tx *sql.Tx, query string) (found []string, err error) {
	rows, err := tx.QueryContext(ctx, unpacked+query+" LIMIT 4")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		found = append(found, strings.TrimSpace(fmt.Sprintln(values...)))
	}
	return found, rows.Err()
}

func (l *Ledger) Sound(ctx context.Context) error {
	for pragma, column := range map[string]string{"quick_check": "quick_check", "foreign_key_check": `"table"`} {
		var said string
		err := l.db.QueryRowContext(ctx, "SELECT coalesce(group_concat(x, '; '), '') FROM (SELECT "+column+
			" AS x FROM pragma_"+pragma+" LIMIT 4)").Scan(&said)
		if err != nil {
			return err
		}
		if said != "" && said != "ok" {
			return fmt.Errorf("the ledger fails its %s: %s", pragma, said)
		}
	}
	return nil
}

// Newest returns the number of each agent's newest event.
func (l *Ledger) Newest(ctx context.Context) (map[string]int64, error) {
	newest := make(map[string]int64)
	return newest, l.each(ctx, func(rows *sql.Rows) error {
		var agent string
		var seq int64
		err := rows.Scan(&agent, &seq)
		newest[agent] = seq
		return err
	}, `SELECT agent_id, event_seq FROM agent_states`)
}

// Place is where a message, a timer or a work item is.
type Place struct {
	ID, Status, Turn string // Turn: of the attempt that worked it off
}

// Keyed returns what was made under the idempotency key of a client, which the
// ledger keeps with a prefix of its own.
func (l *Ledger) Keyed(ctx context.Context, agent, key string) ([]Place, error) {
	return l.places(ctx, `SELECT m.id, coalesce(q.status, ''), coalesce(json_extract(a.data, '$.turn_id'), '')
		FROM messages m LEFT JOIN entries q ON q.message_id = m.id LEFT JOIN attempts a ON a.message_id = m.id
			AND a.status = 'settled' WHERE m.agent_id = ?1 AND m.key LIKE '%' || ?2
		UNION ALL SELECT id, status, '' FROM timers WHERE agent_id = ?1 AND key LIKE '%' || ?2`, agent, key)
}

// Item returns a work item of an agent, if it is there.
func (l *Ledger) Item(ctx context.Context, agent, id string) ([]Place, error) {
	return l.places(ctx, `SELECT id, state, '' FROM work_items WHERE agent_id = ? AND id = ?`, agent, id)
}

func (l *Ledger) places(ctx context.Context, query string, args ...any) (found []Place, err error) {
	err = l.each(ctx, func(rows *sql.Rows) error {
		var p Place
		err := rows.Scan(&p.ID, &p.Status, &p.Turn)
		found = append(found, p)
		return err
	}, query, args...)
	return found, err
}

// Count returns how many events of a type an agent has.
func (l *Ledger) Count(ctx context.Context, agent, event string) (n int, err error) {
	err = l.db.QueryRowContext(ctx, unpacked+`SELECT count(*) FROM `+labelled+` WHERE agent_id = ? AND type = ?`, agent,
		event).Scan(&n)
	return n, err
}

// Way is the way of a message: when it was admitted, claimed first, and when its
// turn began first. Zero times are those that did not come.
type Way struct {
	Agent                    string
	Admitted, Claimed, Begun time.Time
	Free                     bool // its agent had nothing else to do when it came
}

// Ways returns the ways of all messages.
func (l *Ledger) Ways(ctx context.Context) (ways []Way, err error) {
	err = l.each(ctx, func(rows *sql.Rows) error {
		var w Way
		var at [3]sql.NullInt64
		err := rows.Scan(&w.Agent, &at[0], &at[1], &at[2], &w.Free)
		for i, t := range []*time.Time{&w.Admitted, &w.Claimed, &w.Begun} {
			if at[i].Valid {
				*t = time.UnixMilli(at[i].Int64)
			}
		}
		ways = append(ways, w)
		return err
	}, `SELECT agent_id, min(created_at) FILTER (WHERE type = 'message_admitted'),
			min(created_at) FILTER (WHERE type = 'message_processing_started'),
			min(created_at) FILTER (WHERE type = 'turn_started'), max(type = 'message_admitted' AND open = 1)
		FROM (SELECT *, sum((type = 'message_admitted') - (type = 'queue_entry_settled'))
				OVER (PARTITION BY agent_id ORDER BY seq) AS open FROM `+labelled+`
			WHERE type IN ('message_admitted', 'message_processing_started', 'turn_started', 'queue_entry_settled')
			AND message_id <> '')
		GROUP BY message_id ORDER BY 2`)
	return ways, err
}

// Turns returns the ids of an agent's turns, those that run included.
func (l *Ledger) Turns(ctx context.Context, agent string) (map[string]bool, error) {
	turns := make(map[string]bool)
	return turns, l.each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		turns[id] = true
		return err
	}, `SELECT json_extract(data, '$.turn_id') FROM attempts WHERE agent_id = ?`, agent)
}

// Ran checks the file to which every command of an agent appends a line: no line
// twice, and none of an unknown turn. It returns the lines.
func Ran(path string, turns map[string]bool) (map[string]bool, error) {
	ran, err := Once(path)
	for line := range ran {
		if turn, _, ok := strings.Cut(line, " "); !ok || !turns[turn] {
			return nil, fmt.Errorf("the command %q is of a turn that the ledger does not have", line)
		}
	}
	return ran, err
}
