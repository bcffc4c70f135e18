package agentd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/agentd/record"
	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// A turn whose directory the caller chose is found by a note in the state
// directory; all others by their id.

// remember notes where a turn is whose directory does not follow from its id.
func (s *Server) remember(turnID, dir string) error {
	if dir == s.defaultDir(turnID) {
		return nil
	}
	notes := filepath.Join(s.cfg.Dirs.State, "turns")
	if err := os.MkdirAll(notes, 0o700); err != nil {
		return fmt.Errorf("remember the turn's directory: %w", err)
	}
	return durable.WriteFile(filepath.Join(notes, turnID), []byte(dir+"\n"), 0o600)
}

// locate returns a turn's directory and record, or nil for an unknown
// turn. A note is only a hint: its turn may have been refused after all.
func (s *Server) locate(turnID string) (dir string, rec *turns.Record, err error) {
	if b, ok := s.broken(turnID); ok {
		return b.dir, &b.record, nil
	}
	dirs := []string{s.defaultDir(turnID)}
	if data, err := os.ReadFile(filepath.Join(s.cfg.Dirs.State, "turns", turnID)); err == nil {
		dirs = append(dirs, strings.TrimSuffix(string(data), "\n"))
	}
	for _, dir := range dirs {
		rec, err := record.ReadRecord(dir)
		switch {
		case err == nil && rec.TurnID == turnID:
			return dir, rec, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", nil, responses.Internal("the turn's record cannot be read", err)
		}
	}
	return "", nil, nil
}

func (s *Server) defaultDir(turnID string) string {
	return filepath.Join(s.cfg.Dirs.Output, "turns", turnID)
}
