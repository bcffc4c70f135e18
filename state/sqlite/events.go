package sqlite

import (
	"database/sql/driver"
	"errors"

	"holon/responses/agentruntime"
	"holon/state/ledger"
)

// errNotJSON reports text that should be JSON and is not.
var errNotJSON = errors.New("it is not JSON")

// Events implements ledger.View.
func (v *view) Events(agentID string, q ledger.EventQuery) (page ledger.EventPage, err error) {
	level := levels[min(max(q.MaxLevel, 0), len(levels)-1)]
	page.Oldest, page.Newest, err = v.bounds(agentID, "")
	first, last := page.Oldest, page.Newest // of what may be selected
	if level != "" && err == nil {
		first, last, err = v.bounds(agentID, level)
	}
	if err != nil || last == 0 {
		return page, err
	}
	from, to := max(q.After+1, first), last
	if q.Before > 0 {
		to = min(to, q.Before-1)
	}
	order := "ASC"
	if q.Descending {
		order = "DESC"
	}
	page.Events, err = list(v, "events", func(r *row) ledger.Event { return scanEvent(r, agentID) },
		"SELECT "+eventColumns+" FROM events WHERE agent_id = ? AND seq BETWEEN ? AND ?"+level+" ORDER BY seq "+order+
			" LIMIT +?",
		agentID, from, to, limited(q.Limit))
	if n := len(page.Events); n > 0 {
		from = min(page.Events[0].Seq, page.Events[n-1].Seq)
		to = max(page.Events[0].Seq, page.Events[n-1].Seq)
	}
	page.HasOlder, page.HasNewer = first < from, last > to
	return page, err
}

// levels are the conditions for a MaxLevel. The first ones have an index.
var levels = []string{"", " AND level <= 1", " AND level <= 2", " AND level <= 3", " AND level <= 4", ""}

// bounds returns the numbers of the oldest and the newest event of a level.
func (v *view) bounds(agentID, level string) (oldest, newest int64, err error) {
	end := "(SELECT seq FROM events WHERE agent_id = ?1" + level + " ORDER BY seq "
	err = v.rows("read the bounds of events", func(r *row) error {
		oldest, newest = r.integer(), r.integer()
		return nil
	}, "SELECT coalesce("+end+"LIMIT 1), 0), coalesce("+end+"DESC LIMIT 1), 0)", agentID)
	return oldest, newest, err
}

const eventColumns = "seq, id, created_at, type, level, message_id, turn_id, ref, data, class, status, ids, cause, " +
	"producer_seq"

func scanEvent(r *row, agentID string) ledger.Event {
	e := ledger.Event{
		AgentID: agentID, Seq: r.integer(), ID: r.text(), CreatedAt: r.time(), Type: r.text(), Level: int(r.integer()),
		MessageID: r.textOrNone(), TurnID: r.textOrNone(), Ref: r.textOrNone(), Data: r.raw(), Class: r.textOrNone(),
		Status: r.textOrNone(),
	}
	if ids := r.raw(); ids != nil {
		r.decode(ids, &e.IDs)
	}
	e.Cause, e.ProducerSeq = r.textOrNone(), r.integerOrNone()
	return e
}

const insertEvent = "INSERT INTO events (agent_id, seq, id, created_at, type, level, message_id, turn_id, ref, " +
	"data, class, status, ids, cause, producer_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

// insertEvent writes an event in its place.
func (t *tx) insertEvent(agentID string, seq int64, e ledger.Event) error {
	var ids, producer driver.Value
	if e.IDs != (agentruntime.IDs{}) {
		text, err := encode(e.IDs)
		if err != nil {
			return err
		}
		ids = text
	}
	if e.ProducerSeq != 0 {
		producer = e.ProducerSeq
	}
	_, err := t.write(insertEvent, agentID, seq, e.ID, millis(e.CreatedAt), e.Type, int64(e.Level),
		textOrNil(e.MessageID), textOrNil(e.TurnID), textOrNil(e.Ref), textOrNil(string(e.Data)), textOrNil(e.Class),
		textOrNil(e.Status), ids, textOrNil(e.Cause), producer)
	return changed("insert", "event", ledger.CodeConflict, err)
}
