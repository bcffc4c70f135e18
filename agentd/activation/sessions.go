package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holon/internal/durable"
	"holon/skills"
)

// Bounds: sessions that are remembered, skills of one, and bytes of its file.
const (
	maxSessions = 4096
	maxActive   = 64
	maxFile     = 256 << 10
)

const schema = "holon.session-skills/1"

// Active is a skill that a session has in use.
type Active struct {
	SkillID          string       `json:"skill_id"`
	Name             string       `json:"name"`
	Scope            skills.Scope `json:"scope"`
	Path             string       `json:"path"` // of its SKILL.md
	ActivationSource string       `json:"activation_source"`
	// session_active, or restored when an earlier process noted it
	ActivationState string `json:"activation_state"`
	Turn            string `json:"activated_at_turn"`
}

// file is what is kept of a session, at <dir>/<session_id>.json.
type file struct {
	Schema    string   `json:"schema"`
	SessionID string   `json:"session_id"`
	Instance  string   `json:"instance"` // the process that wrote it
	Skills    []Active `json:"skills"`
}

// Sessions keeps the skills that sessions have in use. It may be used by turns of
// different sessions at once.
type Sessions struct {
	Dir      string // made when there is something to keep
	Instance string // names this process
}

// Load returns the skills that a session has in use, in the order of their use.
// What cannot be read is an error, and the session goes on without.
func (s Sessions) Load(sessionID string) ([]Active, error) {
	data, err := durable.ReadFile(s.path(sessionID), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var f file
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && (f.Schema != schema || f.SessionID != sessionID || len(f.Skills) > maxActive) {
		err = errors.New("it is not what was written")
	}
	if err != nil {
		return nil, fmt.Errorf("read the skills of session %s: %w", sessionID, err)
	}
	for i := range f.Skills {
		f.Skills[i].ActivationState = sessionActive
		if f.Instance != s.Instance {
			f.Skills[i].ActivationState = restored
		}
	}
	return f.Skills, nil
}

// Promote makes the skills that a completed turn used session_active. It is
// durable when it returns.
func (s Sessions) Promote(sessionID, turnID string, used []skills.Skill) error {
	if len(used) == 0 {
		return nil
	}
	list, err := s.Load(sessionID)
	if err != nil {
		list = nil // it is replaced by one that can be read
	}
	for _, skill := range used {
		a := Active{SkillID: skill.ID(), Name: skill.Name, Scope: skill.Scope, Path: skill.Path,
			ActivationSource: sourceCatalog, ActivationState: sessionActive, Turn: turnID}
		list = slices.DeleteFunc(list, func(known Active) bool { return known.SkillID == a.SkillID })
		list = append(list, a)
	}
	list = list[max(0, len(list)-maxActive):]
	data, err := json.Marshal(file{Schema: schema, SessionID: sessionID, Instance: s.Instance, Skills: list})
	if err == nil {
		err = os.MkdirAll(s.Dir, 0o770)
	}
	if err == nil {
		err = durable.WriteFile(s.path(sessionID), data, durable.Private)
	}
	if err == nil {
		err = s.prune()
	}
	if err != nil {
		return fmt.Errorf("keep the skills of session %s: %w", sessionID, err)
	}
	return nil
}

// path is the file of a session, whose id was checked.
func (s Sessions) path(sessionID string) string { return filepath.Join(s.Dir, sessionID+".json") }

// prune forgets all but the youngest sessions when there are too many.
func (s Sessions) prune() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) <= maxSessions {
		return err
	}
	at := make(map[string]time.Time, len(entries))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			at[entry.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return at[a.Name()].Compare(at[b.Name()]) })
	for _, old := range entries[:len(entries)-maxSessions*3/4] {
		if err := os.Remove(filepath.Join(s.Dir, old.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
