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

// How is the state in which a turn was found that another process began, or was about to begin.
type How string

// What a turn can be found as (docs/explanation/runtime.md, "Recovery").
const (
	Live       How = "live"        // agentd made or reported its end
	Lost       How = "lost"        // its container is gone, and no process saw its end
	NeverBegun How = "never_begun" // agentd has never accepted it
)

// Found is what became of a turn. End is not set for NeverBegun.
type Found struct {
	How How
	End runner.End
}

// seen completes an end that this process saw.
func (s *Session) seen(e *runner.End) {
	m := s.manager
	if err := m.recorded(s.key, e); err != nil {
		m.Log.Warn("a turn's record cannot be read", "session", s.key, "turn", e.TurnID, "err", err)
	}
	e.Usage = turnfiles.Plausible(e.Response.Usage)
	if e.Status == responses.StatusCompleted {
		e.Model = cmp.Or(e.Model, e.Response.Model)
	}
	if s.record.Made != nil { // whose stored responses other turns continue
		s.seal()
	}
}

// Unseen is the end of a turn of which e has what this process saw, and whose container is gone: it is lost, whatever
// its files claim, unless the host ended it.
func (m *Manager) Unseen(ctx context.Context, key Key, e runner.End) Found {
	err := m.recorded(key, &e)
	if errors.Is(err, fs.ErrNotExist) && e.Record == nil && e.Response == nil {
		return Found{How: NeverBegun}
	}
	if err != nil {
		m.Log.Warn("how a turn ended cannot be read", "session", key, "turn", e.TurnID, "err", err)
	}
	e.Settle(context.Cause(ctx), m.Secrets)
	if e.Record != nil {
		e.ResponseID = cmp.Or(e.ResponseID, e.Record.ResponseID)
	}
	if _, err := os.Lstat(m.sealFile(key)); err == nil { // what is stored of it could be forged
		e.ResponseID = ""
	}
	return Found{How: Lost, End: e}
}

// HasEnd reports whether a turn has an end in the files of its container, which is asked for only then.
func (m *Manager) HasEnd(key Key, turnID string) bool {
	_, end, err := turnfiles.Read(m.SessionDir(key), turnID)
	return err == nil && end != nil
}

// recorded reads what agentd recorded of a turn. fs.ErrNotExist says that it has never accepted it.
func (m *Manager) recorded(key Key, e *runner.End) error {
	rec, _, err := turnfiles.Read(m.SessionDir(key), e.TurnID)
	if rec == nil {
		return err
	}
	e.Record, e.Usage = rec, turnfiles.Plausible(rec.Usage)
	if p := rec.ProviderAttempts; p != nil {
		e.Model = p.WinningModelRef
	}
	return err
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
func (m *Manager) sealFile(key Key) string { return filepath.Join(m.Dir(key), "responses.json") }

// seal keeps what is stored now as what was seen, or drops the digests where commands cannot write it.
func (s *Session) seal() {
	err := error(nil)
	if seal := s.manager.sealFile(s.key); s.Separated() {
		err = files.RemoveAll(seal)
	} else {
		err = turnfiles.Seal(s.manager.SessionDir(s.key), seal)
	}
	if err != nil {
		s.manager.Log.Warn("what is stored of a conversation cannot be checked later", "session", s.key, "err", err)
	}
}

// Changed names a stored response that is not as it was seen, "" if there is none.
func (m *Manager) Changed(key Key) (string, error) {
	return turnfiles.Unseal(m.SessionDir(key), m.sealFile(key))
}
