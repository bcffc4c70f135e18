package turnfiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// Completion is what the host adds to the files of a turn that were collected, and what it takes out of them.
type Completion struct {
	// Gone is why the container ended before the turn did, nil where the end was seen. Then the stream gets its terminal
	// event, what is open in the facts its end, and turn.json what became of the turn, unless it says so.
	Gone *responses.Error
	// Facts are the host's. What the container's journal claims to be such facts is taken out.
	Facts []turns.RuntimeEvent
	// Secrets are those that the container does not know, such as keys of providers.
	Secrets *redact.Set
}

// ErrUnsettled says that the files make no turn that could be given an end. All else was done.
var ErrUnsettled = errors.New("the turn's record could not be completed")

// Complete completes the files of a turn that were collected into dir, and makes those that hold one kind of entries
// each. It returns the response of a turn that was given its end, else nil. The journal is read an entry at a time,
// however large it is, and replaced at once: a holon that is killed meanwhile leaves the run to be collected again.
func (c Completion) Complete(dir string) (settled *responses.Response, err error) {
	_, err = os.Lstat(filepath.Join(dir, turns.JournalFile))
	some := err == nil
	var unsettled error
	if c.Gone != nil {
		settled, unsettled = c.settle(dir)
	}
	if settled == nil && (some || len(c.Facts) > 0) {
		err = rewrite(dir, c.Secrets, func(j *journal) error { return errors.Join(j.copy(nil), j.facts(c.Facts)) })
		if err != nil {
			return nil, err
		}
	}
	if !c.Secrets.Empty() {
		if err := errors.Join(hide(filepath.Join(dir, turns.RecordFile), c.Secrets),
			hide(filepath.Join(dir, turns.FailureFile), c.Secrets)); err != nil {
			return settled, err
		}
	}
	if unsettled != nil && !errors.Is(unsettled, fs.ErrNotExist) {
		return settled, fmt.Errorf("%w: %w", ErrUnsettled, unsettled)
	}
	return settled, nil
}

// settle gives a turn its end. It never changes a record that has one.
func (c Completion) settle(dir string) (*responses.Response, error) {
	files, err := OpenCollected(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	rec, err := files.record()
	if err != nil || rec.Status.Terminal() {
		return nil, err
	}
	var resp responses.Response
	err = rewrite(dir, c.Secrets, func(j *journal) (err error) {
		if resp, err = j.endStream(rec, c.Gone); err == nil && !j.ended {
			err = j.endFacts(rec, &resp)
		}
		j.progress.Settle(rec, &resp, time.Now())
		return errors.Join(err, j.facts(c.Facts))
	})
	if err != nil {
		return nil, err
	}
	if report := rec.FailureReport(); report != nil { // before the record that refers to it
		data, err := json.MarshalIndent(report, "", "  ")
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, turns.FailureFile), append(data, '\n'), 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	data, err := rec.Encode()
	if err != nil {
		return nil, err
	}
	return &resp, durable.WriteFile(filepath.Join(dir, turns.RecordFile), data, 0o600)
}

// ReadEnd returns the final response of a turn that was collected into dir, nil when its record has no end.
func ReadEnd(dir string) (*responses.Response, error) {
	files, err := OpenCollected(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	_, end, err := files.read()
	return end, err
}

// endStream copies the journal and appends the terminal event of its stream if it lacks it, and returns the final
// response. A turn that ended before its first event was written gets a stream of its own.
func (j *journal) endStream(rec *turns.Record, gone *responses.Error) (responses.Response, error) {
	sink := func(_ string, event []byte) error { return j.write(turns.EntryStream, event) }
	var bad error
	events := 0
	em, err := responses.Resume(func(yield func(responses.Event) bool) {
		bad = j.copy(func(ev responses.Event) bool {
			events++
			j.text += int64(len(ev.Delta))
			return yield(ev)
		})
	}, sink)
	switch {
	case bad != nil:
		err = bad
	case events == 0:
		em, err = newStream(rec, sink)
	}
	spent := j.progress.Spent(j.text)
	if Plausible(&spent) == nil {
		spent, j.progress.Attempts = responses.Usage{}, turns.ProviderTimeline{}
	}
	if err == nil && !em.Ended() {
		err = em.Fail(gone, spent)
	}
	if err != nil {
		return responses.Response{}, err
	}
	return em.Response(), nil
}

// endFacts closes what is open in the facts of a turn that is being settled, and the turn.
func (j *journal) endFacts(rec *turns.Record, resp *responses.Response) error {
	scope := turns.Scope{RuntimeID: rec.Instance, SessionID: rec.SessionID, TurnID: rec.TurnID, Trace: j.progress.Trace}
	if err := j.facts(j.progress.Closing(scope, resp)); err != nil {
		return err
	}
	return j.fact(j.progress.End(scope, rec.CreatedAt, resp, "container_end", turns.ActionIDs(resp.Output)))
}

// Plausible leaves out a usage that cannot be one: it is summed up.
func Plausible(u *responses.Usage) *responses.Usage {
	const most = 1 << 40
	if u == nil || min(u.InputTokens, u.OutputTokens, u.TotalTokens) < 0 || max(u.InputTokens, u.OutputTokens) > most ||
		u.TotalTokens > 2*most {
		return nil
	}
	return u
}

// newStream begins the stream of a turn of which only the record is known.
func newStream(rec *turns.Record, sink responses.Sink) (*responses.Emitter, error) {
	req := responses.NewRequest(rec.Model) // the response echoes its defaults
	if rec.PreviousResponseID != nil {
		req.PreviousResponseID = *rec.PreviousResponseID
	}
	return responses.NewEmitter(responses.NewResponse(rec.ResponseID, rec.Model, rec.CreatedAt.Time().Unix(), req),
		sink)
}
