package sessions

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"holon/runner"
	"holon/runner/engine"
	"holon/state"
	"holon/state/ledger"
)

// Claim is the right of a process to the containers of a ledger, where homes that share the ledger also share the
// engine (engine.Sharer). A container has the lease under which it was made and its fence. The invariant: only a
// process with a later fence of the same lease removes a container of another home, so none that the present holder
// made. One that it took up keeps its fence: a process that had the lease in between, and hung, may remove it before
// it sees that it is none any more.
type Claim struct {
	Ledger string                   // a word for it
	Fence  func(lease string) int64 // ledger.Leases
}

// Labels adds those of the claim to the labels of a container that is made for a session, or for a part of its work.
func (c *Claim) Labels(key Key, labels map[string]string) map[string]string {
	if labels = maps.Clone(labels); labels == nil {
		labels = make(map[string]string)
	}
	if c == nil {
		return labels
	}
	lease := state.RootAgent(key.id)
	if key.kind == Conversations {
		lease = ledger.SessionsLease
	}
	labels[runner.LabelLedger], labels[runner.LabelLease] = c.Ledger, lease
	labels[runner.LabelFence] = strconv.FormatInt(c.Fence(lease), 10)
	return labels
}

// Sweep removes the containers of other homes that were made under a lease that this process has by now.
func (c *Claim) Sweep(ctx context.Context, eng engine.Engine) error {
	shared, ok := eng.(engine.Sharer)
	if c == nil || !ok {
		return nil
	}
	list, err := shared.Others(ctx, map[string]string{runner.LabelLedger: c.Ledger})
	for _, s := range list {
		fence, wrong := strconv.ParseInt(s.Labels[runner.LabelFence], 10, 64)
		if wrong == nil && fence < c.Fence(s.Labels[runner.LabelLease]) {
			err = errors.Join(err, eng.Remove(ctx, s.Handle))
		}
	}
	return err
}
