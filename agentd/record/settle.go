package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// interrupted is the error of a response whose process ended before it did.
var interrupted = responses.Error{
	Type: responses.TypeServerError, Code: responses.CodeInterrupted,
	Message: "the agent process ended during the turn",
	Hint:    "what it did until then is kept; continue with previous_response_id",
}

// Settle ends every turn that an earlier process left in flight: its stream gets
// a response.failed, its record and trajectory are completed. Nothing is run
// again. It returns the ids of the settled turns. A turn that cannot be settled
// is reported in err and stays under open/; the others are settled all the same.
func (s *Store) Settle(now func() time.Time) (settled []string, err error) {
	ids, err := s.list("open")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, id := range ids {
		turnID, err := s.SettleTurn(id, &interrupted, now)
		switch {
		case errors.Is(err, ErrNotFound): // never acknowledged
		case err != nil:
			errs = append(errs, err)
		default:
			settled = append(settled, turnID)
		}
	}
	return settled, errors.Join(errs...)
}

// SettleTurn ends the turn of the response id, which is not running any more, because of cause, unless its stream has
// its end already. It may be repeated until it succeeds. It returns the turn's id.
func (s *Store) SettleTurn(id string, cause *responses.Error, now func() time.Time) (turnID string, err error) {
	trajectory, stored, err := s.resume(id)
	if err != nil {
		return "", fmt.Errorf("settle response %s: %w", id, err)
	}
	h := stored.Header
	if err := s.release(s.openPath(id), filepath.Join(h.TurnDir, turns.EventsFile),
		filepath.Join(h.TurnDir, turns.RuntimeFile), filepath.Join(h.TurnDir, turns.RecordFile)); err != nil {
		return "", fmt.Errorf("settle response %s: %w", id, errors.Join(err, trajectory.Close()))
	}
	if err := s.settle(trajectory, stored, cause, now()); err != nil {
		return "", fmt.Errorf("settle response %s: %w", id, errors.Join(err, trajectory.Close()))
	}
	return h.TurnID, trajectory.Publish(h.Response.Store)
}

// settle completes the files of a turn in the order in which Commit does.
func (s *Store) settle(t *trajectory, stored *Stored, cause *responses.Error, now time.Time) error {
	h := stored.Header
	if err := os.MkdirAll(h.TurnDir, s.users.Shared(0o771)); err != nil {
		return fmt.Errorf("make the output directory: %w", err)
	}
	if err := durable.Sweep(h.TurnDir); err != nil { // what is left there would be taken for an artifact
		return err
	}
	resp, err := endStream(h, cause)
	if err != nil {
		return err
	}
	totals, facts, err := s.endFacts(stored, resp, now)
	if err != nil {
		return err
	}
	t.facts = facts
	// The stream decides: a final response without a terminal event was never shown to a client.
	if stored.Response == nil || stored.Response.Status != resp.Status {
		if err := t.Finish(resp); err != nil {
			return err
		}
		if err := t.file.Sync(); err != nil {
			return fmt.Errorf("sync trajectory: %w", err)
		}
	}
	return s.settleRecord(h, resp, totals, stored.Said, now)
}

// endStream gives the turn's stream its terminal event, unless it has one, and
// returns the response that the stream ends with.
func endStream(h Header, cause *responses.Error) (responses.Response, error) {
	log, err := reopenLog(filepath.Join(h.TurnDir, turns.EventsFile))
	if err != nil {
		return responses.Response{}, err
	}
	defer log.Close()
	sink := func(_ string, data []byte) error { return log.Append(data) }
	em, err := resumeStream(h, log, sink)
	if err != nil {
		return responses.Response{}, err
	}
	if !em.Ended() {
		var usage responses.Usage // none where the process lives: readers were told an end without
		if cause.Code == responses.CodeInterrupted {
			if usage, err = spent(h, log); err != nil {
				return responses.Response{}, err
			}
		}
		if err := em.Fail(cause, usage); err != nil {
			return responses.Response{}, err
		}
	}
	return em.Response(), log.Flush()
}

