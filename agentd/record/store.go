package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
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
//	<dir>/deleted/<response_id>.ndjson    deleted, but the history of another
//
// The rename from the first to the second is the commit. A file that is still
// under open/ when a process starts belongs to a turn that a crash interrupted,
// so recovery reads that folder only, regardless of the number of stored turns.
//
// A file holds its own turn and names the response before it: history is stored
// once, however many responses continue it. The conversations that were used last are in
// memory, so a turn reads its history from the files only after a restart, or
// when it comes back to an old conversation; each file is then opened once.
type Store struct {
	dir     string
	lock    *os.File // held as long as the process may write here
	runtime string
	untold  Untold
	cache   *conversations
	catalog *catalog
	journal *journal
	secrets *redact.Set      // taken out of all that is written; nil for none
	hidden  redact.Set       // taken out of all that others than the model read; see Turn.Hide
	words   redact.Constants // of the formats that are written; they stay
	wake    chan struct{}    // tells Maintain that there is something to do

	checkpointing sync.Mutex
}

// Header is the first line of a trajectory: what a turn needs to be settled
// and a chain to be followed.
type Header struct {
	ResponseID string `json:"response_id"`
	// in the store, which Response's need not be
	PreviousResponseID string             `json:"previous_response_id,omitempty"`
	SessionID          string             `json:"session_id"`
	ThreadID           string             `json:"thread_id,omitempty"` // Begin finds it where it is ""
	Facts              int64              `json:"facts,omitempty"`     // of the turns of the thread before this one
	Fork               *turns.Fork        `json:"fork,omitempty"`      // of a thread that the turn begins: what it left
	TurnID             string             `json:"turn_id"`
	TurnDir            string             `json:"turn_dir"`
	CreatedAt          time.Time          `json:"created_at"`
	RequestDigest      string             `json:"request_digest"`
	Instance           string             `json:"instance"`
	Version            string             `json:"version"`
	Skills             []string           `json:"skills,omitempty"`
	IgnoredTools       []string           `json:"ignored_tools,omitempty"`
	Response           responses.Response `json:"response"` // as it was when the turn was accepted

	ToolNames []string `json:"-"` // of the server's tools, which redaction leaves alone
}

// line is one line of a trajectory. Exactly one field is set, but for Said, which
// comes with the Item when the model is told it.
type line = lineOf[Header, responses.Response]

// lineOf is a line of which a reader wants more or less of the header and the response.
type lineOf[H, R any] struct {
	Header   *H              `json:"header,omitempty"`
	History  json.RawMessage `json:"history,omitempty"` // an item before the request that is stored nowhere else
	Input    json.RawMessage `json:"input,omitempty"`   // an item of the request
	Started  json.RawMessage `json:"started,omitempty"` // a tool call that is about to run
	Hidden   []string        `json:"hidden,omitempty"`  // what was said that others than the model do not read
	Said     *turns.Input    `json:"said,omitempty"`    // what the user said meanwhile, as it now stands
	Item     json.RawMessage `json:"item,omitempty"`    // an item that the turn produced
	Facts    int64           `json:"facts,omitempty"`   // of the thread, with those of the turn; before the response
	Response *R              `json:"response,omitempty"`

	Continued bool `json:"continued,omitempty"` // after the response: one that was removed since has continued it
}

// Stored is a trajectory read back.
type Stored struct {
	Header   Header
	History  []responses.Item // what came between the previous response and the input, stored nowhere else
	Input    []responses.Item
	Items    []responses.Item    // what the model said and the tools returned, in order
	Said     []turns.Input       // what the user said while the turn ran, in order
	Response *responses.Response // nil while the turn is open
	Facts    int64               // of the thread, with those of the turn; 0 while it is open
	Hidden   []string            // as in line

	Continued bool // as in line

	size  int64 // of the file
	brief bool  // read for a chain: without the response, also in the header
}

// ErrInUse is returned by OpenStore when another process has the store.
var ErrInUse = errors.New("another agentd uses this directory; stop it or choose another one")

// OpenStore opens the store in dir, which is absolute, and creates its folders,
// mode 0700. The store belongs to one process at a time: another one would take
// its running turns for crashed ones. A lock of the kernel's says so, which
// ends with the process however that ends.
func OpenStore(dir string) (*Store, error) { return openStoreIn(dir, bootID()) }

// Hide removes known secrets from everything that is written from now on, here and in the directories of turns. Call it
// before the first write. The constants of the formats that are written stay.
func (s *Store) Hide(secrets *redact.Set, constants redact.Constants) {
	s.secrets, s.words = secrets, constants
}

// Untold returns the facts of tasks and their processes that the turn of scope has to tell and that come after those
// that are known: the class of the newest by process id. noted is called when they are written.
type Untold func(scope turns.Scope, known map[string]string) (facts []turns.RuntimeEvent, noted func())

// Complete sets what knows of tasks before the facts of their turn do. Call it before the first turn is settled.
func (s *Store) Complete(untold Untold) { s.untold = untold }

