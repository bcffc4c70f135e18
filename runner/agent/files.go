package agent

import (
	"context"
	"errors"
	"time"

	"holon/state"
	"holon/state/ledger"
)

// Files are those of agents where each host has its own, so that another one can go on:
//
//	lease taken ─▶ Load ─▶ taken up     turn ended ─▶ Save ─▶ settled
type Files interface {
	// Own takes the lease of a public agent that no other process has, and loads its files. An agent that another one
	// runs is ledger.CodeElsewhere.
	Own(ctx context.Context, root string) error
	// Load brings what was saved of a public agent and its children here, before anything of them is opened. This process
	// has the lease. It may be repeated.
	Load(ctx context.Context, root string, children []string) error
	// Save saves what an agent has. What was saved before an error is not saved again.
	Save(ctx context.Context, agentID string) error
}

// How long one try to save or load may take; it goes on from there.
const filesWithin = 10 * time.Minute

// loaded are the agents of taken whose files are here. Others are being loaded, until they are, or the runtime ends.
func (r *Runtime) loaded(ctx context.Context) (ready map[string]bool, err error) {
	ready = make(map[string]bool)
	var agents []ledger.Agent
	if r.cfg.Files != nil && len(r.taken) > 0 {
		if agents, err = ledger.Read(ctx, r.store, ledger.View.Agents); err != nil {
			return nil, err
		}
	}
	for root := range r.taken {
		switch {
		case r.cfg.Files == nil || r.cfg.Leases.Held(root):
			ready[root] = true
		case !r.loading[root]:
			var children []string
			for _, a := range agents {
				if a.ID != root && state.RootAgent(a.ID) == root && a.ArchivedAt == nil {
					children = append(children, a.ID)
				}
			}
			r.loading[root] = true
			r.workers.Go(func() { r.load(root, children) })
		}
	}
	return ready, nil
}

// load loads the files of an agent, and tries again while that fails.
func (r *Runtime) load(root string, children []string) {
	for {
		ctx, cancel := context.WithTimeout(r.turns, filesWithin)
		err := r.cfg.Files.Load(ctx, root, children)
		cancel()
		if err == nil {
			r.wake()
			return
		}
		r.log.Error("the files of an agent cannot be loaded; trying again", "agent", root, "err", err)
		if !r.pause(storeRetry) {
			return
		}
	}
}

// save saves the files of an agent, and tries again while that fails: the ledger never has a turn whose files another
// host cannot read. It returns false when the runtime ended first.
func (r *Runtime) save(agentID string) bool {
	for r.cfg.Files != nil {
		// a turn that was cut is saved all the same
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), filesWithin)
		err := r.cfg.Files.Save(ctx, agentID)
		cancel()
		if err == nil {
			return true
		}
		r.log.Error("the files of an agent cannot be saved, and its turn not settled; trying again", "agent", agentID,
			"err", err)
		if !r.pause(storeRetry) {
			return false
		}
	}
	return true
}

// takeDefault takes the default agent, and reports whether this process has it. Where it exists, its files are loaded
// later if that is not possible now.
func (r *Runtime) takeDefault(ctx context.Context) (bool, error) {
	if r.cfg.Files == nil {
		return true, nil
	}
	err := r.cfg.Files.Own(ctx, r.cfg.Default)
	if err == nil || state.IsCode(err, ledger.CodeElsewhere) {
		return err == nil, nil
	}
	_, missing := ledger.Read(ctx, r.store, func(v ledger.View) (ledger.AgentState, error) {
		return v.AgentState(r.cfg.Default)
	})
	if missing != nil {
		return false, errors.Join(err, missing)
	}
	r.log.Error("the files of the default agent cannot be loaded; trying again later", "err", err)
	return false, nil
}

// wake lets the dispatcher look for work.
func (r *Runtime) wake() {
	select {
	case r.idle <- struct{}{}:
	default:
	}
}