// spent is what the attempts at models took in a turn that was cut off: what is on record
// of those that ended, and for one that did not what it was told, as was estimated, and had streamed.
func spent(h Header, events *Log) (u responses.Usage, err error) {
	facts, err := reopenLog(filepath.Join(h.TurnDir, turns.RuntimeFile))
	if err != nil {
		return u, err
	}
	defer facts.Close()
	var totals Totals
	var open openFacts
	err = facts.Lines(func(line []byte) error {
		ev, err := turns.DecodeRuntimeEvent(line)
		if err != nil {
			return errStop
		}
		totals.count(ev)
		open.take(ev)
		return nil
	})
	if err != nil && err != errStop {
		return u, err
	}
	if known := totals.Attempts.AggregatedTokenUsage; known != nil {
		u.InputTokens, u.OutputTokens, u.Estimated = known.InputTokens, known.OutputTokens, known.Estimated
	}
	for _, request := range open.of(turns.ModelRequested) {
		said, err := streamed(events)
		if err != nil {
			return u, err
		}
		var p turns.Requested
		_ = json.Unmarshal(request.Payload, &p) // without an estimate it is 0
		u.InputTokens += int64(p.EstimatedTokens)
		u.OutputTokens, u.Estimated = max(u.OutputTokens, (said+bytesPerToken-1)/bytesPerToken), true
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u, nil
}

// bytesPerToken is about how long a token is.
const bytesPerToken = 4

// streamed counts the bytes that models said in a stream.
func streamed(events *Log) (n int64, err error) {
	err = events.Lines(func(line []byte) error {
		ev, err := responses.DecodeEvent(line)
		if err != nil {
			return errStop
		}
		n += int64(len(ev.Delta))
		return nil
	})
	if err == errStop {
		err = nil
	}
	return n, err
}

// resumeStream returns an emitter that goes on where the log ends. A power cut can damage lines that were not synced in
// any place, so the log is cut at the first event that cannot be read; no client has seen it. A log without a readable
// stream is begun anew.
func resumeStream(h Header, log *Log, sink responses.Sink) (*responses.Emitter, error) {
	var good, count int64
	var err error
	em, broken := responses.Resume(func(yield func(responses.Event) bool) {
		err = log.Lines(func(line []byte) error {
			ev, err := responses.DecodeEvent(line)
			if err != nil || ev.SequenceNumber != count || !yield(ev) {
				return errStop
			}
			good, count = good+int64(len(line))+1, count+1
			return nil
		})
	}, sink)
	if err != nil && err != errStop {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	if broken != nil {
		good = 0
	}
	if err == errStop || broken != nil && count > 0 {
		if err := log.cut(good); err != nil {
			return nil, err
		}
	}
	if broken != nil {
		return responses.NewEmitter(h.Response, sink)
	}
	return em, nil
}

// settleRecord completes turn.json, or makes it again from the header when the
// crash came before it was on disk.
func (s *Store) settleRecord(h Header, resp responses.Response, totals Totals, said []turns.Input, now time.Time) (
	err error) {
	rec := turns.NewRecord(h.SessionID, h.TurnID, &h.Response, h.RequestDigest, h.Instance, h.Version, h.CreatedAt)
	rec.Skills, rec.IgnoredTools = h.Skills, h.IgnoredTools
	// Commands could write the old record, so a broken one is ignored.
	if old, err := ReadRecord(h.TurnDir); err == nil && old.TurnID == h.TurnID {
		if old.Status == resp.Status && old.Status.Terminal() {
			return nil
		}
		rec = *old
	}
	totals.settle(&rec, &resp, now)
	if u := resp.Usage; u != nil && u.Estimated {
		rec.ProviderAttempts = cmp.Or(rec.ProviderAttempts, &turns.ProviderTimeline{RequestedModelRef: rec.Model})
		rec.ProviderAttempts.AggregatedTokenUsage = turns.Tokens(*u)
	}
	rec.Inputs = said
	if rec.Artifacts, err = s.artifacts(h.TurnDir); err != nil {
		return err
	}
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	if err := s.writeFailure(h.TurnDir, &rec); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(h.TurnDir, turns.RecordFile), s.Conceal(s.secrets.JSON(data, s.words)),
		durable.Private)
}

// errStop ends a reading of lines early.
var errStop = errors.New("stop")
