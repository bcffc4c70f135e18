package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holon/internal/roots"
	"holon/responses"
	"holon/runner/turnfiles"
	"holon/runner/workspace"
	"holon/state/ledger"
)

// keepNewest turns stay however large they are: of the newest one the end may not have
// been read.
const keepNewest = 2

// outputs is the record's say in which directories of turns go: *scheduler.Scheduler.
type outputs interface {
	// OutputStates says of the directories of an agent's turns whether they are recorded as gone or events need them.
	OutputStates(ctx context.Context, agentID string, turnIDs []string) (map[string]ledger.OutputState, error)
	// ExpireOutputs records that directories go, each once. They are removed after that.
	ExpireOutputs(ctx context.Context, agentID string, gone []ledger.ExpiredOutput) error
}

// prune removes the directories of the oldest turns of an agent, beyond what is
// kept, and those that an earlier process recorded as gone and did not remove. The
// record has it first. No command works in its container. The conversation is not
// in these directories and stays.
func (k *Pool) prune(ctx context.Context, a *agent) error {
	if !a.dirty && a.session != nil {
		return nil
	}
	a.dirty = false
	dir, err := k.turnsOf(a)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has not made a turn yet
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("list the agent's turns: %w", err)
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		if responses.CheckID("turn_id", e.Name()) == nil { // other names are the agent's own files
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids) // ids grow with time
	surplus, err := k.surplus(ctx, a, ids)
	if err != nil {
		return err
	}
	return k.expire(ctx, a, dir, surplus)
}

// turnsOf opens the directory of an agent's turns; fs.ErrNotExist when there is none.
func (k *Pool) turnsOf(a *agent) (*os.Root, error) {
	output, err := turnfiles.OpenOutput(k.private(a, sessionDir))
	if err != nil {
		return nil, fmt.Errorf("open the agent's output: %w", err)
	}
	defer output.Close()
	if info, err := output.Lstat("turns"); err == nil && !info.IsDir() {
		return nil, fs.ErrNotExist // what a command put there has no turns
	}
	dir, err := roots.OpenOwn(output, "turns")
	if err != nil {
		return nil, fmt.Errorf("open the agent's turns: %w", err)
	}
	return dir, nil
}

// surplus returns which of the turns are to go, the oldest first. Beyond KeepTurns and KeepBytes go those that the
// record does not need, beyond MaxBytes any. Those without a reason are recorded as gone.
func (k *Pool) surplus(ctx context.Context, a *agent, ids []string) (gone []ledger.ExpiredOutput, err error) {
	var states map[string]ledger.OutputState // none where no record is kept
	if k.opts.Outputs != nil && len(ids) > 0 {
		if states, err = k.opts.Outputs.OutputStates(ctx, a.id, ids); err != nil {
			return nil, fmt.Errorf("ask the record for the agent's turns: %w", err)
		}
	}
	var kept []ledger.ExpiredOutput // that would go, the oldest first
	var total int64
	for _, id := range ids {
		if states[id] == ledger.OutputGone {
			gone = append(gone, ledger.ExpiredOutput{TurnID: id})
			continue
		}
		// A container may be writing there; what cannot be measured counts as nothing.
		n, _ := workspace.Usage(ctx, filepath.Join(k.private(a, sessionDir), "output", "turns", id))
		kept, total = append(kept, ledger.ExpiredOutput{TurnID: id, SizeBytes: n}), total+n
	}
	return append(gone, k.excess(kept, total, states)...), nil
}

// reasons are those of directories that go because there are too many, by what the record says of them. What it needs
// stays; the state is "" where no record is kept.
var reasons = map[ledger.OutputState]ledger.OutputReason{ledger.OutputSaved: ledger.OutputExported,
	ledger.OutputUnreferenced: ledger.OutputRetention, "": ledger.OutputRetention}

// excess returns which of the turns, which take total bytes, are too many.
func (k *Pool) excess(kept []ledger.ExpiredOutput, total int64, states map[string]ledger.OutputState) (
	gone []ledger.ExpiredOutput) {
	old, n, rest := kept[:max(len(kept)-keepNewest, 0)], 0, total
	over := func(n, bound int64) bool { return bound >= 0 && n > bound }
	for n < len(old) && (over(int64(len(kept)-n), int64(k.opts.KeepTurns)) || over(rest, k.opts.KeepBytes)) {
		rest -= old[n].SizeBytes
		n++
	}
	for i, e := range old[:n] {
		if old[i].Reason = reasons[states[e.TurnID]]; old[i].Reason != "" {
			total -= e.SizeBytes
		}
	}
	for _, e := range old {
		if e.Reason == "" && k.opts.MaxBytes > 0 && total > k.opts.MaxBytes {
			e.Reason = ledger.OutputLimit
			total -= e.SizeBytes
		}
		if e.Reason != "" {
			gone = append(gone, e)
		}
	}
	return gone
}

// Of one expiry: how many directories it records at a time, and how many files of each.
const (
	expireBatch = 100
	maxNamed    = 20
)

// expire records that directories go, and removes them.
func (k *Pool) expire(ctx context.Context, a *agent, dir *os.Root, gone []ledger.ExpiredOutput) error {
	var errs []error
	for batch := range slices.Chunk(gone, expireBatch) {
		var fresh []ledger.ExpiredOutput
		for _, e := range batch {
			if e.Reason != "" {
				fresh = append(fresh, k.named(a, e))
			}
		}
		if k.opts.Outputs != nil && len(fresh) > 0 {
			if err := k.opts.Outputs.ExpireOutputs(ctx, a.id, fresh); err != nil {
				return errors.Join(append(errs, fmt.Errorf("record that old turns go: %w", err))...)
			}
		}
		for _, e := range batch {
			errs = append(errs, roots.RemoveAll(dir, e.TurnID))
		}
	}
	return errors.Join(errs...)
}

// named adds what the record of a turn says of its files. A turn without a record has none that anyone vouches for.
func (k *Pool) named(a *agent, e ledger.ExpiredOutput) ledger.ExpiredOutput {
	rec, _, _ := turnfiles.Read(k.private(a, sessionDir), e.TurnID)
	if rec == nil {
		return e
	}
	e.Count = len(rec.Artifacts)
	for _, f := range rec.Artifacts[:min(e.Count, maxNamed)] {
		e.Artifacts = append(e.Artifacts, ledger.ExpiredFile{Path: f.Path, SizeBytes: f.Bytes, Digest: "sha256:" + f.SHA256})
	}
	return e
}
