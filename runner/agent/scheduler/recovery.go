package scheduler

import (
	"context"
	"fmt"
	"strings"

	"holon/runner/agent/memory"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// Recovery is what was read to make up for a loss, and what was not found.
type Recovery struct {
	Sources []string // ledger, container, turn_directory, backup
	Missing []Missing
}

// Missing is what a Recovery did not find.
type Missing struct {
	Kind string `json:"kind"` // turn_end, conversation, events
	Ref  string `json:"ref"`  // of the turn, of the response, or the number of the last event that is there
}

// emitRecovery records a loss, and how far it was made up for.
func (s *step) emitRecovery(code, message string, e ledger.Event, r Recovery) {
	s.emit(record.RuntimeWarning, e, fields{"code": code, "message": message, "component": "daemon", "recoverable": true})
	missing := r.Missing
	if missing == nil {
		missing = []Missing{}
	}
	e.Cause = s.newest()
	s.emit(record.HistoryReconstructed, e,
		fields{"sources": r.Sources, "degraded": len(missing) > 0, "missing": missing})
}

// TakeOver makes this process the owner of an attempt that another one left open, and records how far it found out what
// became of its turn. A second time it changes nothing.
func (m *Scheduler) TakeOver(ctx context.Context, attemptID string, r Recovery) error {
	return m.attemptStep(ctx, attemptID, aheadOfRecord, func(s *step, a ledger.Attempt) error {
		if a.Status != ledger.AttemptOpen || a.Owner == m.opts.Owner {
			return nil
		}
		a.Owner = m.opts.Owner
		s.emitRecovery("daemon_restarted", "holon ended while it ran this turn",
			ledger.Event{MessageID: a.MessageID, TurnID: a.TurnID, Level: record.LevelProgress}, r)
		s.update(&a)
		return nil
	})
}

// Restored records of an agent that the ledger was restored from a backup, before anything else is written to it.
// Otherwise it changes nothing.
func (m *Scheduler) Restored(ctx context.Context, agentID string) error {
	l, err := ledger.Read(ctx, m.store, func(v ledger.View) (ledger.AgentState, error) { return v.AgentState(agentID) })
	last := l.EventSeq
	if err != nil || last == 0 || m.store.EpochOf(agentID, last) == m.store.Epoch() {
		return err
	}
	return m.step(ctx, agentID, func(s *step) error {
		if s.state.EventSeq != last {
			return nil // another step was first, which recorded it
		}
		s.emitRecovery("ledger_restored", fmt.Sprintf("the ledger is a backup that ends with event %d", last),
			ledger.Event{Level: record.LevelProgress},
			Recovery{Sources: []string{"backup"}, Missing: []Missing{{"events", fmt.Sprint(last)}}})
		return nil
	})
}

// forget lets the conversation of an agent go on from kept, or begin anew for "": the response that the turn of an
// attempt was to continue is gone.
func (s *step) forget(kept string) {
	if chain := s.state.Chain; chain != "" {
		what, how := "the conversation", "it begins anew, with what the record has of its newest turns"
		if kept != "" {
			what, how = "the end of the conversation", "it goes on from what was there before"
		}
		s.emitRecovery("conversation_lost", what+" of the agent is gone; "+how, ledger.Event{Level: record.LevelProgress},
			Recovery{Sources: []string{"ledger"}, Missing: []Missing{{"conversation", chain}}})
		s.notify(s.notification(ledger.NoticeConversation, "", strings.ToUpper(what[:1])+what[1:]+" of agent "+
			s.state.AgentID+" is gone; "+how+"."))
	}
	s.beginAnew()
	if s.state.Chain = kept; kept == "" {
		return
	}
	m, known := ifAny(s, func(v ledger.View) (ledger.Memory, bool, error) { return v.Memory(s.state.AgentID) })
	if m = memory.Forgotten(m, s.state.Turns); known { // what turns were shown that are gone
		s.update(&m)
	}
}
