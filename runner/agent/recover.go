package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"holon/responses"
	"holon/runner"
	"holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/state/ledger"
)

// left is an attempt that the last process left open.
type left struct {
	agent   ledger.Agent
	attempt ledger.Attempt
}

// leftOpen are the attempts that the last process of these agents left open. An agent whose records are damaged is left
// alone.
func (r *Runtime) leftOpen(ctx context.Context, is func(id string) bool) (open []left, err error) {
	broken := make(map[string]error)
	err = r.store.View(ctx, func(v ledger.View) error {
		attempts, err := v.OpenAttempts()
		for _, a := range attempts {
			if a.Owner == r.cfg.Owner || !is(a.AgentID) {
				continue
			}
			agent, err := v.Agent(a.AgentID)
			if err == nil { // alone: one that is damaged is an error then
				_, _, err = v.OpenAttempt(a.AgentID)
			}
			if scheduler.Damaged(err) {
				broken[a.AgentID] = err
				continue
			}
			if err != nil {
				return err
			}
			open = append(open, left{agent, a})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find what the last process left: %w", err)
	}
	for id, err := range broken {
		r.damaged(id, err)
	}
	return open, nil
}

// recover settles the open attempts that the last process left, or takes them up
// again where the turn goes on. settled returns when that is so of all of them; a turn
// that goes on is settled by a run loop, as if this process had begun it.
func (r *Runtime) recover(ctx context.Context, is func(id string) bool) (settled func(context.Context) error,
	err error) {
	open, err := r.leftOpen(ctx, is)
	if err != nil {
		return nil, err
	}
	var left sync.WaitGroup
	for _, l := range open {
		if !r.claimLoop(l.agent.ID) {
			continue
		}
		left.Add(1)
		once := sync.OnceFunc(left.Done)
		r.workers.Go(func() {
			defer r.loopEnded(l.agent.ID)
			defer once()
			if r.takeUp(l.agent, l.attempt, once) {
				r.reattached(l.agent.ID)
				once()
				r.childEnded(l.agent.ID)
				r.runLoop(l.agent.ID)
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends with the attempts, which Close ends
		defer close(done)
		left.Wait()
	}()
	return func(ctx context.Context) error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, nil
}

// claimLoop marks that an agent has a run loop, unless it has one.
func (r *Runtime) claimLoop(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loops[id] || r.closing {
		return false
	}
	r.loops[id] = true
	return true
}

// takeUp finds what became of an attempt and settles it, and asks again while
// nothing can be found out: the engine may come back, and until then the agent
// takes no message. attached is called when the turn goes on, or when it can't be said
// yet. It is false when the attempt could not be settled.
func (r *Runtime) takeUp(agent ledger.Agent, attempt ledger.Attempt, attached func()) bool {
	for {
		ctx, stop := context.WithCancelCause(r.turns)
		record := r.newRecorder(attempt, nil)
		end, err := r.rejoin(ctx, stop, agent, record, attached)
		cause := interrupted(ctx)
		stop(nil)
		if end.NotBegun && attempt.BegunAt != nil { // its files are not here: they may be on the host that died
			end = r.cut(end)
		}
		if err == nil {
			err = r.takeOver(attempt, end)
		}
		if err == nil {
			r.log.Info("a turn was recovered", "agent", agent.ID, "turn", attempt.TurnID, "begun", !end.NotBegun,
				"err", end.Err)
			return r.settle(attempt, record.streamed(r.endOf(end, cause)))
		}
		r.log.Error("what became of a turn cannot be found out; trying again", "agent", agent.ID, "turn",
			attempt.TurnID, "err", err)
		attached()
		if !r.pause(storeRetry) {
			return false
		}
	}
}

// cut is the end of a turn that agentd accepted, as the ledger says, and of which nothing else is known. What it did is
// done.
func (r *Runtime) cut(end runner.End) runner.End {
	end.NotBegun = false
	if end.Err == nil {
		end.Err = errNoTrace
	}
	end.Settle(nil, r.cfg.Secrets)
	return end
}

var errNoTrace = errors.New("nothing is left of the turn")

// rejoin finds what became of a turn, and watches it to its end if it goes on.
func (r *Runtime) rejoin(ctx context.Context, stop context.CancelCauseFunc, agent ledger.Agent, record *recorder,
	attached func()) (runner.End, error) {
	attempt := record.attempt
	watching, leave := context.WithCancel(ctx)
	var watcher <-chan struct{}
	defer func() {
		leave()
		if watcher != nil {
			<-watcher
		}
		record.close()
	}()
	turn := r.turnOf(agent, attempt)
	var err error
	if turn.Shared, turn.TreeContainers, err = r.sharedOf(ctx, agent.ID); err != nil {
		return runner.End{}, err
	}
	turn.Request.Input = responses.Items{responses.UserMessage(r.promptOf(ctx, attempt))}
	return r.cfg.Turns.Recover(ctx, turn, func() {
		if err := r.takeOver(attempt, runner.End{}); err != nil { // it is tried again at the end
			r.log.Warn("that a turn goes on cannot be recorded", "turn", attempt.TurnID, "err", err)
		}
		record.begin()
		watcher = r.watchTurn(watching, attempt, stop)
		r.reattached(agent.ID)
		attached()
	}, record)
}

// promptOf is what an attempt was sent, "" when that is not known: the turn does not need it, its trace has it.
func (r *Runtime) promptOf(ctx context.Context, attempt ledger.Attempt) string {
	var sent prompt.Prompt
	err := r.store.View(ctx, func(v ledger.View) error {
		p, ok, err := v.Prompt(attempt.ID)
		if err != nil || !ok {
			return err
		}
		return json.Unmarshal(p.Prompt, &sent)
	})
	if err != nil {
		r.log.Warn("the prompt of a turn cannot be read", "turn", attempt.TurnID, "err", err)
	}
	return sent.Prompt()
}

// takeOver records that this process takes over an attempt, and how far it found out what became of its turn: end is
// the zero value while that goes on.
func (r *Runtime) takeOver(a ledger.Attempt, end runner.End) error {
	// a turn that was cut is taken over all the same
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.turns), settleGrace)
	defer cancel()
	found := scheduler.Recovery{Sources: []string{"ledger", "turn_directory"}}
	switch {
	case end.NotBegun:
	case end.Err == nil:
		found.Sources = []string{"ledger", "container"}
	default:
		found.Missing = []scheduler.Missing{{Kind: "turn_end", Ref: a.TurnID}}
	}
	return r.scheduler.TakeOver(ctx, a.ID, found)
}
