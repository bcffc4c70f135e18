package scheduler

import (
	"fmt"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// workSubsystem is the origin of ticks that go on with work, and recheckSubsystem of those that look at a blocker.
const (
	workSubsystem    = "work_queue"
	recheckSubsystem = "work_recheck"
)

// workTick is the body of a tick about work.
type workTick struct {
	WorkItemID   string              `json:"work_item_id"`
	Reactivation ledger.Reactivation `json:"reactivation_mode,omitempty"`
	Objective    string              `json:"objective"`
	BlockedBy    string              `json:"blocked_by,omitempty"`
}

// workSignal is the work with which the agent goes on by itself once it is idle, nil for none.
func (s *step) workSignal() *ledger.WorkSignal {
	return rules.WorkSignal(s.state, read(s, ledger.View.OpenWork, s.state.AgentID), s.waits())
}

// free queues what an idle agent does next: it looks at a hint, or goes on with its work. It has no open attempt.
func (s *step) free() {
	s.freeHint()
	s.freeWork()
}

// freeIdle does so if the agent is idle.
func (s *step) freeIdle() {
	if !s.busy() {
		s.free()
	}
}

// freeWork queues the tick with which an idle agent goes on with its work. It has no open attempt. A message that waits
// comes first: the end of its turn calls this again.
func (s *step) freeWork() {
	if s.state.Stopped || s.state.PendingWake != nil || s.countQueued() > 0 || rules.Rests(s.agentWait()) {
		return
	}
	signal := s.workSignal()
	if signal == nil {
		return
	}
	if rules.Stalled(s.state.Progress) {
		s.notifyStalled(0)
		return
	}
	item := read(s, ledger.View.WorkItem, signal.WorkItemID)
	s.tickWork(workSubsystem, ledger.Normal,
		workTick{WorkItemID: item.ID, Reactivation: signal.Reactivation, Objective: clip(item.Objective)})
}

// tickWork queues a tick about work. It is of the agent's own making, so progress bounds it.
func (s *step) tickWork(subsystem string, priority ledger.Priority, body workTick) {
	msg := s.own(ledger.Message{Kind: ledger.KindSystemTick, Priority: priority, WorkItemID: body.WorkItemID,
		Origin:     ledger.Origin{Kind: ledger.OriginSystem, Subsystem: subsystem},
		SourceRefs: map[string]string{"work_item_id": body.WorkItemID},
		Body:       ledger.Body{Type: "json", Value: mustJSON(body)}, Surface: ledger.SurfaceSystem})
	s.came(msg)
	s.emit(record.SystemTickEmitted, ledger.Event{MessageID: msg.ID},
		fields{"contentful": true, "work_item_id": body.WorkItemID, "reactivation_mode": string(body.Reactivation)})
	s.admit(msg, ledger.FromSelf)
}

// dropStale drops a tick that goes on with work when there is nothing to go on with any more, or something else.
func (s *step) dropStale(e ledger.Entry, msg ledger.Message) bool {
	if msg.Kind != ledger.KindSystemTick || msg.Origin.Subsystem != workSubsystem || cameBack(e) {
		return false
	}
	if now := s.workSignal(); now != nil && now.WorkItemID == msg.WorkItemID {
		return false
	}
	w := s.agentWait()
	again := w != nil && triggeredBy(*w, msg.ID)
	if again { // before the message goes, which would end it
		s.waitAgain(w)
	}
	s.dispose(e, ledger.Dropped, "its work item does not go on by itself any more")
	if again {
		s.lookAtQueue(*w)
	}
	s.freeWork()
	return true
}

// fireRecheck queues the tick that looks at the blocker of an item, once.
func (s *step) fireRecheck(id string) {
	w := read(s, ledger.View.WorkItem, id)
	if s.state.Stopped || w.State != ledger.WorkOpen || w.RecheckAt == nil || w.RecheckAt.After(s.now) ||
		w.RecheckConsumedAt != nil {
		return
	}
	w.RecheckConsumedAt, w.UpdatedAt = &s.now, s.now
	w.Revision++
	s.emitWork(record.WorkItemRechecked, "", w, nil)
	s.updateWork(&w)
	s.tickWork(recheckSubsystem, ledger.Background,
		workTick{WorkItemID: w.ID, Objective: clip(w.Objective), BlockedBy: w.BlockedBy})
}

// endWork notes, at the end of a turn, what became of the item that it was bound to, and whether work may go on by
// itself after it.
func (s *step) endWork(a ledger.Attempt, from ledger.Sender, e End, v outcome) {
	if !v.turn {
		return
	}
	switch {
	case a.AbortedBy != "":
		s.state.WorkHeld = ledger.FailureAborted
	case e.Failure != nil && e.Failure.Code == responses.CodeContextLength:
		s.state.WorkHeld = responses.CodeContextLength
	}
	if from == ledger.FromSelf { // as ticks are
		s.endRecheck(s.message(a.MessageID))
	}
	w, ok := find(s, ledger.View.WorkItem, a.WorkItemID)
	if !ok {
		return
	}
	if e.Plan.Hash != w.PlanHash {
		w.PlanHash = e.Plan.Hash
		s.updateWork(&w)
		s.emit(record.WorkPlanRefreshed, ledger.Event{Ref: w.ID, TurnID: a.TurnID},
			fields{"work_item_id": w.ID, "hash": e.Plan.Hash, "bytes": e.Plan.Bytes})
	}
	waits := s.waits()
	s.emit(record.WorkTurnEnded, ledger.Event{Ref: w.ID, MessageID: a.MessageID, TurnID: a.TurnID},
		fields{"work_item_id": w.ID, "scheduling_state": string(rules.Scheduling(w, waits)), "worked": a.Worked})
}

// endRecheck notifies of an item that is still blocked after the turn that looked at it again, which may have had
// another one as its current item, or none.
func (s *step) endRecheck(msg ledger.Message) {
	if msg.Origin.Subsystem != recheckSubsystem {
		return
	}
	w, ok := find(s, ledger.View.WorkItem, msg.WorkItemID)
	if !ok || w.RecheckConsumedAt == nil || w.State != ledger.WorkOpen {
		return
	}
	n := s.notification(ledger.NoticeRecheck, w.ID, fmt.Sprintf("Agent %s looked again at what blocks a work item, "+
		"and it still does; nothing looks at it again by itself: %s\n\nBlocked by: %s", s.state.AgentID, w.Objective,
		w.BlockedBy))
	n.WorkItemID = w.ID
	s.notify(n)
}
