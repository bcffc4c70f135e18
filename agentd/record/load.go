package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"holon/internal/durable"
	"holon/responses"
)

// Load reads a committed response. It returns ErrNotFound when there is none.
func (s *Store) Load(id string) (*Stored, error) {
	if responses.CheckID("response_id", id) != nil {
		return nil, ErrNotFound
	}
	stored := &Stored{}
	if _, err := stored.read(s.donePath(id)); err != nil {
		return nil, err
	}
	return stored, nil
}

// Chain returns the items of the response id and of all its ancestors, oldest
// first, each with its input before its output, and the session of id (Open
// Responses, "previous_response_id"). It returns ErrNotFound when id is not
// stored or any link is missing: a chain with a hole would silently change
// meaning. The items are shared: they must not be changed.
func (s *Store) Chain(id string) (items []responses.Item, session string, err error) {
	if responses.CheckID("response_id", id) != nil {
		return nil, "", ErrNotFound
	}
	if s.catalog.isHidden(id) {
		return nil, "", ErrNotFound
	}
	if items, session, ok := s.cache.get(id); ok {
		return items, session, nil
	}
	links, items, err := s.links(id)
	if err != nil {
		return nil, "", err
	}
	parent := links[len(links)-1].Header.PreviousResponseID
	for _, stored := range slices.Backward(links) {
		l := link{id: stored.Header.ResponseID, last: stored.last(),
			items: slices.Concat(stored.History, stored.Input, stored.Items), bytes: stored.size}
		l.bytes += itemOverhead * int64(len(l.items))
		items = append(items, l.items...)
		s.cache.extend(parent, l)
		parent = l.id
	}
	return slices.Clip(items), links[0].Header.SessionID, nil
}

// links reads the response id and its ancestors up to the first whose
// conversation is in memory, latest first. It returns that conversation as well.
func (s *Store) links(id string) (links []*Stored, before []responses.Item, err error) {
	for at := id; ; {
		stored := &Stored{}
		_, err := stored.read(s.donePath(at))
		if errors.Is(err, ErrNotFound) && len(links) > 0 { // deleted, but not for us
			_, err = stored.read(s.deletedPath(at))
		}
		if err != nil {
			return nil, nil, err
		}
		if stored.Header.ResponseID != at {
			return nil, nil, fmt.Errorf("read trajectory %s: %w: it is that of another response", at, errDamaged)
		}
		s.addHidden(stored.Hidden)
		stored.Response = nil // a chain may be long, and needs none
		if links = append(links, stored); len(links) > maxChain {
			return nil, nil, fmt.Errorf("the chain of response %s is longer than %d", id, maxChain)
		}
		if at = stored.Header.PreviousResponseID; at == "" {
			return links, nil, nil
		}
		if before, _, ok := s.cache.get(at); ok {
			return links, before, nil
		}
		if responses.CheckID("previous_response_id", at) != nil {
			return nil, nil, ErrNotFound
		}
	}
}

// maxChain bounds how far a chain is followed; it also ends a cycle that a
// damaged store could hold.
const maxChain = 100_000

// resume opens the trajectory of an interrupted turn to finish it and returns its content. A crash can damage the lines
// behind the last synced one, so the file is cut at the first line that cannot be read. If that is the header, the turn
// was never acknowledged: the file is removed and ErrNotFound returned.
func (s *Store) resume(id string) (*trajectory, *Stored, error) {
	path := s.openPath(id)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("resume trajectory: %w", err)
	}
	t := &trajectory{store: s, header: Header{ResponseID: id}, file: f}
	whole, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resume trajectory: %w", errors.Join(err, f.Close()))
	}
	stored := &Stored{}
	good, err := stored.read(path)
	if errors.Is(err, errDamaged) {
		if stored.Header.ResponseID == "" {
			return nil, nil, errors.Join(ErrNotFound, t.Discard())
		}
		err = f.Truncate(good)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	s.addHidden(stored.Hidden)
	t.header, t.size, t.given = stored.Header, good, len(stored.History)+len(stored.Input)
	t.items = slices.Concat(stored.History, stored.Input, stored.Items)
	t.name(t.items)
	return t, stored, nil
}

// errDamaged marks a trajectory that cannot be read.
var errDamaged = errors.New("the file is damaged")

// read reads a trajectory. After errDamaged, s holds what came before the line
// that makes no sense, which begins at the offset good.
func (s *Stored) read(path string) (good int64, err error) {
	f, err := durable.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("open trajectory: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("read trajectory %s: %w", filepath.Base(path), err)
	}
	s.size = info.Size()
	started := make(map[string]*responses.ToolCall)
	scan := bufio.NewScanner(f)
	scan.Buffer(make([]byte, 0, 4<<10), maxStoredLine)
	for n := 1; (n == 1 || !s.headOnly) && scan.Scan(); n++ {
		if err := s.add(scan.Bytes(), started); err != nil {
			return good, fmt.Errorf("read trajectory %s, line %d: %w: %w", filepath.Base(path), n, errDamaged, err)
		}
		good += int64(len(scan.Bytes())) + 1
	}
	if err := scan.Err(); err != nil {
		return good, fmt.Errorf("read trajectory %s: %w", filepath.Base(path), err)
	}
	if s.Header.ResponseID == "" {
		return good, fmt.Errorf("read trajectory %s: %w: it has no header", filepath.Base(path), errDamaged)
	}
	return good, nil
}

// add takes in one line. started holds the calls that have no result yet; a call without a result is shown as
// interrupted at the end.
func (s *Stored) add(data []byte, started map[string]*responses.ToolCall) (err error) {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	if l.Interjected != nil {
		s.Interjected = withInput(s.Interjected, *l.Interjected)
	}
	switch {
	case l.Header != nil:
		s.Header = *l.Header
	case l.History != nil:
		s.History, err = appendItem(s.History, l.History)
	case l.Input != nil:
		s.Input, err = appendItem(s.Input, l.Input)
	case l.Started != nil:
		err = s.start(l.Started, started)
	case l.Item != nil:
		err = s.finish(l.Item, started)
	case l.Hidden != nil:
		s.Hidden = append(s.Hidden, l.Hidden...)
	case l.Facts > 0:
		s.Facts = l.Facts
	case l.Response != nil:
		s.Response = l.Response
	case l.Continued:
		s.Continued = true
	case l.Interjected != nil: // and not told yet
	default:
		err = errors.New("an empty line")
	}
	return err
}

func appendItem(items []responses.Item, raw json.RawMessage) ([]responses.Item, error) {
	item, err := responses.DecodeItem(raw)
	if err != nil {
		return items, err
	}
	return append(items, item), nil
}

// start adds a call that was about to run.
func (s *Stored) start(raw json.RawMessage, started map[string]*responses.ToolCall) error {
	item, err := responses.DecodeItem(raw)
	if err != nil {
		return err
	}
	call, ok := item.(*responses.ToolCall)
	if !ok {
		return fmt.Errorf("a started %s", item.ItemType())
	}
	call.Status, call.Output = responses.ItemIncomplete, responses.InterruptedCall
	started[call.ID] = call
	s.Items = append(s.Items, call)
	return nil
}

// finish adds an item that the turn produced. A finished call takes the place of the started one.
func (s *Stored) finish(raw json.RawMessage, started map[string]*responses.ToolCall) error {
	item, err := responses.DecodeItem(raw)
	if err != nil {
		return err
	}
	if call, ok := item.(*responses.ToolCall); ok && started[call.ID] != nil {
		*started[call.ID] = *call
		delete(started, call.ID)
		return nil
	}
	s.Items = append(s.Items, item)
	return nil
}
