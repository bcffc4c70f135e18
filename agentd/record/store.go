package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holon/agentd/privilege"
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
	dir       string
	lock      *os.File // held as long as the process may write here
	runtime   string
	taskFacts taskFacts
	cache     *conversations
	catalog   *catalog
	users     *privilege.Users // of turns; nil for the user of this process
	secrets   *redact.Set      // taken out of all that is written; nil for none
	hidden    redact.Set       // taken out of all that others than the model read; see Turn.Hide
	words     redact.Constants // of the formats that are written; they stay
	wake      chan struct{}    // tells Maintain that there is something to do
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
type line struct {
	Header      *Header             `json:"header,omitempty"`
	History     json.RawMessage     `json:"history,omitempty"` // an item before the request that is stored nowhere else
	Input       json.RawMessage     `json:"input,omitempty"`   // an item of the request
	Started     json.RawMessage     `json:"started,omitempty"` // a tool call that is about to run
	Hidden      []string            `json:"hidden,omitempty"`  // what was said that others than the model do not read
	Interjected *turns.Input        `json:"said,omitempty"`    // what the user said meanwhile, as it now stands
	Item        json.RawMessage     `json:"item,omitempty"`    // an item that the turn produced
	Facts       int64               `json:"facts,omitempty"`   // of the thread with the turn; before the response
	Response    *responses.Response `json:"response,omitempty"`

	Continued bool `json:"continued,omitempty"` // after the response: one that was removed since has continued it
}

// Stored is a trajectory read back.
type Stored struct {
	Header      Header
	History     []responses.Item // what came between the previous response and the input, stored nowhere else
	Input       []responses.Item
	Items       []responses.Item    // what the model said and the tools returned, in order
	Interjected []turns.Input       // what the user said while the turn ran, in order
	Response    *responses.Response // nil while the turn is open
	Facts       int64               // of the thread, with those of the turn; 0 while it is open
	Hidden      []string            // as in line

	Continued bool // as in line

	size     int64 // of the file
	headOnly bool  // only the header is read
}

// errInUse is returned by OpenStore when another process has the store.
var errInUse = errors.New("another agentd uses this directory; stop it or choose another one")

// OpenStore opens the store in dir, which is absolute, and creates its folders,
// mode 0700. The store belongs to one process at a time: another one would take
// its running turns for crashed ones. A lock of the kernel's says so, which
// ends with the process however that ends.
func OpenStore(dir string) (*Store, error) {
	for _, sub := range []string{"open", "responses"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o770); err != nil {
			return nil, fmt.Errorf("open response store: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o660)
	if err != nil {
		return nil, fmt.Errorf("open response store: %w", err)
	}
	if err := lockStore(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), lock.Close())
	}
	s := &Store{dir: dir, lock: lock, cache: newConversations(maxCached), catalog: newCatalog(),
		wake: make(chan struct{}, 1)}
	if err := s.identify(); err != nil {
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

// Hide removes known secrets from everything that is written from now on, here and in the directories of turns. Call it
// before the first write. The constants of the formats that are written stay.
func (s *Store) Hide(secrets *redact.Set, constants redact.Constants) {
	s.secrets, s.words = secrets, constants
}

// For sets the users of turns, for the directories that they write to. Call it before the first turn.
func (s *Store) For(users *privilege.Users) { s.users = users }

// taskFacts returns the facts of tasks and their processes that the turn of scope has to record and that come after
// those that it has: the class of the newest by process id. noted is called when they are written.
type taskFacts func(scope turns.Scope, newest map[string]string) (facts []turns.RuntimeEvent, noted func())

// Complete sets what knows of tasks before the facts of their turn do. Call it before the first turn is settled.
func (s *Store) Complete(facts taskFacts) { s.taskFacts = facts }

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
			return errInUse
		}
	}
}

// Close gives the store up. No turn may be running, and Maintain has returned.
func (s *Store) Close() error { return s.lock.Close() }

func (s *Store) openPath(id string) string { return filepath.Join(s.dir, "open", id+".ndjson") }
func (s *Store) donePath(id string) string { return filepath.Join(s.dir, "responses", id+".ndjson") }
func (s *Store) deletedPath(id string) string {
	return filepath.Join(s.dir, "deleted", id+".ndjson")
}
