package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/state/durable"
)

// Interrupted is the error of a response whose process ended before it did.
var Interrupted = responses.Error{
	Type: responses.TypeServerError, Code: responses.CodeInterrupted,
	Message: "the agent process ended during the turn",
	Hint:    "what it did until then is kept; continue with previous_response_id",
}

// Settle ends every turn that an earlier process left in flight: its stream gets
// a response.failed, its record and trajectory are completed. Nothing is run
// again. It returns the ids of the settled turns. A turn that cannot be settled
// is reported in err and stays under open/; the others are settled all the same.
func (s *Store) Settle(now func() time.Time) (settled []string, err error) {
	ids, err := s.Open()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, id := range ids {
		turnID, err := s.settle(id, now)
		switch {
		case errors.Is(err, ErrNotFound): // never acknowledged
		case err != nil:
			errs = append(errs, fmt.Errorf("settle response %s: %w", id, err))
		default:
			settled = append(settled, turnID)
		}
	}
	return settled, errors.Join(errs...)
}

func (s *Store) settle(id string, now func() time.Time) (turnID string, err error) {
	trajectory, stored, err := s.Resume(id)
	if err != nil {
		return "", err
	}
	h := stored.Header
	if err := os.MkdirAll(h.TurnDir, 0o700); err != nil {
		return "", fmt.Errorf("make the output directory: %w", err)
	}
	resp, err := endStream(h)
	if err != nil {
		return "", err
	}
	if stored.Response == nil {
		if err := trajectory.Finish(resp); err != nil {
			return "", err
		}
	}
	if err := settleRecord(h, resp, now()); err != nil {
		return "", err
	}
	return h.TurnID, trajectory.Publish(h.Response.Store)
}

// endStream gives the turn's stream its terminal event, unless it has one, and
// returns the response that the stream ends with.
func endStream(h Header) (responses.Response, error) {
	log, err := ReopenLog(filepath.Join(h.TurnDir, turns.EventsFile))
	if err != nil {
		return responses.Response{}, err
	}
	defer log.Close()
	var events []responses.Event
	err = log.Lines(func(line []byte) error {
		ev, err := responses.DecodeEvent(line)
		events = append(events, ev)
		return err
	})
	if err != nil {
		return responses.Response{}, fmt.Errorf("read the stream: %w", err)
	}
	sink := func(_ string, data []byte) error { return log.Append(data) }
	var em *responses.Emitter
	if len(events) == 0 {
		em, err = responses.NewEmitter(h.Response, sink)
	} else {
		em, err = responses.Resume(events, sink)
	}
	if err != nil {
		return responses.Response{}, err
	}
	if !em.Ended() {
		if err := em.Fail(&Interrupted, responses.Usage{}); err != nil {
			return responses.Response{}, err
		}
	}
	return em.Response(), log.Flush()
}

// settleRecord completes turn.json, or makes it again from the header when the
// crash came before it was on disk.
func settleRecord(h Header, resp responses.Response, now time.Time) error {
	path := filepath.Join(h.TurnDir, turns.RecordFile)
	rec := turns.NewRecord(h.SessionID, h.TurnID, &h.Response, h.RequestDigest, h.Instance, h.Version, h.CreatedAt)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the turn record: %w", err)
	}
	if old, err := turns.DecodeRecord(data); err == nil && old.TurnID == h.TurnID {
		if old.Status.Terminal() {
			return nil
		}
		rec = *old
	}
	facts, err := countFacts(h.TurnDir)
	if err != nil {
		return err
	}
	rec.Settle(&resp, now)
	rec.Rounds, rec.ToolCalls = facts.Rounds, facts.ToolCalls
	if rec.Artifacts, err = Artifacts(h.TurnDir); err != nil {
		return err
	}
	if data, err = encodeRecord(rec); err != nil {
		return err
	}
	return durable.WriteFile(path, data, 0o600)
}

// countFacts counts rounds and tool calls from runtime.ndjson and closes it
// with what is known of the end.
func countFacts(dir string) (Totals, error) {
	log, err := ReopenLog(filepath.Join(dir, turns.RuntimeFile))
	if err != nil {
		return Totals{}, err
	}
	defer log.Close()
	var totals Totals
	var last turns.RuntimeEvent
	err = log.Lines(func(line []byte) error {
		ev, err := turns.DecodeRuntimeEvent(line)
		if err != nil {
			return nil // a damaged fact must not keep the turn from being settled
		}
		last = ev
		switch ev.Type {
		case turns.ModelRequested:
			totals.Rounds++
		case turns.ToolResult, turns.ToolFailed:
			var p struct {
				ToolName string `json:"tool_name"`
			}
			_ = json.Unmarshal(ev.Payload, &p) // a call without a name counts all the same
			totals.ToolCalls.Add(p.ToolName, ev.Type == turns.ToolFailed)
		}
		return nil
	})
	if err != nil || last.Sequence == 0 || last.Type == turns.TurnCompleted || last.Type == turns.TurnFailed {
		return totals, err
	}
	scope := turns.Scope{RuntimeID: last.RuntimeID, SessionID: last.SessionID, ThreadID: last.ThreadID, TurnID: last.TurnID}
	end := scope.TurnFailed(turns.StatusLost, turns.Failure{
		FailureCategory: Interrupted.Code, Message: Interrupted.Message, Phase: "recovery", InterruptedBy: "process_end",
	})
	end.Sequence = last.Sequence + 1
	data, err := json.Marshal(end)
	if err != nil {
		return totals, err
	}
	if err := log.Append(data); err != nil {
		return totals, err
	}
	return totals, log.Flush()
}
