package scheduler

import (
	"context"
	"errors"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// OutputStates says of the directories of an agent's turns whether they are recorded as gone, and whether events need
// them. It reads all events of the agent.
func (m *Scheduler) OutputStates(ctx context.Context, agentID string,
	turnIDs []string) (map[string]ledger.OutputState, error) {
	states := make(map[string]ledger.OutputState, len(turnIDs))
	err := m.store.View(ctx, func(v ledger.View) error {
		agent, err := v.AgentState(agentID)
		if err != nil {
			return err
		}
		referred, err := v.ReferredTurns(agentID)
		for _, id := range turnIDs {
			_, gone, failed := v.ExpiredOutput(id)
			err = errors.Join(err, failed)
			newest, ok := referred[id]
			switch {
			case gone:
				states[id] = ledger.OutputGone
			case !ok:
				states[id] = ledger.OutputUnreferenced
			case newest <= agent.Exported:
				states[id] = ledger.OutputSaved
			default:
				states[id] = ledger.OutputPinned
			}
		}
		return err
	})
	return states, err
}

// ExpireOutputs records that directories of an agent's turns go, each once. They are removed after that.
func (m *Scheduler) ExpireOutputs(ctx context.Context, agentID string, gone []ledger.ExpiredOutput) error {
	return m.step(ctx, agentID, func(s *step) error {
		for _, e := range gone {
			if _, known := ifAny(s, func(v ledger.View) (ledger.ExpiredOutput, bool, error) {
				return v.ExpiredOutput(e.TurnID)
			}); known {
				continue
			}
			e.AgentID, e.At = agentID, s.now
			for len(mustJSON(e.Artifacts)) > maxNamedFiles {
				e.Artifacts = e.Artifacts[:len(e.Artifacts)-1]
			}
			s.insert(&e)
			s.expired(e)
		}
		return nil
	})
}

// maxNamedFiles bounds the files that an event names of an expired output, in bytes of JSON.
const maxNamedFiles = 6 << 10

// expired records that the directory of a turn is gone. The turn is named in the payload: it has ended, and nothing of
// it may come after that.
func (s *step) expired(e ledger.ExpiredOutput) {
	event := ledger.Event{ID: derivedID(responses.PrefixEvent, "output.expired", e.AgentID, e.TurnID)}
	s.cause = "" // one directory does not go because of another
	if e.Artifacts == nil {
		e.Artifacts = []ledger.ExpiredFile{}
	}
	s.emit(record.OutputExpired, event, fields{"output_ref": "turns/" + e.TurnID, "turn_id": e.TurnID,
		"expires_at": e.At, "reason": string(e.Reason), "size_bytes": e.SizeBytes, "artifact_count": e.Count,
		"artifacts": e.Artifacts})
}

// Export is a document that holds the record of an agent from an event, the first that it had, through another.
type Export struct {
	AgentID     string
	Key         string // of the command
	From        int64
	Through     int64
	Ref, Digest string
}

// Exported records that evidence was exported. It returns the number of the event that says so, 0 when an earlier
// export holds as much.
func (m *Scheduler) Exported(ctx context.Context, x Export) (int64, error) {
	var seq int64
	err := m.step(ctx, x.AgentID, func(s *step) error {
		if seq = 0; x.Through <= s.state.Exported {
			return nil
		}
		if x.Through > s.state.EventSeq {
			return refused(CodeInvalidMessage, "through", "", "the record of %s ends at %d", x.AgentID, s.state.EventSeq)
		}
		s.state.Exported, s.state.ExportedBy = x.Through, x.Key
		id := derivedID("evidence_", x.AgentID, x.Digest)
		e := ledger.Event{ID: derivedID(responses.PrefixEvent, id)}
		e.IDs[agentruntime.Evidence] = id
		seq = s.emit(record.EvidenceChanged, e, fields{"op": "ready", "pack_ref": x.Ref, "from_sequence": x.From,
			"through_sequence": x.Through, "events_digest": x.Digest})
		return nil
	})
	return seq, err
}
