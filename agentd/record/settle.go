package record

import (
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

// Open returns the ids of the responses whose turns are not over, or could not be settled yet. When a process starts,
// they are those that an earlier one left in flight.
func (s *Store) Open() ([]string, error) { return s.list("open") }

// SettleTurn ends the turn of the response id, which is not running any more, because of cause, unless its stream has
// its end already; nil is the end of an earlier process. The stream gets a response.failed, record and trajectory are
// completed, and nothing is run again. It may be repeated until it succeeds. It returns the turn's id, and ErrNotFound
// for a turn that was never acknowledged.
func (s *Store) SettleTurn(id string, cause *responses.Error, now func() time.Time) (turnID string, err error) {
	trajectory, stored, err := s.resume(id)
	if err != nil {
		return "", fmt.Errorf("settle response %s: %w", id, err)
	}
	h := stored.Header
	if cause == nil {
		cause = &interrupted
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
	k, err := resumeJournal(h)
	if err != nil {
		return err
	}
	defer k.journal.Close()
	if !k.stream.Ended() {
		var usage responses.Usage // none where the process lives: readers got an end without
		if cause.Code == responses.CodeInterrupted {
			usage = k.Spent(k.text)
		}
		if err := k.stream.Fail(cause, usage); err != nil {
			return err
		}
	}
	resp := k.stream.Response()
	if err := s.endFacts(k, stored, resp, now); err != nil {
		return err
	}
	t.facts = k.Sequence
	// The stream decides: a final response without a terminal event was never shown to a client.
	if stored.Response == nil || stored.Response.Status != resp.Status {
		if err := t.Finish(resp); err != nil {
			return err
		}
		if err := t.sync(); err != nil {
			return err
		}
	}
	return s.settleRecord(h, resp, &k.Progress, stored.Interjected, now)
}

// settleRecord completes turn.json, or makes it again from the header when the
// crash came before it was on disk.
func (s *Store) settleRecord(h Header, resp responses.Response, progress *turns.Progress, inputs []turns.Input,
	now time.Time) (err error) {
	rec := turns.NewRecord(h.SessionID, h.TurnID, &h.Response, h.RequestDigest, h.Instance, h.Version, h.CreatedAt)
	rec.Skills, rec.IgnoredTools = h.Skills, h.IgnoredTools
	// Commands could write the old record, so a broken one is ignored.
	if old, err := ReadRecord(h.TurnDir); err == nil && old.TurnID == h.TurnID {
		if old.Status == resp.Status && old.Status.Terminal() {
			return nil
		}
		rec = *old
	}
	progress.Settle(&rec, &resp, now)
	rec.Inputs = inputs
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