// lingering is how long the lock of a killed process may outlive it.
const lingering = 2 * time.Second

// lockStore locks the store for this process. A forked child of a killed agentd holds its lock until exec, so lockStore
// retries for a while.
func lockStore(lock *os.File) error {
	for end := time.Now().Add(lingering); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock response store: %w", err)
		case time.Now().After(end):
			return ErrInUse
		}
	}
}

// openStoreIn opens a store in the given run of the kernel.
func openStoreIn(dir, boot string) (*Store, error) {
	for _, sub := range []string{"open", "responses"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open response store: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open response store: %w", err)
	}
	if err := lockStore(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), lock.Close())
	}
	s := &Store{dir: dir, lock: lock, cache: newConversations(maxCached), catalog: newCatalog(),
		journal: newJournal(filepath.Join(dir, "journal"), boot), wake: make(chan struct{}, 1)}
	if err := errors.Join(s.recover(), s.identify()); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	hidden, err := s.list("deleted")
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	for _, id := range hidden {
		s.catalog.hidden[id] = true
	}
	return s, nil
}

// Close gives the store up. No turn may be running, and Maintain has returned.
// Everything is on disk afterwards, without the journal.
func (s *Store) Close() error { return errors.Join(s.checkpoint(), s.lock.Close()) }

func (s *Store) openPath(id string) string { return filepath.Join(s.dir, "open", id+".ndjson") }
func (s *Store) donePath(id string) string { return filepath.Join(s.dir, "responses", id+".ndjson") }
func (s *Store) deletedPath(id string) string {
	return filepath.Join(s.dir, "deleted", id+".ndjson")
}

// trajectory is the file of a running turn. It belongs to one goroutine.
type trajectory struct {
	store  *Store
	header Header
	file   *os.File
	size   int64            // bytes written
	synced int64            // bytes on disk
	fresh  []byte           // the lines that are not on disk yet; of those written none, if a journal takes not as many
	wrote  int              // of fresh: bytes that are written
	items  []responses.Item // the conversation in the file: history, input, added items
	given  int              // of items: those that the turn began with
	facts  int64            // of the thread, with those of the turn, once that is over

	names func() redact.Constants // of tools
}

// begin creates the trajectory of a turn with its header, history and input. It is on disk only after Sync. Until it is
// published or discarded, the response that it continues is kept.
func (s *Store) begin(h Header, history, input []responses.Item) (*trajectory, error) {
	if err := responses.CheckID("response_id", h.ResponseID); err != nil {
		return nil, err
	}
	first, err := s.pin(h)
	if err != nil {
		return nil, err
	}
	var f *os.File
	if err = s.join(&h, first); err == nil {
		f, err = durable.Create(s.openPath(h.ResponseID), os.O_WRONLY|os.O_APPEND)
	}
	if err != nil {
		s.unpin(h)
		return nil, fmt.Errorf("create trajectory: %w", err)
	}
	t := &trajectory{store: s, header: h, file: f}
	t.name(slices.Concat(history, input))
	err = t.encode(line{Header: &h})
	for _, item := range history {
		if err == nil {
			err = t.keep("history", item)
		}
	}
	for _, item := range input {
		if err == nil {
			err = t.keep("input", item)
		}
	}
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return nil, fmt.Errorf("create trajectory: %w", errors.Join(err, t.Discard()))
	}
	t.given = len(t.items)
	return t, nil
}

// name makes the names of the turn's tools, and of those that its conversation has called, known as constants.
func (t *trajectory) name(conversation []responses.Item) {
	t.names = sync.OnceValue(func() redact.Constants {
		names := turns.NamesOfTools(t.header.Response.Tools, conversation)
		return turns.ToolNames(slices.Concat(t.header.ToolNames, names))
	})
}

// clean returns JSON of the turn without known secrets: data itself where there is none.
func (t *trajectory) clean(data []byte) []byte {
	if t.store.secrets.Empty() {
		return data
	}
	return t.store.secrets.JSON(data, t.store.words, t.names())
}

// take returns what was written and is not on disk, for the caller to commit to
// the journal. ok is false when there is nothing, or it was so much that it was
// synced here. The names of the file, and of the turn's directory, become durable
// with it: the file systems of Linux commit the names of a new file together with
// its content.
func (t *trajectory) take() (f frame, ok bool, err error) {
	n := t.size - t.synced
	f = frame{kind: frameWrite, path: t.file.Name(), offset: t.synced, data: t.fresh}
	t.synced, t.fresh, t.wrote = t.size, nil, 0
	if n > maxShared {
		if err := t.file.Sync(); err != nil {
			return frame{}, false, fmt.Errorf("sync trajectory: %w", err)
		}
	}
	return f, n > 0 && n <= maxShared, nil
}

// Sync makes what was written durable.
func (t *trajectory) Sync() error {
	f, ok, err := t.take()
	if err != nil || !ok {
		return err
	}
	if err := t.store.journal.commit(f); err != nil {
		return fmt.Errorf("sync trajectory: %w", err)
	}
	return nil
}

