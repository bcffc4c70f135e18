package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/responses"
)

// ErrNotFound is returned for a response that is not stored.
var ErrNotFound = errors.New("no such stored response")

// maxStoredLine bounds one line of a trajectory: the largest input is 32 MiB
// of file data, escaped.
const maxStoredLine = 96 << 20

// Store keeps the trajectory of every response, one append-only file each:
//
//	<dir>/open/<response_id>.ndjson       while the turn runs
//	<dir>/responses/<response_id>.ndjson  once its final response is in it
//
// The rename from one to the other is the commit. A file that is still under
// open/ when a process starts belongs to a turn that a crash interrupted, so
// recovery looks there and nowhere else, however many turns there ever were.
type Store struct {
	dir  string
	lock *os.File // held as long as the process may write here
}

// Header is the first line of a trajectory: what a turn needs to be settled
// and a chain to be followed.
type Header struct {
	ResponseID         string             `json:"response_id"`
	PreviousResponseID string             `json:"previous_response_id,omitempty"`
	SessionID          string             `json:"session_id"`
	TurnID             string             `json:"turn_id"`
	TurnDir            string             `json:"turn_dir"`
	CreatedAt          time.Time          `json:"created_at"`
	RequestDigest      string             `json:"request_digest"`
	Instance           string             `json:"instance"`
	Version            string             `json:"version"`
	Response           responses.Response `json:"response"` // as it was when the turn was accepted
}

// line is one line of a trajectory. Exactly one field is set.
type line struct {
	Header   *Header             `json:"header,omitempty"`
	Input    json.RawMessage     `json:"input,omitempty"`   // an item of the request
	Started  json.RawMessage     `json:"started,omitempty"` // a tool call that is about to run
	Item     json.RawMessage     `json:"item,omitempty"`    // an item that the turn produced
	Response *responses.Response `json:"response,omitempty"`
}

// Stored is a trajectory read back.
type Stored struct {
	Header   Header
	Input    []responses.Item
	Items    []responses.Item    // what the model said and the tools returned, in order
	Response *responses.Response // nil while the turn is open
}

// ErrInUse is returned by OpenStore when another process has the store.
var ErrInUse = errors.New("another agentd uses this directory; stop it or choose another one")

// OpenStore opens the store in dir, which is absolute, and creates its folders,
// mode 0700. The store belongs to one process at a time: another one would take
// its running turns for crashed ones. A lock of the kernel's says so, which
// ends with the process however that ends.
func OpenStore(dir string) (*Store, error) {
	for _, sub := range []string{"open", "responses"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open response store: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open response store: %w", err)
	}
	switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, ErrInUse), lock.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock response store: %w", err), lock.Close())
	}
	return &Store{dir: dir, lock: lock}, nil
}

// Close gives the store up. No turn may be running.
func (s *Store) Close() error { return s.lock.Close() }

func (s *Store) openPath(id string) string { return filepath.Join(s.dir, "open", id+".ndjson") }
func (s *Store) donePath(id string) string { return filepath.Join(s.dir, "responses", id+".ndjson") }

// Trajectory is the file of a running turn. It belongs to one goroutine.
type Trajectory struct {
	store *Store
	id    string
	file  *os.File
	buf   bytes.Buffer
}

// begin creates the trajectory of a turn with its header and input. It is on
// disk only after Sync.
func (s *Store) begin(h Header, input []responses.Item) (*Trajectory, error) {
	if err := responses.CheckID("response_id", h.ResponseID); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.openPath(h.ResponseID), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create trajectory: %w", err)
	}
	t := &Trajectory{store: s, id: h.ResponseID, file: f}
	err = t.encode(line{Header: &h})
	for _, item := range input {
		if err != nil {
			break
		}
		err = t.encodeItem(item, func(raw json.RawMessage) line { return line{Input: raw} })
	}
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return nil, fmt.Errorf("create trajectory: %w", errors.Join(err, t.Discard()))
	}
	return t, nil
}

// Sync makes what was written durable. The name of the file, and of the turn's
// directory, become durable with it: the file systems of Linux commit the names
// of a new file together with its content. Syncing the directories as well
// would double the time to the first event.
func (t *Trajectory) Sync() error {
	if err := t.file.Sync(); err != nil {
		return fmt.Errorf("sync trajectory: %w", err)
	}
	return nil
}

// Started records durably that a tool call is about to run. If the process
// dies before Add, the chain shows the call as interrupted: it may have had
// effects, and nobody may run it again.
func (t *Trajectory) Started(call *responses.ToolCall) error {
	err := t.encodeItem(call, func(raw json.RawMessage) line { return line{Started: raw} })
	if err == nil {
		err = t.write()
	}
	if err == nil {
		err = syscall.Fdatasync(int(t.file.Fd()))
	}
	if err != nil {
		return fmt.Errorf("record tool call: %w", err)
	}
	return nil
}

// Add records an item that the turn produced. It becomes durable with the
// next Started or Commit.
func (t *Trajectory) Add(item responses.Item) error {
	err := t.encodeItem(item, func(raw json.RawMessage) line { return line{Item: raw} })
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return fmt.Errorf("record item: %w", err)
	}
	return nil
}

// Finish appends the final response and makes the trajectory durable. The turn
// is committed by Publish; in between, a crash leaves a trajectory that
// recovery can complete without guessing.
func (t *Trajectory) Finish(resp responses.Response) error {
	err := t.encode(line{Response: &resp})
	if err == nil {
		err = t.write()
	}
	if err == nil {
		err = syscall.Fdatasync(int(t.file.Fd()))
	}
	if err != nil {
		return fmt.Errorf("record final response: %w", err)
	}
	return nil
}

// Publish moves a finished trajectory to where chains find it, or removes it
// when the response is not to be stored.
func (t *Trajectory) Publish(store bool) error {
	if !store {
		return t.Discard()
	}
	if err := os.Rename(t.store.openPath(t.id), t.store.donePath(t.id)); err != nil {
		return fmt.Errorf("commit response: %w", errors.Join(err, t.file.Close()))
	}
	return t.file.Close()
}

// Close releases the file of a trajectory that stays open on disk.
func (t *Trajectory) Close() error { return t.file.Close() }

// Discard removes the trajectory.
func (t *Trajectory) Discard() error {
	return errors.Join(t.file.Close(), os.Remove(t.store.openPath(t.id)))
}

func (t *Trajectory) encode(l line) error {
	enc := json.NewEncoder(&t.buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(l)
}

func (t *Trajectory) encodeItem(item responses.Item, wrap func(json.RawMessage) line) error {
	raw, err := json.Marshal(item)
	if err != nil {
		return err
	}
	return t.encode(wrap(raw))
}

// write hands the encoded lines to the kernel in one call.
func (t *Trajectory) write() error {
	_, err := t.file.Write(t.buf.Bytes())
	t.buf.Reset()
	if t.buf.Cap() > 1<<20 {
		t.buf = bytes.Buffer{} // one huge input must not pin its buffer for the whole turn
	}
	return err
}

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
const InterruptedCall = "The agent process ended before this call returned. It may have had effects; look before running it again."
