package sqlite

import (
	"errors"
	"fmt"
	"slices"

	"holon/state"
	"holon/state/ledger"
)

// Append implements ledger.Tx.
func (t *tx) Append(l *ledger.Lane, events ...ledger.Event) error {
	if len(events) == 0 {
		return nil
	}
	stored, err := t.Lane(l.AgentID)
	if err != nil {
		return err
	}
	if newest := t.newest(stored); l.EventSeq != newest {
		return &state.Error{Code: ledger.CodeConflict, Message: fmt.Sprintf("the newest event of %s is %d and not %d", l.AgentID, newest, l.EventSeq), Param: "lane"}
	}
	for i := range events {
		if len(events[i].Data) > ledger.MaxEventData {
			return &state.Error{Code: ledger.CodeTooLarge, Message: fmt.Sprintf("an event's data has %d bytes; %d are allowed", len(events[i].Data), ledger.MaxEventData), Param: "data"}
		}
		if err := t.insertEvent(l.AgentID, l.EventSeq+int64(i)+1, events[i]); err != nil {
			return err
		}
	}
	l.EventSeq += int64(len(events))
	t.numbered(l.AgentID, l.EventSeq)
	return nil
}

func (t *tx) insertEvent(agentID string, seq int64, e ledger.Event) error {
	_, err := t.write("INSERT INTO events (agent_id, seq, id, created_at, type, level, message_id, turn_id, ref, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		agentID, seq, e.ID, millis(e.CreatedAt), e.Type, int64(e.Level), e.MessageID, e.TurnID, e.Ref, string(e.Data))
	if err != nil {
		return inserted("event", ledger.CodeConflict, err)
	}
	return nil
}

// numbered notes that the lane of an agent must be saved with this number.
func (t *tx) numbered(agentID string, seq int64) {
	if !slices.Contains(t.watched, agentID) {
		t.watched = append(t.watched, agentID)
	}
	t.saved(agentID)
	t.appended = append(t.appended, appended{agentID, seq})
}

// errNotJSON is what is wrong with text that should be JSON.
var errNotJSON = errors.New("it is no JSON")

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
		"SELECT "+eventColumns+" FROM events WHERE agent_id = ? AND seq BETWEEN ? AND ?"+level+" ORDER BY seq "+order+" LIMIT ?",
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
	for _, bound := range []struct {
		order string
		seq   *int64
	}{{"ASC", &oldest}, {"DESC", &newest}} {
		*bound.seq, err = v.count("read the bounds of events", "SELECT seq FROM events WHERE agent_id = ?"+level+" ORDER BY seq "+bound.order+" LIMIT 1", agentID)
		if err != nil {
			return 0, 0, err
		}
	}
	return oldest, newest, nil
}

const eventColumns = "seq, id, created_at, type, level, message_id, turn_id, ref, data"

func scanEvent(r *row, agentID string) ledger.Event {
	return ledger.Event{
		AgentID: agentID, Seq: r.integer(), ID: r.text(), CreatedAt: r.time(), Type: r.text(), Level: int(r.integer()),
		MessageID: r.text(), TurnID: r.text(), Ref: r.text(), Data: r.raw(),
	}
}
