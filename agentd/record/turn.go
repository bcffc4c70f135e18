// Package record keeps what a turn leaves on disk, in an order that a crash at
// any instant cannot corrupt.
//
//	<turn dir>/turn.json       the record, written as a whole
//	<turn dir>/events.ndjson   exactly the turn's Open Responses stream
//	<turn dir>/runtime.ndjson  facts that the stream does not carry
//	<turn dir>/failure.json    why a turn failed that did
//	<turn dir>/tools/          full outputs of tools
//	<state dir>/open|responses|deleted/<response_id>.ndjson   the trajectory (see Store)
//	<state dir>/journal/                                      what is not yet on disk elsewhere
//
// A write is with the kernel at once, so it survives a kill. It is on disk, and so survives a power cut, with the next
// commit of the journal: that one file is synced for all files of all turns (see journal).
// Without a reader, events are synced at the end of their turn.
//
// Order on the way in: the trajectory's header and the first events are written; one commit makes them durable, while
// runtime.ndjson is made; only then the first event becomes visible, which is the acknowledgement. The
// turn runs meanwhile, but no tool starts before. turn.json comes with the first message that the user sends while the
// turn runs, as a rule with its end. Order on the way out: one commit makes the terminal event,
// the rest of runtime.ndjson, the final response and turn.json durable; the trajectory moves to
// responses/; and only then the terminal event becomes visible. A client that has seen a response complete
// can therefore continue it.
//
// A turn that was in flight when the process died is found under open/ and
// settled by [Settle]: it is never run again.
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

	"holon/responses"
	"holon/responses/turns"
)

// Turn is the directory of a running turn and its trajectory.
type Turn struct {
	Dir     string
	Events  *Log
	Runtime *Log

	store      *Store
	trajectory *trajectory
	now        func() time.Time
	opening    *unsynced
	made       bool        // Begin made Dir
	ran        atomic.Bool // a tool was started
	wrote      []string    // files of Dir that Begin made

	writing sync.Mutex // of the trajectory, and of turn.json while the turn runs

	acknowledged chan struct{} // closed at the end of Acknowledge
	refused      error         // why it failed; set before

	mu     sync.Mutex
	record turns.Record
	seq    int64 // of the last fact of the thread
	causes causes
	buf    []byte
}

// Begin creates the turn's directory, log of events and trajectory. Its events stay invisible until Acknowledge. dir
// must not exist yet or be empty; its parent is created. history holds the items between the response
// h.PreviousResponseID and the input that are stored nowhere else, nil for none. Begin returns ErrNotFound when a
// response that is to be stored continues one that is not stored (any more). On error nothing is left.
func (s *Store) Begin(dir string, rec turns.Record, h Header, history, input []responses.Item,
	now func() time.Time) (t *Turn, err error) {
	t = &Turn{Dir: dir, store: s, record: rec, now: now, acknowledged: make(chan struct{})}
	if t.made, err = s.makeTurnDir(dir); err != nil {
		return nil, err
	}
	if err := t.create(h, history, input); err != nil {
		return nil, errors.Join(err, t.Discard())
	}
	return t, nil
}

// create creates the trajectory, whose header makes the turn exist, and the log of its events. The facts come with
// Acknowledge, the record with the end.
func (t *Turn) create(h Header, history, input []responses.Item) (err error) {
	if t.trajectory, err = t.store.begin(h, history, input); err != nil {
		return err
	}
	t.seq = t.trajectory.header.Facts
	t.Events = t.planLog(turns.EventsFile, synced)
	t.Runtime = t.planLog(turns.RuntimeFile, written)
	if err := t.createLog(t.Events); err != nil {
		return err
	}
	t.Events.Hold()
	t.Events.postpone()
	return nil
}

// Prepare ends the part of the stream that Acknowledge makes durable. After it the turn may run, concurrently with
// Acknowledge: its events stay invisible, and Started and Commit wait, so no tool starts before the turn is durable.
func (t *Turn) Prepare() (err error) {
	t.opening, err = t.take(t.Events)
	return err
}

