package sessions

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/turnfiles"
	"holon/state/files"
)

// seen completes an end that this process saw.
func (s *Session) seen(e *runner.End) {
	m := s.manager
	rec, err := turnfiles.ReadRecord(m.SessionDir(s.key), e.TurnID)
	if rec != nil {
		ofRecord(e, rec)
	}
	if err != nil {
		m.Log.Warn("a turn's record cannot be read", "session", s.key, "turn", e.TurnID, "err", err)
	}
	ofResponse(e)
	if s.record.Made != nil { // whose stored responses other turns continue
		s.seal(e.Response.ID)
	}
}

// ofResponse takes what the final response of a turn says better than its record.
func ofResponse(e *runner.End) {
	e.Usage = turnfiles.Plausible(e.Response.Usage)
	if e.Status == responses.StatusCompleted {
		e.Model = cmp.Or(e.Model, e.Response.Model)
	}
}

// Unseen is the end of a turn of which e has what this process saw, and whose container is gone. The end that its files
// have is its end if they are trusted, because agentd alone could write them; else the turn is lost, whatever they
// claim, unless the host ended it.
func (m *Manager) Unseen(ctx context.Context, key Key, e runner.End, trusted bool) runner.End {
	end, err := m.recorded(key, &e)
	switch {
	case errors.Is(err, fs.ErrNotExist) && e.Record == nil && e.Response == nil:
		if e.ResponseID = turnfiles.Accepted(m.SessionDir(key), e.TurnID); e.ResponseID == "" {
			e.NotBegun = true
			return e
		}
	case err != nil:
		m.Log.Warn("how a turn ended cannot be read", "session", key, "turn", e.TurnID, "err", err)
	case trusted && end != nil:
		e.Response, e.Err = end, nil
	default:
		e.Claimed = end
	}
	e.Settle(context.Cause(ctx), m.Secrets)
	if e.Err == nil {
		ofResponse(&e)
		return e
	}
	if e.Record != nil {
		e.ResponseID = cmp.Or(e.ResponseID, e.Record.ResponseID)
	}
	if _, err := os.Lstat(m.sealFile(key)); err == nil && key.Kind() != Conversations {
		e.ResponseID = "" // what is stored of it could be forged; what clients continue is theirs to say
	}
	return e
}

// recorded reads what agentd recorded of a turn, and the final response that its files have, if they have one.
// fs.ErrNotExist says that it has never accepted the turn.
func (m *Manager) recorded(key Key, e *runner.End) (*responses.Response, error) {
	rec, end, err := turnfiles.Read(m.SessionDir(key), e.TurnID)
	if rec == nil {
		return nil, err
	}
	ofRecord(e, rec)
	return end, err
}

func ofRecord(e *runner.End, rec *turns.Record) {
	e.Record, e.Usage = rec, turnfiles.Plausible(rec.Usage)
	if p := rec.ProviderAttempts; p != nil {
		e.Model = p.WinningModelRef
	}
}

// Replay reports to watch what the disk has of a turn that is over, also what watch has seen.
func (m *Manager) Replay(ctx context.Context, key Key, turnID string, watch runner.Observer) {
	turn, err := turnfiles.Open(m.SessionDir(key), turnID)
	if err != nil {
		return // the turn has no directory, and no journal
	}
	defer turn.Close()
	ctx = context.WithoutCancel(ctx) // however the turn was ended
	for line, err := range turn.Lines(ctx, turns.JournalFile, func() bool { return false }) {
		if err != nil {
			m.Log.Warn("the journal of a turn cannot be read", "session", key, "turn", turnID, "err", err)
			return
		}
		e, err := turns.DecodeEntry(line)
		switch {
		case err != nil:
		case e.Stream != nil:
			watch.Event(*e.Stream)
		default:
			watch.Fact(*e.Runtime)
		}
	}
}

// sealFile has the digests of the stored responses that were seen, of a session whose commands could write them.
func (m *Manager) sealFile(key Key) string { return filepath.Join(m.Dir(key), "responses.sha256") }

// seal keeps a response, or all that is stored with "", as what was seen, or drops the digests where commands cannot
// write it.
func (s *Session) seal(responseID string) {
	err, seal, dir := error(nil), s.manager.sealFile(s.key), s.manager.SessionDir(s.key)
	switch {
	case s.Separated():
		err = files.RemoveAll(seal)
	case responseID == "":
		err = turnfiles.Seal(dir, seal)
	default: // of a conversation one without a digest stays
		err = turnfiles.SealOne(dir, seal, responseID, s.key.kind != Conversations)
	}
	if err != nil {
		s.manager.Log.Warn("what is stored of a conversation cannot be checked later", "session", s.key, "err", err)
	}
}

// Changed names a stored response that is not as it was seen, "" if there is none. Those of an agent that were not seen
// are removed. A client may have read those of a conversation while no holon watched.
func (m *Manager) Changed(key Key) (string, error) {
	return turnfiles.Unseal(m.SessionDir(key), m.sealFile(key), key.Kind() == Conversations)
}
