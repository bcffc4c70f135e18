// Package record keeps what a turn leaves on disk, in an order that a crash at
// any instant cannot corrupt.
//
//	<turn dir>/journal.ndjson  all that the turn did, in one sequence (see Journal)
//	<turn dir>/events.ndjson   of the journal: exactly the turn's Open Responses stream
//	<turn dir>/runtime.ndjson  of the journal: what the stream does not carry
//	<turn dir>/turn.json       the record, written as a whole
//	<turn dir>/failure.json    why a turn failed that did
//	<turn dir>/tools/          full outputs of tools
//	<state dir>/open|responses|deleted/<response_id>.ndjson   the trajectory (see Store)
//
// A write is with the kernel at once, so it survives a kill. It is on disk, and so survives a power cut, at three
// points: the trajectory when the turn is acknowledged and before a call with effects runs, and everything when the
// turn ends. A message that the user sends meanwhile is on disk when it is accepted.
//
// Order on the way in: the trajectory's header makes the turn exist, and is on disk before the first line of the
// journal becomes visible, which is the acknowledgement. The turn runs meanwhile, but no tool starts before.
// turn.json comes with the first message that the user sends while the turn runs, as a rule with its end. Order on
// the way out: the journal with the terminal event, the final response and turn.json are on disk; the trajectory
// moves to responses/; and only then the terminal event becomes visible. A client that has seen a response complete
// can therefore continue it.
//
// A turn that was in flight when the process died is found under open/ and
// settled by [Store.Settle] from its trajectory and its journal: it is never run again.
package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// Turn is the directory of a running turn and its trajectory.
type Turn struct {
	Dir     string
	Journal *Journal

	store      *Store
	trajectory *trajectory
	now        func() time.Time
	made       bool        // Begin made Dir
	ran        atomic.Bool // a tool was started

	writing sync.Mutex // of the trajectory, and of turn.json while the turn runs

	acknowledged chan struct{} // closed at the end of Acknowledge
	refused      error         // why it failed; set before

	mu     sync.Mutex
	record turns.Record
	seq    int64 // of the last fact of the thread
	causes turns.Causes
	buf    []byte
}

// Begin creates the turn's directory, journal and trajectory. Its journal stays invisible until Acknowledge. dir
// must not exist yet or be empty; its parent is created. history holds the items between the response
// h.PreviousResponseID and the input that are stored nowhere else, nil for none. Begin returns ErrNotFound when a
// response that is to be stored continues one that is not stored (any more). On error nothing is left.
func (s *Store) Begin(dir string, rec turns.Record, h Header, history, input []responses.Item,
	now func() time.Time) (t *Turn, err error) {
	t = &Turn{Dir: dir, store: s, record: rec, now: now, acknowledged: make(chan struct{})}
	if t.made, err = s.makeTurnDir(dir); err != nil {
		return nil, err
	}
	if t.trajectory, err = s.begin(h, history, input); err == nil {
		t.seq = t.trajectory.header.Facts
		t.Journal, err = createJournal(dir)
	}
	if err != nil {
		return nil, errors.Join(err, t.Discard())
	}
	t.Journal.hold()
	return t, nil
}

// Acknowledge makes the turn durable and its journal visible. The turn may run meanwhile: Started and Commit wait, so
// no tool starts before the turn is durable. After an error the turn does not exist: the caller ends what runs, then
// calls Discard.
func (t *Turn) Acknowledge() error {
	err := t.trajectory.sync()
	if err == nil {
		t.Journal.release()
	} else {
		t.refused = fmt.Errorf("%w: %w", ErrUnacknowledged, err)
	}
	close(t.acknowledged)
	return err
}

// ErrUnacknowledged is returned by Started and Commit when Acknowledge failed.
var ErrUnacknowledged = errors.New("the turn was not acknowledged")

// Acknowledged waits for the end of Acknowledge and returns its error.
func (t *Turn) Acknowledged() error {
	<-t.acknowledged
	return t.refused
}

// makeTurnDir creates dir, or accepts it when it is an empty directory, and
// reports whether it made it.
func (s *Store) makeTurnDir(dir string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), s.users.Shared(0o771)); err != nil {
		return false, fmt.Errorf("make the output directory: %w", err)
	}
	err = os.Mkdir(dir, s.users.Shared(0o771))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make the output directory: %w", err)
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false, responses.Invalid("holon.output_dir", responses.CodeInvalidValue,
			"the output directory exists and is not a directory; choose another one")
	}
	for _, name := range ownFiles {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false, responses.Invalid("holon.output_dir", responses.CodeInvalidValue,
				fmt.Sprintf("the output directory already holds %s of another turn; choose another directory", name))
		}
	}
	return false, nil
}

// Discard undoes Begin: nothing is left of a turn that was not acknowledged.
func (t *Turn) Discard() error {
	var errs []error
	if t.trajectory != nil {
		errs = append(errs, t.trajectory.Discard())
	}
	if t.Journal != nil {
		errs = append(errs, t.Journal.remove())
	}
	if t.made {
		errs = append(errs, os.Remove(t.Dir))
	}
	return errors.Join(errs...)
}

