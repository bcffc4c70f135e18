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
	note := s.note(turnID)
	if err := os.MkdirAll(filepath.Dir(note), 0o770); err != nil {
		return fmt.Errorf("remember the turn's directory: %w", err)
	}
	return durable.WriteFile(note, []byte(dir+"\n"), durable.Private)
}

func (s *Server) note(turnID string) string { return filepath.Join(s.cfg.Dirs.State, "turns", turnID) }

// noted returns the directory that remember noted for a turn, if it did.
func (s *Server) noted(turnID string) (dir string, ok bool) {
	data, err := os.ReadFile(s.note(turnID))
	return strings.TrimSuffix(string(data), "\n"), err == nil
}

// locate returns a turn's directory and record, or nil for an unknown
// turn. A note is only a hint: its turn may have been refused after all.
func (s *Server) locate(turnID string) (dir string, rec *turns.Record, err error) {
	if b, ok := s.broken(turnID); ok {
		return b.dir, &b.record, nil
	}
	dirs := []string{s.defaultDir(turnID)}
	if noted, ok := s.noted(turnID); ok {
		dirs = append(dirs, noted)
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

// checkDir refuses the directory of a turn that is about to begin if it is the root of all, or another turn's, or
// inside one or around one. The only turn of a process may have the root. The caller holds s.placing until the turn is
// on disk.
func (s *Server) checkDir(turnID, dir string, only bool) error {
	if dir != s.defaultDir(turnID) && !(only && dir == s.outputRoot) {
		if err := s.checkAround(dir); err != nil {
			return err
		}
	}
	return checkInside(dir)
}

// checkAround refuses a directory that is a root of turns, or lies inside one of a turn.
func (s *Server) checkAround(dir string) error {
	if under(dir, filepath.Join(s.outputRoot, "turns")) {
		return taken("it is the directory of all turns")
	}
	for at := filepath.Dir(dir); at != s.outputRoot && under(s.outputRoot, at); at = filepath.Dir(at) {
		if isTurnDir(at) {
			return taken("it lies inside " + at + ", which is another turn's")
		}
	}
	return nil
}

// checkInside refuses a directory that holds one of a turn. That it is not a turn's
// itself is for the record to find out.
func checkInside(dir string) error {
	looked := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && path != dir && isTurnDir(path):
			return taken("it holds " + path + ", which is another turn's")
		}
		if looked++; looked > maxLooked {
			return taken("it holds too many files to find out whether other turns are among them")
		}
		return nil
	})
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e
	}
	if err != nil {
		return recordError(fmt.Errorf("examine the output directory: %w", err))
	}
	return nil
}

// maxLooked bounds the entries of an existing output directory that are looked at.
const maxLooked = 10_000

// isTurnDir reports whether a turn has begun in dir.
func isTurnDir(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, turns.JournalFile))
	return err == nil
}

func taken(why string) error {
	e := responses.Invalid("holon.output_dir", responses.CodeInvalidValue, "the output directory cannot be used: "+why)
	e.Hint = "choose an empty directory of its own for each turn"
	return e
}

func (s *Server) defaultDir(turnID string) string {
	return filepath.Join(s.cfg.Dirs.Output, "turns", turnID)
}

// shown is what responses call the directory of a turn.
func (s *Server) shown(dir string) string {
	rel, err := filepath.Rel(s.cfg.Dirs.Output, dir)
	if s.cfg.Dirs.Shown == "" || err != nil {
		return dir
	}
	return filepath.Join(s.cfg.Dirs.Shown, rel)
}
