package home

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holon/responses"
	"holon/state"
	"holon/state/ledger"
)

// maxEpisodeLine is more than the line of an episode has, in bytes.
const maxEpisodeLine = 64 << 10

// ExportEpisodes brings the export of an agent's episodes up to date, ledger/context_episodes.jsonl in its private
// directory: after returns the episodes that come after the one with a number, a few at a time. An export that is
// missing, broken off, or of another ledger is made anew.
func (h *Homes) ExportEpisodes(agentID string, after func(number int64) ([]ledger.Episode, error)) (err error) {
	if err := state.CheckAgentID(agentID); err != nil {
		return err
	}
	f, err := openExport(filepath.Join(h.opts.Home.AgentPrivateDir(agentID), "ledger"))
	if err != nil {
		return fmt.Errorf("export episodes: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := lastEpisode(f)
	if err != nil {
		return err
	}
	if end.Number > 0 { // a ledger that was restored may have another one in its place
		is, err := after(end.Number - 1)
		if err != nil {
			return err
		}
		if len(is) == 0 || is[0].ID != end.ID {
			if end, err = startAnew(f); err != nil {
				return err
			}
		}
	}
	last := end.Number
	for {
		list, err := after(last)
		if err != nil || len(list) == 0 {
			return err
		}
		var lines bytes.Buffer
		for _, e := range list {
			line, err := responses.Marshal(e)
			if err != nil {
				return fmt.Errorf("export episodes: %w", err)
			}
			lines.Write(append(line, '\n'))
			last = e.Number
		}
		if _, err := f.Write(lines.Bytes()); err != nil {
			return fmt.Errorf("export episodes: %w", err)
		}
	}
}

// openExport opens the export in a directory, for which no link stands: what it leads to is not the host's to
// overwrite.
func openExport(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	path := filepath.Join(dir, "context_episodes.jsonl")
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory; remove it", dir)
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file; remove it", path)
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}

// lastEpisode is the last episode of an export, the zero one of an empty one. One that does not end with an episode is
// emptied.
func lastEpisode(f *os.File) (e ledger.Episode, err error) {
	info, err := f.Stat()
	if err != nil {
		return e, fmt.Errorf("read exported episodes: %w", err)
	}
	end := make([]byte, min(info.Size(), maxEpisodeLine))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return e, fmt.Errorf("read exported episodes: %w", err)
	}
	whole, complete := bytes.CutSuffix(end, []byte("\n"))
	if complete && json.Unmarshal(whole[bytes.LastIndexByte(whole, '\n')+1:], &e) == nil && e.Number > 0 {
		return e, nil
	}
	return startAnew(f)
}

// startAnew empties an export.
func startAnew(f *os.File) (none ledger.Episode, err error) {
	if err := f.Truncate(0); err != nil {
		return none, fmt.Errorf("make exported episodes anew: %w", err)
	}
	return none, nil
}
