package sqlite

import (
	"bytes"
	"strings"

	"holon/state/ledger"
)

// behind is what updates of a batch have done and the file does not show yet:
// nearly all append events and save a lane, so that writing these down together,
// before the commit or before anything is to be read from the file, saves most
// of the statements. It belongs to the holder of the baton.
type behind struct {
	lanes  map[string]ledger.Lane // of the newest updates, whether written or not
	unsaid []string               // agents whose lane is to be written
	events []numbered
}

// numbered is an event in its place.
type numbered struct {
	agentID string
	seq     int64
	event   ledger.Event
}

// maxLanes bounds the memory for lanes of agents that rarely do anything, and
// maxBehind how many events wait to be written.
const (
	maxLanes  = 1024
	maxBehind = 1024
)

// remember keeps a lane that is as the file has it.
func (b *behind) remember(l ledger.Lane) {
	if b.lanes == nil || len(b.lanes) >= maxLanes && len(b.unsaid) == 0 {
		b.lanes = make(map[string]ledger.Lane)
	}
	b.lanes[l.AgentID] = l
}

// forget drops everything: the file has less than was thought.
func (b *behind) forget() { *b = behind{} }

// write brings the file up to date.
func (b *behind) write(c *conn) error {
	for at := 0; at < len(b.events); {
		n := 1
		if len(b.events)-at >= eventRows {
			n = eventRows
		}
		if err := insertEvents(c, b.events[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	for _, id := range b.unsaid {
		if err := updateLane(c, b.lanes[id]); err != nil {
			return err
		}
	}
	clear(b.events)
	b.events, b.unsaid = b.events[:0], b.unsaid[:0]
	return nil
}

// updateLane writes a lane that the file has.
func updateLane(c *conn, l ledger.Lane) error {
	data, err := encode(l)
	if err != nil {
		return err
	}
	_, err = c.exec("UPDATE lanes SET revision = ?, event_seq = ?, stopped = ?, chain = ?, wake_message = ?, data = "+
		"? WHERE agent_id = ?",
		l.Revision, l.EventSeq, number(l.Stopped), l.Chain, l.WakeMessage, data, l.AgentID)
	return failed("update lane", err)
}

// eventRows is how many events one statement inserts; fewer go one by one.
const eventRows = 16

const insertEvent = "INSERT INTO events (agent_id, seq, id, created_at, type, level, message_id, turn_id, ref, " +
	"data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

var insertManyEvents = insertEvent + strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", eventRows-1)

// insertEvents writes one event, or eventRows.
func insertEvents(c *conn, events []numbered) error {
	text := insertEvent
	if len(events) > 1 {
		text = insertManyEvents
	}
	c.values = c.values[:0]
	for i := range events {
		e := &events[i].event
		c.values = append(c.values, events[i].agentID, events[i].seq, e.ID, millis(e.CreatedAt), e.Type, int64(e.Level),
			textOrNil(e.MessageID), textOrNil(e.TurnID), textOrNil(e.Ref), textOrNil(string(e.Data)))
	}
	_, err := c.exec(text, c.values...)
	return changed("insert", "event", ledger.CodeConflict, err)
}

// copyLane returns a lane that shares nothing with l.
func copyLane(l ledger.Lane) ledger.Lane {
	if l.PendingWake != nil {
		hint := *l.PendingWake
		hint.Body = bytes.Clone(hint.Body)
		l.PendingWake = &hint
	}
	l.Totals.LastTurn = copied(l.Totals.LastTurn)
	l.LastBriefAt, l.Progress.EndedAt = copied(l.LastBriefAt), copied(l.Progress.EndedAt)
	if l.LastFailure != nil {
		failure := *l.LastFailure
		failure.Artifact = bytes.Clone(failure.Artifact)
		l.LastFailure = &failure
	}
	l.LastClosure, l.LastResolved = bytes.Clone(l.LastClosure), bytes.Clone(l.LastResolved)
	return l
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
