package scheduler

import (
	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state"
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
func (s *step) workSignal() (*ledger.WorkSignal, error) {
	open, err := s.OpenWork(s.state.AgentID)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	waits, err := s.UnresolvedWaits(s.state.AgentID)
	return rules.WorkSignal(s.state, open, waits), err
}

// free queues what an idle agent does next: it looks at a hint, or goes on with its work. It has no open attempt.
func (s *step) free() error {
	if err := s.freeHint(); err != nil {
		return err
	}
	return s.freeWork()
}

// freeIdle does so if the agent is idle.
func (s *step) freeIdle() error {
	if busy, err := s.busy(); busy || err != nil {
		return err
	}
	return s.free()
}

// freeWork queues the tick with which an idle agent goes on with its work. It has no open attempt. A message that waits
// comes first: the end of its turn calls this again.
func (s *step) freeWork() error {
	if s.state.Stopped || s.state.PendingWake != nil {
		return nil
	}
	if n, err := s.CountQueued(s.state.AgentID); n > 0 || err != nil {
		return err
	}
	w, err := s.agentWait()
	if err != nil || rules.Rests(w) {
		return err
	}
	signal, err := s.workSignal()
	if err != nil || signal == nil {
		return err
	}
	if rules.Stalled(s.state.Progress) {
		return s.tellStopped(0)
	}
	item, err := s.WorkItem(signal.WorkItemID)
	if err != nil {
		return err
	}
	return s.tickWork(workSubsystem, ledger.Normal,
		workTick{WorkItemID: item.ID, Reactivation: signal.Reactivation, Objective: clip(item.Objective)})
}

// tickWork queues a tick about work. It is of the agent's own making, so progress bounds it.
func (s *step) tickWork(subsystem string, priority ledger.Priority, body workTick) error {
	p := rules.Provenance{Kind: ledger.KindSystemTick, Context: ledger.RuntimeOwned,
		Origin: ledger.Origin{Kind: ledger.OriginSystem, Subsystem: subsystem}}
	g, _ := rules.Admit(p) // allowed by its table
	msg := ledger.Message{
		ID: responses.NewID(responses.PrefixMessage), AgentID: s.state.AgentID, Kind: p.Kind, Origin: p.Origin,
		Trust: g.Trust, Authority: g.Authority, TriggerKind: g.Trigger, Priority: priority, WorkItemID: body.WorkItemID,
		SourceRefs: map[string]string{"work_item_id": body.WorkItemID},
		Body:       ledger.Body{Type: "json", Value: mustJSON(body)},
		Surface:    ledger.SurfaceSystem, AdmissionContext: ledger.RuntimeOwned,
	}
	if subsystem == workSubsystem {
		s.state.WorkMessage = msg.ID
	}
	s.emit(record.SystemTickEmitted, ledger.Event{MessageID: msg.ID},
		facts{"contentful": true, "work_item_id": body.WorkItemID, "reactivation_mode": string(body.Reactivation)})
	_, err := s.admit(msg, ledger.FromSelf)
	return err
}

// dropStale drops a tick that goes on with work when there is nothing to go on with any more, or something else.
func (s *step) dropStale(e ledger.Entry, msg ledger.Message) (bool, error) {
	if msg.Kind != ledger.KindSystemTick || msg.Origin.Subsystem != workSubsystem || cameBack(e) {
		return false, nil
	}
	now, err := s.workSignal()
	if err != nil || now != nil && now.WorkItemID == msg.WorkItemID {
		return false, err
	}
	w, err := s.agentWait()
	if err != nil {
		return true, err
	}
	again := w != nil && triggeredBy(*w, msg.ID)
	if again { // before the message goes, which would end it
		if err := s.waitAgain(w); err != nil {
			return true, err
		}
	}
	if err := s.dispose(e, ledger.Dropped, "its work item does not go on by itself any more"); err != nil {
		return true, err
	}
	if again {
		if _, err := s.lookAtQueue(*w); err != nil {
			return true, err
		}
	}
	return true, s.freeWork()
}

// fireRecheck queues the tick that looks at the blocker of an item, once.
func (s *step) fireRecheck(id string) error {
	w, err := s.WorkItem(id)
	if err != nil || s.state.Stopped || w.State != ledger.WorkOpen || w.RecheckAt == nil || w.RecheckAt.After(s.now) ||
		w.RecheckConsumedAt != nil {
		return err
	}
	w.RecheckConsumedAt, w.UpdatedAt = &s.now, s.now
	w.Revision++
	s.emitWork(record.WorkItemRechecked, "", w, nil)
	if err := s.Update(&w); err != nil {
		return err
	}
	return s.tickWork(recheckSubsystem, ledger.Background,
		workTick{WorkItemID: w.ID, Objective: clip(w.Objective), BlockedBy: w.BlockedBy})
}

// endWork notes, at the end of a turn, what became of the item that it was bound to, and whether work may go on by
// itself after it.
func (s *step) endWork(a ledger.Attempt, e End, v verdict) error {
	if !v.turn {
		return nil
	}
	switch {
	case a.AbortedBy != "":
		s.state.WorkHeld = FailureAborted
	case e.Failure != nil && e.Failure.Code == responses.CodeContextLength:
		s.state.WorkHeld = responses.CodeContextLength
	}
	if a.WorkItemID == "" {
		return nil
	}
	w, err := s.WorkItem(a.WorkItemID)
	if state.IsCode(err, ledger.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if e.Plan.Hash != w.PlanHash {
		w.PlanHash = e.Plan.Hash
		if err := s.Update(&w); err != nil {
			return err
		}
		s.emit(record.WorkPlanRefreshed, ledger.Event{Ref: w.ID, TurnID: a.TurnID},
			facts{"work_item_id": w.ID, "hash": e.Plan.Hash, "bytes": e.Plan.Bytes})
	}
	waits, err := s.UnresolvedWaits(a.AgentID)
	if err != nil {
		return err
	}
	s.emit(record.WorkTurnEnded, ledger.Event{Ref: w.ID, MessageID: a.MessageID, TurnID: a.TurnID},
		facts{"work_item_id": w.ID, "scheduling_state": string(rules.Scheduling(w, waits)), "worked": a.Worked})
	return nil
}
