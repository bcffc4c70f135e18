package ledger

import "time"

// TimerStatus is whether a timer still fires.
type TimerStatus string

const (
	TimerActive    TimerStatus = "active"
	TimerCompleted TimerStatus = "completed"
	TimerCancelled TimerStatus = "cancelled"
)

// Timer makes timer ticks. While a tick of it is in the queue, further ones are
// counted and not made.
type Timer struct {
	ID         string      `json:"id"`
	AgentID    string      `json:"agent_id"`
	Key        string      `json:"-"` // idempotency key; "": none
	Status     TimerStatus `json:"status"`
	DurationMS int64       `json:"duration_ms"`
	IntervalMS int64       `json:"interval_ms,omitempty"`
	Cron       string      `json:"cron,omitempty"` // when it fires, as package crontab reads it; "": by DurationMS
	Zone       string      `json:"zone,omitempty"` // of Cron
	Summary    string      `json:"summary,omitempty"`
	NextFireAt *time.Time  `json:"next_fire_at,omitempty"`
	LastFireAt *time.Time  `json:"last_fired_at,omitempty"`
	FireCount  int64       `json:"fire_count"`
	Coalesced  int64       `json:"coalesced_count"`
	MessageID  string      `json:"message_id,omitempty"` // of the newest tick
	Event      string      `json:"event_id,omitempty"`   // with which it was made; "": it is older than causes
	CreatedAt  time.Time   `json:"created_at"`
	UpdatedAt  time.Time   `json:"updated_at"`
}

func (t *Timer) Row() Row {
	return Row{"timers", "timer", 1, []Column{{"id", &t.ID}, {"agent_id", &t.AgentID}, {"key", &t.Key},
		{"status", t.Status}, {"message_id", t.MessageID}, {"due_at", millisOrNil(t.NextFireAt)},
		{"created_at", millis(t.CreatedAt)}}}
}

// Timer returns a timer.
func (v View) Timer(id string) (Timer, error) { return get[Timer](v, id) }

// Timers returns the newest timers of an agent.
func (v View) Timers(agentID string, limit int) ([]Timer, error) {
	return newest[Timer](v, "timers", agentID, limit)
}

// Due returns, of all agents that are not stopped, active timers whose time has come
// and active waits whose wake or expiry has come, the earliest first. Of
// one whose record is damaged it returns ID and AgentID.
func (v View) Due(now time.Time) ([]Timer, []Wait, error) {
	timers, err := salvaged[Timer](v, "due timers", millis(now))
	if err != nil {
		return nil, nil, err
	}
	waits, err := salvaged[Wait](v, "due waits", millis(now))
	return timers, waits, err
}

// NextDue returns the first time after now at which Due or DueWork would return more.
func (v View) NextDue(now time.Time) (at time.Time, ok bool, err error) {
	after := millis(now)
	next, err := values[int64](v, "next due", after, after, after)
	if err != nil || len(next) == 0 {
		return time.Time{}, false, err
	}
	return time.UnixMilli(next[0]).UTC(), true, nil
}
