package agent

import (
	"cmp"
	"context"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/runner/agent/prompt"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
)

// runLoop takes an agent's messages one after another until there is none that can
// be taken now.
func (r *Runtime) runLoop(id string) {
	for r.turns.Err() == nil && !r.isClosing() {
		claim, ok, err := r.scheduler.Claim(r.turns, id)
		if scheduler.Damaged(err) {
			r.damaged(id, err)
			return
		}
		if err != nil {
			r.log.Error("the next message cannot be claimed", "agent", id, "err", err)
			if !r.reclaim(id) {
				return
			}
			continue
		}
		if !ok || !r.run(claim) {
			return
		}
		r.childEnded(id)
	}
}

// reclaim gives back the message of a claim that was committed although it returned an error. Only the run loop of the
// agent claims for it, so an open attempt belongs to that claim, and its turn was not requested. It returns false when
// the runtime ended first.
func (r *Runtime) reclaim(id string) bool {
	for r.pause(storeRetry) {
		var open ledger.Attempt
		var ok bool
		err := r.store.View(r.turns, func(v ledger.View) (err error) {
			open, ok, err = v.OpenAttempt(id)
			return err
		})
		switch {
		case err != nil:
			r.log.Error("what was claimed cannot be read; trying again", "agent", id, "err", err)
		case ok:
			return r.settle(open, scheduler.End{NotBegun: true})
		default:
			return true
		}
	}
	return false
}

// run runs the turn of a claim and settles it; false when it could not be
// settled, which leaves the attempt to the next start.
func (r *Runtime) run(c scheduler.Claim) bool {
	turn, sent, err := r.plan(r.turns, c)
	if err != nil {
		return r.settle(c.Attempt, scheduler.End{Turn: ledger.Turn{Failure: r.failure(phaseStartup, err)},
			NotBegun: true})
	}
	ctx, stop := context.WithCancelCause(r.turns)
	defer stop(nil)
	watching, leave := context.WithCancel(ctx)
	record := r.newRecorder(c.Attempt, &sent)
	watcher := r.watchTurn(watching, c.Attempt, stop)
	result, err := r.cfg.Turns.Turn(ctx, turn, record.begin, record)
	leave()
	<-watcher
	record.close()
	if err != nil {
		end := r.notBegun(c.Attempt, interrupted(ctx), err)
		end.Refused = end.Failure != nil && len(c.Message.Request) > 0 && clientsFault(end.Failure.Code)
		return r.settle(c.Attempt, end)
	}
	return r.settle(c.Attempt, record.streamed(r.endOf(result, interrupted(ctx))))
}

// plan returns the turn of a claim and the prompt that is sent with it.
func (r *Runtime) plan(ctx context.Context, c scheduler.Claim) (pool.Turn, prompt.Prompt, error) {
	if err := r.prepare(ctx, c.Agent); err != nil {
		return pool.Turn{}, prompt.Prompt{}, err
	}
	begin := time.Now()
	in, err := r.promptInput(ctx, c)
	if err != nil {
		return pool.Turn{}, prompt.Prompt{}, err
	}
	sent := prompt.Assemble(in)
	sent.Took = time.Since(begin)
	t := r.turnOf(c.Agent, c.Attempt)
	t.First = c.Message.Origin.Kind == ledger.OriginOperator
	if t.Shared, t.TreeContainers, err = r.sharedOf(ctx, c.Agent.ID); err != nil {
		return pool.Turn{}, prompt.Prompt{}, err
	}
	req := t.Request
	req.Input = sent.Items()
	req.Instructions, req.PromptCacheKey = runner.Optional(sent.SystemPrompt), runner.Optional(sent.Cache.PromptCacheKey)
	req.Holon.Reminder = r.cfg.Reminding.Of(in.Work.Current)
	if err := ofClient(req, c.Message, c.ClientCalls); err != nil {
		return pool.Turn{}, prompt.Prompt{}, err
	}
	return t, sent, r.placeTurn(ctx, &t)
}

