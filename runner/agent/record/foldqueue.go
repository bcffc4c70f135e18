package record

import (
	"cmp"
	"slices"

	"holon/responses/agentruntime"
)

// queueEntry is a message that waits for a turn.
type queueEntry struct {
	QueuedTurnID string `json:"queued_turn_id"` // the message: its turn has an id when it begins
	Priority     string `json:"priority"`
	Order        int    `json:"order"` // from 1, in which they are taken
	Number       int64  `json:"number,omitempty"`
	Band         int64  `json:"band,omitempty"` // is taken before a higher one, whatever the number
	Kind         string `json:"kind,omitempty"`
	Source       string `json:"source,omitempty"`
	EnqueuedAt   string `json:"enqueued_at"`
	ResumeState  string `json:"resume_state"`      // queued, requeued
	Blocked      bool   `json:"blocked,omitempty"` // until a setting or the operator lets it be taken; behind all others
}

func (f *Fold) applyQueue(e fact) {
	entry := e.in("entry")
	id := cmp.Or(entry.text("message_id"), entry.text("queued_turn_id"), e.id(agentruntime.QueuedTurn))
	if e.Type != "queue.changed" || id == "" {
		return
	}
	switch e.text("op") {
	case "enqueue", "restore", "promote":
		q := f.queue.at(id)
		q.QueuedTurnID, q.Blocked, q.Band = id, false, 0
		q.Priority, q.EnqueuedAt = or(q.Priority), cmp.Or(q.EnqueuedAt, e.at())
		entry.into(q)
		q.EnqueuedAt = cmp.Or(entry.time("enqueued_at"), q.EnqueuedAt)
		q.Kind, q.Source = cmp.Or(e.text("kind"), q.Kind), cmp.Or(entry.text("sender"), q.Source)
		if q.ResumeState = cmp.Or(q.ResumeState, "queued"); e.text("reason") != "" {
			q.ResumeState = "requeued"
		}
	case "dequeue", "interject", "remove", "drop":
		f.queue.drop(id)
	}
}

// priorities are those of messages, the first taken first. One that is not here comes last.
var priorities = []string{"interject", "next", "normal", "background"}

// queued returns the queue in the order in which it is taken.
func (f *Fold) queued() list[queueEntry] {
	q := f.queue.list(nil)
	rank := func(e queueEntry) int {
		if i := slices.Index(priorities, e.Priority); i >= 0 {
			return i
		}
		return len(priorities)
	}
	slices.SortStableFunc(q.Items, func(a, b queueEntry) int {
		return cmp.Or(cmp.Compare(a.Band, b.Band), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Number, b.Number))
	})
	for i := range q.Items {
		q.Items[i].Order = i + 1
	}
	return q
}

// wait is something that the agent waits for.
type wait struct {
	WaitID     string `json:"wait_id"`
	Owner      string `json:"owner"` // agent, or the id of what waits within it
	Kind       string `json:"kind"`
	WaitingFor string `json:"waiting_for,omitempty"`
	Status     string `json:"status"` // registered, triggered, resolved, cancelled, expired
	At         string `json:"at"`     // of that status
}

func (f *Fold) applyWait(e fact, status string) {
	wait := e.in(RecordWait)
	id := wait.text("id")
	if id == "" {
		return
	}
	w := f.waits.at(id)
	w.Owner, w.Kind = or(w.Owner), or(w.Kind)
	wait.into(w)
	w.WaitID, w.Status, w.At = id, clip(status, maxID), e.at()
}