// Started records durably that a tool call is about to run. If the process dies before Add, the chain shows the call as
// interrupted: it may have had effects and must not be run again.
func (t *trajectory) Started(call *responses.ToolCall) error {
	err := t.encodeItem("started", call)
	if err == nil {
		err = t.write()
	}
	if err == nil {
		err = t.Sync()
	}
	if err != nil {
		return fmt.Errorf("record tool call: %w", err)
	}
	return nil
}

// Add records an item that the turn produced. It becomes durable with the
// next Started or Commit.
func (t *trajectory) Add(item responses.Item) error {
	err := t.keep("item", item)
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return fmt.Errorf("record item: %w", err)
	}
	return nil
}

// Finish appends the final response. Once it is durable, a crash leaves a
// trajectory that recovery can complete without guessing; Publish commits it.
func (t *trajectory) Finish(resp responses.Response) error {
	var err error
	if t.facts > 0 {
		err = t.encode(line{Facts: t.facts})
	}
	if err == nil {
		err = t.line("response", func(dst []byte) ([]byte, error) { return t.concealed(dst, resp) })
	}
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return fmt.Errorf("record final response: %w", err)
	}
	return nil
}

// concealed appends a response as others than the model read it.
func (t *trajectory) concealed(dst []byte, resp responses.Response) ([]byte, error) {
	if t.store.hidden.Empty() {
		return resp.AppendJSON(dst)
	}
	data, err := resp.AppendJSON(nil)
	return append(dst, t.store.Conceal(data, t.names())...), err
}

// Publish moves a finished trajectory to where chains find it, or removes it
// when the response is not to be stored.
func (t *trajectory) Publish(store bool) error {
	if !store {
		return t.Discard()
	}
	s, id := t.store, t.header.ResponseID
	if err := syscall.Rename(s.openPath(id), s.donePath(id)); err != nil {
		return fmt.Errorf("commit response: %w", errors.Join(err, t.file.Close()))
	}
	s.published(t)
	return t.file.Close()
}

// published makes a committed response known to chains, retention and
// references.
func (s *Store) published(t *trajectory) {
	h := t.header
	s.cache.extend(h.PreviousResponseID,
		link{id: h.ResponseID, last: last{Thread: Thread{h.ThreadID, t.facts}, session: h.SessionID, turn: h.TurnID}, items: t.items,
			bytes: t.size + itemOverhead*int64(len(t.items))})
	s.unpin(h)
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(h.ResponseID, entry{previous: h.PreviousResponseID, turnID: h.TurnID, created: h.CreatedAt, bytes: t.size})
	for i, item := range t.items {
		c.index(item.ItemID(), owner{h.ResponseID, i >= t.given})
	}
}

// Close releases the file of a trajectory that stays open on disk.
func (t *trajectory) Close() error { return t.file.Close() }

// Discard removes the trajectory.
func (t *trajectory) Discard() error {
	t.store.unpin(t.header)
	path := t.store.openPath(t.header.ResponseID)
	if t.store.journal.covers(path) {
		t.store.journal.note(frame{kind: frameRelease, path: path})
	}
	return errors.Join(t.file.Close(), os.Remove(path))
}

// keep encodes an item that belongs to the conversation.
func (t *trajectory) keep(key string, item responses.Item) error {
	if err := t.encodeItem(key, item); err != nil {
		return err
	}
	t.items = append(t.items, item)
	return nil
}

func (t *trajectory) encode(l line) error {
	start := len(t.fresh)
	buf := bytes.NewBuffer(t.fresh)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return err
	}
	t.fresh = buf.Bytes()
	t.scrub(start)
	return nil
}

// encodeItem adds a line that holds only an item, under the key of line that names
// its part. It is made by hand: encoding/json would read each item three times.
func (t *trajectory) encodeItem(key string, item responses.Item) error {
	return t.line(key, func(dst []byte) ([]byte, error) { return responses.AppendItem(dst, item) })
}

// line adds a line with one key, whose value is appended by value.
func (t *trajectory) line(key string, value func(dst []byte) ([]byte, error)) error {
	start := len(t.fresh)
	dst, err := value(append(append(append(t.fresh, `{"`...), key...), `":`...))
	if err != nil {
		return err
	}
	t.fresh = append(dst, '}', '\n')
	t.scrub(start)
	return nil
}

// scrub takes known secrets out of the lines of fresh from start on.
func (t *trajectory) scrub(start int) {
	if !t.store.secrets.Empty() {
		t.fresh = append(t.fresh[:start], t.clean(t.fresh[start:])...) // often onto itself
	}
}

// write hands the encoded lines to the kernel in one call.
func (t *trajectory) write() error {
	n, err := t.file.Write(t.fresh[t.wrote:])
	t.size += int64(n)
	t.wrote += n
	if t.fresh = t.fresh[:t.wrote]; t.size-t.synced > maxShared {
		t.fresh, t.wrote = nil, 0 // one huge input must not pin its buffer for the whole turn
	}
	return err
}