// Record returns the record as it stands.
func (t *Turn) Record() turns.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record
}

// Thread returns the thread of the turn with the facts so far, and what it left if the turn begins it.
func (t *Turn) Thread() (Thread, *turns.Fork) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.trajectory.header
	return Thread{h.ThreadID, t.seq}, h.Fork
}

// Written returns how many bytes the turn's journal has, and how many of them other files of its directory repeat.
// alone says that nothing but the turn has written there.
func (t *Turn) Written() (size, copied int64, alone bool) {
	size, copied = t.Journal.written()
	return size, copied, t.made && !t.ran.Load()
}

// Running notes when the turn left the queue.
func (t *Turn) Running() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.Status = responses.StatusInProgress
	t.record.StartedAt = turns.At(t.now())
}

// Sink returns where the turn's emitter puts its events. The terminal event is
// held back until Commit.
func (t *Turn) Sink() responses.Sink {
	return func(eventType string, data []byte) error {
		if responses.Terminal(eventType) {
			// Acknowledge lets go of what was held before: it must not let go of this.
			if err := t.Acknowledged(); err != nil {
				return err
			}
			t.Journal.hold()
		}
		return t.Journal.append(turns.EntryStream, t.Shown(data))
	}
}

// Started records durably that a tool call is about to run, and makes the
// directories of its files, which a turn without tools does not have.
func (t *Turn) Started(call *responses.ToolCall) error {
	if err := t.Acknowledged(); err != nil {
		return err
	}
	if err := t.makeDirs(); err != nil {
		return err
	}
	t.ran.Store(true)
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.trajectory.Started(call)
}

// makeDirs makes the directories that tools and commands write to.
func (t *Turn) makeDirs() error {
	err := os.Mkdir(filepath.Join(t.Dir, turns.ToolsDir), t.store.users.Shared(0o775))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the tools directory: %w", err)
	}
	err = t.store.users.MakePublic(filepath.Join(t.Dir, turns.ArtifactsDir))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the directory of artifacts: %w", err)
	}
	return nil
}

// Ran reports whether a tool was started. Call it when none can start any more.
func (t *Turn) Ran() bool { return t.ran.Load() }

// Add records an item that the turn produced.
func (t *Turn) Add(item responses.Item) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.trajectory.Add(item)
}

// Event appends a runtime event to the journal and gives it its number in the thread.
func (t *Turn) Event(ev turns.RuntimeEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ev.Sequence, ev.Correlation.CausationID = t.seq+1, t.causes.Of(ev)
	line, err := ev.AppendLine(t.buf[:0])
	if err != nil {
		return err
	}
	if err := t.Journal.append(turns.EntryRuntime, t.Shown(line[:len(line)-1])); err != nil {
		return err
	}
	t.buf, t.seq = line, ev.Sequence
	t.causes.Take(ev)
	return nil
}

// Commit ends a turn whose terminal event was emitted, in the order that the
// package comment promises, and makes that event visible. final is the runtime
// event that closes the journal. After an error the turn is still open: end
// it with Abort.
func (t *Turn) Commit(resp responses.Response, totals turns.Totals, final turns.RuntimeEvent) error {
	if err := t.Acknowledged(); err != nil {
		return err
	}
	if err := t.commit(resp, totals, final); err != nil {
		return err
	}
	t.Journal.release()
	t.Journal.end()
	return nil
}

// Abort ends a turn that cannot be recorded any further. Readers get cause after the visible lines; the journal is
// cut there. The turn is then like one that a crash interrupted, for Store.SettleTurn.
func (t *Turn) Abort(cause error) {
	t.Journal.abort(cause)
	_ = t.trajectory.Close() // it is opened again to be settled
}

func (t *Turn) commit(resp responses.Response, totals turns.Totals, final turns.RuntimeEvent) error {
	if err := t.Event(final); err != nil {
		return err
	}
	artifacts := []turns.Artifact{}
	if t.ran.Load() || !t.made { // else no command could have left any
		var err error
		if artifacts, err = t.store.artifacts(t.Dir); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.trajectory.facts = t.seq
	totals.Settle(&t.record, &resp, t.now())
	t.record.Artifacts = artifacts
	rec := t.record
	t.mu.Unlock()
	if err := t.store.writeFailure(t.Dir, &rec); err != nil {
		return err
	}
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	if err := t.trajectory.Finish(resp); err != nil {
		return err
	}
	path := filepath.Join(t.Dir, turns.RecordFile)
	if err := durable.Replace(path, t.Shown(data)); err != nil {
		return err
	}
	var group errgroup.Group // syncs that run side by side share the disk's commit
	group.Go(t.Journal.sync)
	group.Go(t.trajectory.sync)
	group.Go(func() error { return syncFile(path) })
	if err := group.Wait(); err != nil {
		return err
	}
	return t.trajectory.Publish(resp.Store)
}

// syncFile makes a file durable, with its name: the file systems of Linux commit the names of a new file together
// with its content.
func syncFile(path string) error {
	f, err := durable.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(path), err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close releases the files of a turn that was committed or aborted. No one may
// follow the journal any more.
func (t *Turn) Close() error { return t.Journal.Close() }
