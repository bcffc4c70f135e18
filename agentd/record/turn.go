// Package record keeps what a turn leaves on disk, in an order that a crash at
// any instant cannot corrupt.
//
//	<turn dir>/turn.json       the record, replaced as a whole
//	<turn dir>/events.ndjson   exactly the turn's Open Responses stream
//	<turn dir>/runtime.ndjson  facts that the stream does not carry
//	<turn dir>/tools/          full outputs of tools
//	<state dir>/open|responses/<response_id>.ndjson   the trajectory (see Store)
//
// Order on the way in: trajectory header and turn.json, synced, then the first
// event, then the acknowledgement. Order on the way out: the terminal event
// durable but invisible, the trajectory with the final response, turn.json,
// the trajectory's move to responses/, and only then the terminal event becomes
// visible. Whoever has seen a response complete can therefore continue it.
//
// A turn that was in flight when the process died is found under open/ and
// settled by [Settle]: it is never run again.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"holon/responses"
	"holon/responses/turns"
	"holon/state/durable"
)

// Turn is the directory of a running turn and its trajectory.
type Turn struct {
	Dir     string
	Events  *Log
	Runtime *Log

	trajectory *Trajectory
	now        func() time.Time

	mu     sync.Mutex
	record turns.Record
	seq    int64 // of runtime.ndjson
}

// Begin creates the turn's directory, record and trajectory. When it returns
// without an error, they are on disk; the turn may be acknowledged. dir must
// not exist yet or be empty; its parent is created. On error nothing is left.
func (s *Store) Begin(dir string, rec turns.Record, h Header, input []responses.Item, now func() time.Time) (t *Turn, err error) {
	t = &Turn{Dir: dir, record: rec, now: now}
	made, err := makeTurnDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.abandon(made))
		}
	}()
	if t.trajectory, err = s.begin(h, input); err != nil {
		return nil, err
	}
	// The durable fact is the trajectory's header; turn.json can be made again
	// from it, so it is written now and need not be synced before the answer.
	if err = writeRecord(dir, rec); err != nil {
		return nil, err
	}
	if t.Events, err = CreateLog(filepath.Join(dir, turns.EventsFile)); err != nil {
		return nil, err
	}
	if t.Runtime, err = CreateLog(filepath.Join(dir, turns.RuntimeFile)); err != nil {
		return nil, err
	}
	var group errgroup.Group // side by side, so that the file system commits once
	group.Go(t.trajectory.Sync)
	group.Go(func() error { return durable.SyncDir(dir) })
	group.Go(func() error { return durable.SyncDir(filepath.Dir(dir)) })
	return t, group.Wait()
}

// makeTurnDir creates dir, or accepts it when it is an empty directory, and
// reports whether it made it.
func makeTurnDir(dir string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return false, fmt.Errorf("make the output directory: %w", err)
	}
	err = os.Mkdir(dir, 0o700)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("make the output directory: %w", err)
	}
	for _, name := range []string{turns.RecordFile, turns.EventsFile, turns.RuntimeFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false, responses.Invalid("holon.output_dir", responses.CodeInvalidValue,
				fmt.Sprintf("the output directory already holds %s of another turn; choose another directory", name))
		}
	}
	return false, nil
}

// writeRecord creates turn.json without syncing it.
func writeRecord(dir string, rec turns.Record) error {
	data, err := encodeRecord(rec)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, turns.RecordFile), data, 0o600); err != nil {
		return fmt.Errorf("write the turn record: %w", err)
	}
	return nil
}

func encodeRecord(rec turns.Record) ([]byte, error) {
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the turn record: %w", err)
	}
	return append(data, '\n'), nil
}

// abandon undoes a Begin that failed half way.
func (t *Turn) abandon(made bool) error {
	var errs []error
	if t.trajectory != nil {
		errs = append(errs, t.trajectory.Discard())
	}
	for _, l := range []*Log{t.Events, t.Runtime} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if made {
		errs = append(errs, os.RemoveAll(t.Dir))
	}
	return errors.Join(errs...)
}

// Record returns the record as it stands.
func (t *Turn) Record() turns.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record
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
			t.Events.Hold()
		}
		return t.Events.Append(data)
	}
}

// Started records durably that a tool call is about to run.
func (t *Turn) Started(call *responses.ToolCall) error { return t.trajectory.Started(call) }

// Add records an item that the turn produced.
func (t *Turn) Add(item responses.Item) error { return t.trajectory.Add(item) }

// Event appends a fact to runtime.ndjson and gives it its number.
func (t *Turn) Event(ev turns.RuntimeEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ev.Sequence = t.seq + 1
	data, err := json.Marshal(ev)
	if err != nil {
		return fmt.Errorf("encode runtime event: %w", err)
	}
	if err := t.Runtime.Append(data); err != nil {
		return err
	}
	t.seq++
	return nil
}

// Totals are what only the end of a turn knows.
type Totals struct {
	Rounds    int
	ToolCalls turns.ToolCalls
}

// Commit ends a turn whose terminal event was emitted, in the order that the
// package comment promises, and makes that event visible. final is the runtime
// event that closes runtime.ndjson.
func (t *Turn) Commit(resp responses.Response, totals Totals, final turns.RuntimeEvent) error {
	err := t.commit(resp, totals, final)
	// Visible or failed, the readers must not wait for ever.
	if err == nil {
		t.Events.Release()
	}
	return errors.Join(err, t.Events.End(), t.Runtime.End())
}

func (t *Turn) commit(resp responses.Response, totals Totals, final turns.RuntimeEvent) error {
	if err := t.Event(final); err != nil {
		return err
	}
	artifacts, err := Artifacts(t.Dir)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.record.Settle(&resp, t.now())
	t.record.Rounds, t.record.ToolCalls, t.record.Artifacts = totals.Rounds, totals.ToolCalls, artifacts
	rec := t.record
	t.mu.Unlock()
	data, err := encodeRecord(rec)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(t.Events.Flush)
	group.Go(t.Runtime.Flush)
	group.Go(func() error { return t.trajectory.Finish(resp) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(t.Dir, turns.RecordFile), data, 0o600); err != nil {
		return err
	}
	return t.trajectory.Publish(resp.Store)
}

// Close releases the files. Nobody may follow the logs any more.
func (t *Turn) Close() error { return errors.Join(t.Events.Close(), t.Runtime.Close()) }

// Bounds of the artifacts that a record lists. What is over them stays on disk
// and is not listed.
const (
	maxArtifacts     = 10_000
	maxArtifactBytes = 256 << 20
)

// Artifacts lists the regular files of a turn directory other than its own
// three, with digests, sorted by path. Links and special files are left out: a
// command that the turn ran may have put anything there.
func Artifacts(dir string) ([]turns.Artifact, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	defer root.Close()
	list := []turns.Artifact{}
	var total int64
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || own(path) {
			return nil // an unreadable folder is the tool's own doing
		}
		info, err := d.Info()
		if err != nil || total+info.Size() > maxArtifactBytes {
			return nil
		}
		if len(list) == maxArtifacts {
			return fs.SkipAll
		}
		a, err := digest(root, path)
		if err != nil {
			return nil
		}
		total += a.Bytes
		list = append(list, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path })
	return list, nil
}

func own(path string) bool {
	return path == turns.RecordFile || path == turns.EventsFile || path == turns.RuntimeFile
}

func digest(root *os.Root, path string) (turns.Artifact, error) {
	f, err := root.Open(path)
	if err != nil {
		return turns.Artifact{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxArtifactBytes))
	if err != nil {
		return turns.Artifact{}, err
	}
	return turns.Artifact{Path: path, Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
