package sqlite

import (
	"errors"

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
			" LIMIT ?",
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

const eventColumns = "seq, id, created_at, type, level, message_id, turn_id, ref, data"

func scanEvent(r *row, agentID string) ledger.Event {
	return ledger.Event{
		AgentID: agentID, Seq: r.integer(), ID: r.text(), CreatedAt: r.time(), Type: r.text(), Level: int(r.integer()),
		MessageID: r.textOrNone(), TurnID: r.textOrNone(), Ref: r.textOrNone(), Data: r.raw(),
	}
}

const insertEvent = "INSERT INTO events (agent_id, seq, id, created_at, type, level, message_id, turn_id, ref, " +
	"data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

// insertEvent writes an event in its place.
func (t *tx) insertEvent(agentID string, seq int64, e ledger.Event) error {
	_, err := t.write(insertEvent, agentID, seq, e.ID, millis(e.CreatedAt), e.Type, int64(e.Level),
		textOrNil(e.MessageID), textOrNil(e.TurnID), textOrNil(e.Ref), textOrNil(string(e.Data)))
	return changed("insert", "event", ledger.CodeConflict, err)
}