// Acknowledge makes the prepared turn durable and its first events visible. After an error the turn does not exist: the
// caller ends what runs, then calls Discard.
func (t *Turn) Acknowledge() error {
	var group errgroup.Group
	group.Go(func() error { return t.createLog(t.Runtime) }) // while the disk works
	err := t.opening.commit(t.store.journal)
	t.opening = nil // the turn may wait for its model for long
	if err = errors.Join(err, group.Wait()); err == nil {
		t.Events.Release()
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
	for _, name := range []string{turns.RecordFile, turns.EventsFile, turns.RuntimeFile, turns.FailureFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false, responses.Invalid("holon.output_dir", responses.CodeInvalidValue,
				fmt.Sprintf("the output directory already holds %s of another turn; choose another directory", name))
		}
	}
	return false, nil
}

func (t *Turn) planLog(name string, promise durability) *Log {
	return planLog(filepath.Join(t.Dir, name), promise, t.store.journal)
}

func (t *Turn) createLog(l *Log) error {
	err := l.create()
	if err == nil {
		t.wrote = append(t.wrote, l.path)
	}
	return err
}

// Discard undoes Begin: nothing is left of a turn that was not acknowledged.
func (t *Turn) Discard() error {
	var errs []error
	if t.trajectory != nil {
		errs = append(errs, t.trajectory.Discard())
	}
	for _, l := range []*Log{t.Events, t.Runtime} {
		if l != nil {
			l.Abort(errLogClosed)
			errs = append(errs, l.release())
		}
	}
	for _, path := range t.wrote {
		if t.store.journal.covers(path) {
			t.store.journal.note(frame{kind: frameRelease, path: path})
		}
		errs = append(errs, os.Remove(path))
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

// Written returns how many bytes the turn's directory holds, as long as alone: nothing but the turn has written there.
func (t *Turn) Written() (n int64, alone bool) {
	return t.Events.size() + t.Runtime.size(), t.made && !t.ran.Load()
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
			t.Events.Hold()
			t.Events.postpone() // Commit syncs it, with all that belongs to it
		}
		return t.Events.Append(t.Shown(data))
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

// Event appends a fact to runtime.ndjson and gives it its number.
func (t *Turn) Event(ev turns.RuntimeEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ev.Sequence, ev.Correlation.CausationID = t.seq+1, t.causes.of(ev)
	line, err := ev.AppendLine(t.buf[:0])
	if err != nil {
		return err
	}
	if err := t.Runtime.Append(t.Shown(line[:len(line)-1])); err != nil {
		return err
	}
	t.buf, t.seq = line, ev.Sequence
	t.causes.take(ev)
	return nil
}

// Commit ends a turn whose terminal event was emitted, in the order that the
// package comment promises, and makes that event visible. final is the runtime
// event that closes runtime.ndjson. After an error the turn is still open: end
// it with Abort.
func (t *Turn) Commit(resp responses.Response, totals Totals, final turns.RuntimeEvent) error {
	if err := t.Acknowledged(); err != nil {
		return err
	}
	if err := t.commit(resp, totals, final); err != nil {
		return err
	}
	t.Runtime.Release()
	t.Events.Release()
	return errors.Join(t.Events.End(), t.Runtime.End())
}

// Abort ends a turn that cannot be recorded any further. Readers get cause after the visible events; the logs are cut
// there. The turn is then like one that a crash interrupted, for Store.SettleTurn.
func (t *Turn) Abort(cause error) {
	t.Events.Abort(cause)
	t.Runtime.Abort(cause)
	_ = t.trajectory.Close() // it is opened again to be settled
}

func (t *Turn) commit(resp responses.Response, totals Totals, final turns.RuntimeEvent) error {
	t.Runtime.Hold()
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
	totals.settle(&t.record, &resp, t.now())
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
	if err := t.settleFiles(t.Shown(data), t.Events, t.Runtime); err != nil {
		return err
	}
	return t.trajectory.Publish(resp.Store)
}

// Close releases the files of a turn that was committed or aborted. No one may
// follow the logs any more.
func (t *Turn) Close() error { return errors.Join(t.Events.release(), t.Runtime.release()) }
