package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"holon/responses"
)

// Load reads a committed response. It returns ErrNotFound when there is none.
func (s *Store) Load(id string) (*Stored, error) {
	if responses.CheckID("response_id", id) != nil {
		return nil, ErrNotFound
	}
	stored, _, err := readTrajectory(s.donePath(id))
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// Chain returns the items of the response id and of all its ancestors, oldest
// first, each with its input before its output, and the header of id itself
// (Open Responses, "previous_response_id"). It returns ErrNotFound when any
// link is missing: a chain with a hole would silently change meaning.
func (s *Store) Chain(id string) ([]responses.Item, Header, error) {
	var links []*Stored
	size := 0
	for at := id; at != "" || len(links) == 0; {
		stored, err := s.Load(at)
		if err != nil {
			return nil, Header{}, err
		}
		links = append(links, stored)
		size += len(stored.Input) + len(stored.Items)
		at = stored.Header.PreviousResponseID
		if len(links) > maxChain {
			return nil, Header{}, fmt.Errorf("the chain of response %s is longer than %d", id, maxChain)
		}
	}
	items := make([]responses.Item, 0, size)
	for i := len(links) - 1; i >= 0; i-- {
		items = append(items, links[i].Input...)
		items = append(items, links[i].Items...)
	}
	return items, links[0].Header, nil
}

// maxChain bounds how far a chain is followed; it also ends a cycle that a
// damaged store could hold.
const maxChain = 100_000

// unfinished returns the ids of the responses whose turns were never committed.
func (s *Store) unfinished() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "open"))
	if err != nil {
		return nil, fmt.Errorf("list open responses: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".ndjson"); ok && e.Type().IsRegular() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// resume opens the trajectory of an interrupted turn to finish it and returns
// what it holds. What a crash can damage, the lines behind the last that was
// synced, is cut off from the first line that cannot be read. When not even the
// header can, the turn was never acknowledged: the file is removed and
// ErrNotFound returned.
func (s *Store) resume(id string) (*Trajectory, *Stored, error) {
	path := s.openPath(id)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("resume trajectory: %w", err)
	}
	t := &Trajectory{store: s, id: id, file: f}
	whole, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resume trajectory: %w", errors.Join(err, f.Close()))
	}
	stored, good, err := readTrajectory(path)
	if errors.Is(err, errDamaged) {
		if stored.Header.ResponseID == "" {
			return nil, nil, errors.Join(ErrNotFound, t.Discard())
		}
		err = f.Truncate(good)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return t, stored, nil
}

// errDamaged marks a trajectory whose bytes make no sense.
var errDamaged = errors.New("the file is damaged")

// readTrajectory reads a trajectory. After errDamaged, stored holds what came
// before the line that makes no sense, which begins at the offset good.
func readTrajectory(path string) (stored *Stored, good int64, err error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open trajectory: %w", err)
	}
	defer f.Close()
	stored = &Stored{}
	started := make(map[string]*responses.ToolCall)
	scan := bufio.NewScanner(f)
	scan.Buffer(make([]byte, 0, 64<<10), maxStoredLine)
	for n := 1; scan.Scan(); n++ {
		if err := stored.add(scan.Bytes(), started); err != nil {
			return stored, good, fmt.Errorf("read trajectory %s, line %d: %w: %w", filepath.Base(path), n, errDamaged, err)
		}
		good += int64(len(scan.Bytes())) + 1
	}
	if err := scan.Err(); err != nil {
		return stored, good, fmt.Errorf("read trajectory %s: %w", filepath.Base(path), err)
	}
	if stored.Header.ResponseID == "" {
		return stored, good, fmt.Errorf("read trajectory %s: %w: it has no header", filepath.Base(path), errDamaged)
	}
	return stored, good, nil
}

// add takes in one line. started holds the calls that have no result yet; a
// call whose result never came stands at the end as interrupted.
func (s *Stored) add(data []byte, started map[string]*responses.ToolCall) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	switch {
	case l.Header != nil:
		s.Header = *l.Header
	case l.Input != nil:
		item, err := responses.DecodeItem(l.Input)
		if err != nil {
			return err
		}
		s.Input = append(s.Input, item)
	case l.Started != nil:
		item, err := responses.DecodeItem(l.Started)
		if err != nil {
			return err
		}
		call, ok := item.(*responses.ToolCall)
		if !ok {
			return fmt.Errorf("a started %s", item.ItemType())
		}
		call.Status, call.Output = responses.ItemIncomplete, InterruptedCall
		started[call.ID] = call
		s.Items = append(s.Items, call)
	case l.Item != nil:
		item, err := responses.DecodeItem(l.Item)
		if err != nil {
			return err
		}
		if call, ok := item.(*responses.ToolCall); ok && started[call.ID] != nil {
			*started[call.ID] = *call
			delete(started, call.ID)
			return nil
		}
		s.Items = append(s.Items, item)
	case l.Response != nil:
		s.Response = l.Response
	default:
		return errors.New("an empty line")
	}
	return nil
}

// InterruptedCall is what a model is shown as the output of a tool call whose
// process ended before the call did.
const InterruptedCall = responses.InterruptedCall
