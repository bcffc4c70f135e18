package view

import (
	"holon/state"
	"holon/state/ledger"
)

// State is a snapshot of an agent. epoch is the store's. Errors are those of Summary.
func (s Snapshot) State(agentID, epoch string) (StateSnapshot, error) {
	summary, err := s.Summary(agentID)
	if err != nil {
		return StateSnapshot{}, err
	}
	stored, err := s.ledger.AgentState(agentID)
	if err != nil {
		return StateSnapshot{}, err
	}
	out := StateSnapshot{
		Agent: summary,
		Session: session{CurrentRunID: summary.Agent.CurrentRunID, PendingCount: summary.Agent.Pending,
			LastTurn: summary.Agent.LastTurnTerminal},
		WaitingIntents: summary.ActiveIntents, Notifications: summary.Notifications,
		Execution: summary.Execution, SnapshotThrough: stored.EventSeq,
		EventLogEpoch: epoch,
	}
	if out.Workspace, err = s.workspace(stored); err != nil {
		return out, err
	}
	if out.WorkingMemory, err = s.workingMemory(stored); err != nil {
		return out, err
	}
	if out.Tasks, err = s.Tasks(agentID, defaultLimit); err != nil {
		return out, err
	}
	if out.WorkItems, _, err = s.WorkList(agentID, 0); err != nil {
		return out, err
	}
	if out.Timers, err = timers(s.ledger, agentID, maxTimers); err != nil {
		return out, err
	}
	queue, err := s.ledger.Queued(agentID, defaultLimit)
	if err != nil {
		return out, err
	}
	out.Queue = list(queue)
	triggers, err := s.ledger.Triggers(agentID)
	out.Triggers = []Trigger{}
	for i := max(0, len(triggers)-maxTriggersShown); i < len(triggers); i++ {
		out.Triggers = append(out.Triggers, OfTrigger(triggers[i]))
	}
	return out, err
}

// Activity sums up what the public agents do, and returns the newest failure of any.
func (s Snapshot) Activity() (Activity, *ledger.Failure, error) {
	agents, err := s.ledger.Agents()
	if err != nil {
		return Activity{}, nil, err
	}
	sum := Activity{State: "idle"}
	var newest *ledger.Failure
	for _, a := range agents {
		if a.Visibility == ledger.Private {
			continue
		}
		at, err := s.agent(a)
		if state.IsCode(err, ledger.CodeUnreadable) {
			continue // the others can be read
		}
		if err != nil {
			return sum, nil, err
		}
		sum.count(at)
		running, err := s.ledger.CountOpenTasks(a.ID)
		if err != nil {
			return sum, nil, err
		}
		sum.ActiveTaskCount += running
		if f := at.stored.LastFailure; f != nil && (newest == nil || f.OccurredAt.After(newest.OccurredAt)) {
			shown := *f
			shown.AgentID = a.ID
			newest = &shown
		}
	}
	switch {
	case sum.ProcessingAgentCount > 0:
		sum.State = "processing"
	case sum.WaitingAgentCount > 0:
		sum.State = "waiting"
	}
	return sum, newest, nil
}

// LatencyReport tells where the time of the newest turns went. limit 0 is 10.
func (s Snapshot) LatencyReport(agentID string, limit int) (LatencyReport, error) {
	report := LatencyReport{AgentID: agentID, Turns: []TurnLatency{}}
	if _, err := s.shown(agentID); err != nil {
		return report, err
	}
	if limit <= 0 {
		limit = 10
	}
	turns, err := s.ledger.Turns(agentID, clamp(limit))
	if err != nil {
		return report, err
	}
	for _, t := range turns {
		one, err := latency(s.ledger, t)
		if err != nil {
			return report, err
		}
		report.Turns = append(report.Turns, one)
	}
	report.Pending, err = s.ledger.CountQueued(agentID)
	return report, err
}

func latency(v ledger.View, t ledger.Turn) (TurnLatency, error) {
	out := TurnLatency{TurnID: t.ID, TurnIndex: t.Index, MessageID: t.MessageID, Kind: t.Kind, TurnMS: t.DurationMS,
		ModelRounds: t.ModelRounds, ToolCalls: t.ToolCalls, Timing: t.Timing}
	if t.Failure != nil {
		out.FailureCode = t.Failure.Code
	}
	attempt, err := v.Attempt(t.AttemptID)
	if err != nil {
		return out, err
	}
	if attempt.BegunAt != nil {
		begin := milliseconds(attempt.StartedAt, *attempt.BegunAt)
		out.BeginMS = &begin
	}
	m, err := v.Message(t.MessageID)
	if isNotFound(err) { // retention let it go
		return out, nil
	}
	out.MessageKind, out.Priority, out.QueueWaitMS = m.Kind, m.Priority, milliseconds(m.CreatedAt, attempt.StartedAt)
	return out, err
}
