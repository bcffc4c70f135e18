package activation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/responses"
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

// Sessions keeps the skills that sessions have in use. It is safe for
// concurrent use by turns of different sessions.
type Sessions struct {
	dir      string
	instance string

	mu    sync.Mutex
	known int // files in dir, at most
}

// OpenSessions keeps them in dir, which is made when there is something to
// keep. instance names this process. Of too many sessions the oldest are
// forgotten.
func OpenSessions(dir, instance string) (*Sessions, error) {
	s := &Sessions{dir: dir, instance: instance}
	if err := s.prune(maxSessions); err != nil {
		return nil, fmt.Errorf("open the skills of sessions: %w", err)
	}
	return s, nil
}

// Load returns what a session has in use, the latest last. A session that is not
// known has nothing. A damaged file is an error, and the session goes on
// without.
func (s *Sessions) Load(sessionID string) ([]Active, error) {
	f, err := s.read(sessionID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the skills of session %s: %w", sessionID, err)
	}
	for i := range f.Skills {
		f.Skills[i].ActivationState = sessionActive
		if f.Instance != s.instance {
			f.Skills[i].ActivationState = restored
		}
	}
	return f.Skills, nil
}

// Promote makes the skills that a completed turn used session_active. It is
// durable when it returns.
func (s *Sessions) Promote(sessionID, turnID string, used []skills.Skill) error {
	if len(used) == 0 {
		return nil
	}
	if err := responses.CheckID("session_id", sessionID); err != nil {
		return err
	}
	before, err := s.Load(sessionID)
	if err != nil {
		before = nil // it is replaced by one that can be read
	}
	after := slices.Clone(before)
	for _, skill := range used {
		a := Active{SkillID: skill.ID(), Name: skill.Name, Scope: skill.Scope, Path: skill.Path,
			ActivationSource: sourceCatalog, ActivationState: sessionActive, Turn: turnID}
		after = slices.DeleteFunc(after, func(known Active) bool { return known.SkillID == a.SkillID })
		after = append(after, a)
	}
	if over := len(after) - maxActive; over > 0 {
		after = after[over:]
	}
	return s.write(file{Schema: schema, SessionID: sessionID, Instance: s.instance, Skills: after})
}

func (s *Sessions) path(sessionID string) string { return filepath.Join(s.dir, sessionID+".json") }

func (s *Sessions) read(sessionID string) (*file, error) {
	s.mu.Lock()
	none := s.known == 0
	s.mu.Unlock()
	if none || responses.CheckID("session_id", sessionID) != nil {
		return nil, fs.ErrNotExist
	}
	f, err := os.OpenFile(s.path(sessionID), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return decodeFile(data, sessionID)
}

func decodeFile(data []byte, sessionID string) (*file, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Schema != schema || f.SessionID != sessionID || len(f.Skills) > maxActive {
		return nil, errors.New("it is not what was written")
	}
	return &f, nil
}

func (s *Sessions) write(f file) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode the skills of session %s: %w", f.SessionID, err)
	}
	if err := os.MkdirAll(s.dir, 0o770); err != nil {
		return fmt.Errorf("keep the skills of session %s: %w", f.SessionID, err)
	}
	if err := durable.WriteFile(s.path(f.SessionID), data, durable.Private); err != nil {
		return fmt.Errorf("keep the skills of session %s: %w", f.SessionID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known++; s.known <= maxSessions {
		return nil
	}
	return s.prune(maxSessions * 3 / 4)
}

// prune forgets all but the youngest sessions, and what a crash left half
// written. The caller holds the lock, or has not published s yet.
func (s *Sessions) prune(keep int) error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	type aged struct {
		name string
		at   time.Time
	}
	var list []aged
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasSuffix(entry.Name(), ".json") {
			continue
		}
		list = append(list, aged{entry.Name(), info.ModTime()})
	}
	s.known = len(list)
	if len(list) <= keep {
		return nil
	}
	slices.SortFunc(list, func(a, b aged) int { return a.at.Compare(b.at) })
	for _, old := range list[:len(list)-keep] {
		if err := os.Remove(filepath.Join(s.dir, old.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.known = keep
	return nil
}