// turnOf is the turn of an attempt without its input.
func (r *Runtime) turnOf(a ledger.Agent, attempt ledger.Attempt) pool.Turn {
	t := pool.Turn{AgentID: a.ID, Image: a.Image, Model: attempt.Model, Turn: runner.NewTurn(attempt.TurnID, "")}
	req := t.Request
	req.PreviousResponseID, req.MaxToolCalls = attempt.Chain, runner.Optional(r.cfg.MaxToolCalls)
	if a.ReasoningEffort != "" {
		req.Reasoning = &responses.ReasoningConfig{Effort: &a.ReasoningEffort}
	}
	*t.Limits() = responses.Limits{MaxRounds: r.cfg.MaxRounds, TimeoutMS: r.cfg.TurnTimeout.Milliseconds()}
	t.Budget = r.cfg.Budget
	if t.Image == "" {
		t.Image = r.cfg.Image
	}
	t.Model = cmp.Or(t.Model, r.cfg.Model)
	t.Fallbacks = rules.FallbackModels(t.Model, r.cfg.Fallbacks)
	return t
}

// plainAfter is how often an end is tried to be settled before it is settled
// without what may be wrong with it.
const plainAfter = 5

// settle settles an attempt, and retries while the store cannot be written: until
// then the agent takes no other message. It returns false when the runtime ended
// first.
func (r *Runtime) settle(a ledger.Attempt, end scheduler.End) bool {
	if !end.NotBegun {
		end.Home, end.Plan, end.Worktree = r.homeDigest(a.AgentID), r.planOf(a), r.worktreeOf(a.AgentID)
	}
	if !end.NotBegun && !r.save(a.AgentID) {
		return false
	}
	for try := 1; ; try++ {
		// a turn that was cut is settled all the same
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), settleGrace)
		s, err := r.scheduler.Settle(ctx, a.ID, end)
		if err == nil && !end.NotBegun {
			r.exportEpisodes(ctx, a.AgentID)
		}
		cancel()
		if err == nil {
			r.log.Debug("a turn is settled", "agent", a.AgentID, "turn", a.TurnID, "status", s.Status)
			return true
		}
		if state.IsCode(err, ledger.CodeLedgerAway) { // for which the turn is not to blame
			try--
		}
		r.log.Error("a turn cannot be settled; trying again", "agent", a.AgentID, "turn", a.TurnID, "err", err)
		if try == plainAfter && !end.NotBegun {
			// A turn whose result cannot be stored must not block its agent for ever.
			end = scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: "unrecordable",
				ResponseID: end.ResponseID, Failure: r.failure(phaseTurn, err), CompletedAt: r.cfg.Now(),
				Events: end.Events, ClientCalls: end.ClientCalls},
				Lost: end.Lost, Suspended: end.Suspended, Inserted: end.Inserted, Home: end.Home}
		}
		if try >= plainAfter && scheduler.Damaged(err) {
			r.damaged(a.AgentID, err)
			return false
		}
		if !r.pause(storeRetry) {
			return false
		}
	}
}

// homeDigest is what the home of an agent, and the tree in which it works, hold after a turn, "" when that can't
// be said.
func (r *Runtime) homeDigest(id string) string {
	// a turn that was cut is settled all the same
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), settleGrace)
	defer cancel()
	digest, err := r.cfg.Homes.Digest(ctx, id)
	if err != nil {
		r.log.Warn("what a turn changed in its home is not known", "agent", id, "err", err)
	}
	if r.cfg.Workspaces != nil && digest != "" {
		tree, err := r.cfg.Workspaces.Digest(ctx, id)
		if err != nil {
			r.log.Warn("what a turn changed in its workspace is not known", "agent", id, "err", err)
		}
		digest += tree
	}
	return digest
}

func (r *Runtime) isClosing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}

// pause waits; false when the runtime ended meanwhile.
func (r *Runtime) pause(d time.Duration) bool {
	select {
	case <-r.turns.Done():
		return false
	case <-time.After(d):
		return true
	}
}
