package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"holon/responses"
)

// prompt is what every message of P13 says.
const prompt = "Look at the failing test, find out why it fails, and mend it."

// tables is the floor of P13: the least statements that do the job, by the same
// driver, as durable as ours.
type tables struct {
	db                           *sql.DB
	insert, claim, update, event *sql.Stmt
	seq                          int64
}

const bareTables = `
CREATE TABLE queue (id INTEGER PRIMARY KEY, agent TEXT, status TEXT, body TEXT, at INTEGER);
CREATE INDEX queued ON queue (agent, id) WHERE status = 'queued';
CREATE TABLE events (agent TEXT, seq INTEGER, id TEXT, at INTEGER, type TEXT, level INTEGER, message TEXT, ` +
	`turn TEXT, ref TEXT, data TEXT,
	PRIMARY KEY (agent, seq)) WITHOUT ROWID;`

func (r *rig) openTables(ctx context.Context) (_ *tables, err error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	options := url.Values{"_txlock": {"immediate"},
		"_pragma": {"journal_mode(wal)", "synchronous(full)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "tables.db")+"?"+options.Encode())
	if err != nil {
		return nil, err
	}
	r.later(db.Close)
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, bareTables); err != nil {
		return nil, err
	}
	t := &tables{db: db}
	for text, s := range map[string]**sql.Stmt{
		"INSERT INTO queue (agent, status, body, at) VALUES ('a', 'queued', ?, ?)": &t.insert,
		"UPDATE queue SET status = 'dequeued' WHERE id = (SELECT id FROM queue WHERE agent = 'a' AND status = " +
			"'queued' ORDER BY id LIMIT 1) RETURNING id, body": &t.claim,
		"UPDATE queue SET status = 'processed' WHERE id = ?":       &t.update,
		"INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)": &t.event,
	} {
		if *s, err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// through is the life of a message in three commits. The contexts of the
// statements never end: watching one would cost the floor a goroutine each.
func (t *tables) through(context.Context) ([]time.Duration, error) {
	began := time.Now()
	_, err := t.insert.Exec(prompt, began.UnixMilli())
	var id int64
	var body string
	err = errors.Join(err, t.claim.QueryRow().Scan(&id, &body))
	_, updateErr := t.update.Exec(id)
	return []time.Duration{time.Since(began)}, errors.Join(err, updateErr)
}

// tell inserts events for as many agents as there are producers, in one
// goroutine and as many to a commit.
func (t *tables) tell(ctx context.Context, events int) ([]float64, error) {
	began := time.Now()
	for done := 0; done < events; done += producers {
		if err := t.commit(ctx); err != nil {
			return nil, err
		}
	}
	return []float64{float64(events) / time.Since(began).Seconds()}, nil
}

func (t *tables) commit(ctx context.Context) error {
	tx, err := t.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	insert := tx.Stmt(t.event)
	t.seq++
	for n := range producers {
		e := event()
		if _, err := insert.Exec(fmt.Sprintf("agent_%026d", n), t.seq, responses.NewID(responses.PrefixEvent),
			e.CreatedAt.UnixMilli(), e.Type, e.Level, "", e.TurnID, "", string(e.Data)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}
