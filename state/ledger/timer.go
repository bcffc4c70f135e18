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

// TimerView reads timers, and what the clock ends.
type TimerView interface {
	Timer(id string) (Timer, error)
	// TimerByKey finds the timer that was made for an agent under an idempotency
	// key.
	TimerByKey(agentID, key string) (t Timer, ok bool, err error)
	// Timers returns the newest timers of an agent, the oldest first.
	Timers(agentID string, limit int) ([]Timer, error)
	// Due returns, of all agents that are not stopped, active timers whose time
	// has come and active waits whose wake or expiry has come, the earliest
	// first, limit of each. Of one whose record is damaged it returns ID and
	// AgentID: one damaged agent hides nothing of the others.
	Due(now time.Time, limit int) ([]Timer, []Wait, error)
	// NextDue returns the first time after now at which Due or DueWork would return more.
	NextDue(now time.Time) (at time.Time, ok bool, err error)
}

// TimerTx writes timers.
type TimerTx interface {
	InsertTimer(t Timer) error
	UpdateTimer(t Timer) error
}
