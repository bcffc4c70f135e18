package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/gateway"
	"holon/runner/pool"
	"holon/state"
	"holon/state/ledger"
)

// reasonAborted is the reason of a turn that was ended because somebody asked.
const reasonAborted = "aborted"

// Phases of a ledger.Failure.
const (
	phaseStartup = "startup"
	phaseTurn    = "runtime_turn"
)

// endOf is the end that a turn came to. cause is why its context ended, nil when
// it did not.
func (r *Runtime) endOf(e runner.End, cause error) scheduler.End {
	if e.NotBegun {
		return scheduler.End{NotBegun: true} // not a failure: the message is next again
	}
	end := scheduler.End{Inserted: e.Inserted(), Lost: e.Lost, Turn: ledger.Turn{Kind: ledger.TurnAborted,
		ResponseID: e.ResponseID, Last: e.Answer, Model: e.Model, Usage: used(e), CompletedAt: r.cfg.Now()}}
	if rec := e.Record; rec != nil {
		end.ModelRounds, end.ToolCalls = rec.Rounds, rec.ToolCalls.Total
		end.Provider, end.Artifacts, end.StartedAt = rec.ProviderAttempts, rec.Artifacts, rec.StartedAt.Time()
		if !rec.CompletedAt.IsZero() {
			end.CompletedAt = rec.CompletedAt.Time()
		}
	}
	if end.Spent = spent(e); cause == nil && end.Spent.Bound != "" {
		cause = errPaused
	}
	if e.Status == responses.StatusCompleted {
		end.Kind = ledger.TurnCompleted
		return end
	}
	if f := e.Failure; f != nil && !errors.Is(cause, errAborted) {
		end.Reason = f.Code
		end.Failure = r.failure(phaseTurn, &state.Error{Code: state.Code(f.Code), Param: f.Param, Message: f.Message,
			Hint: f.Hint})
		if e.Record != nil {
			end.Failure.Artifact = e.Record.FailureArtifact
		}
	}
	switch {
	case errors.Is(cause, errAborted):
		end.Reason, end.Lost = reasonAborted, false
	case errors.Is(cause, errShutdown), errors.Is(cause, errPaused):
		end.Lost, end.Suspended = true, true
	}
	return end
}

// used is what a turn used: by the gateway's account, which counts for the budget, or as the container counts.
func used(e runner.End) *turns.Usage {
	switch {
	case e.Account != nil && e.Account.Requests > 0:
		return new(turns.UsageOf(e.Account.Tokens.Responses(e.Account.Estimated > 0)))
	case e.Usage != nil:
		return new(turns.UsageOf(*e.Usage))
	}
	return nil
}

// spent is what a turn took of the account of its tree: as the gateway metered it, or as the container counts.
func spent(e runner.End) (s scheduler.Spending) {
	if e.Account != nil {
		a := e.Account
		s = scheduler.Spending{Spent: a.Spent(), Tokens: a.Total, Bound: gateway.SharedBound(a.Exhausted)}
		if state.HostBudget(a.Exhausted) != "" {
			s.Bound = a.Exhausted
		}
		s.Metered = s != (scheduler.Spending{})
		return s
	}
	if e.Usage != nil {
		s.Tokens, s.Estimated = e.Usage.TotalTokens, e.Usage.Estimated
	}
	return s
}

// notBegun is the end of the turn of an attempt that could not be begun, for cause when that
// ended its context.
func (r *Runtime) notBegun(a ledger.Attempt, cause, err error) scheduler.End {
	switch {
	case errors.Is(cause, errAborted):
		return scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnAborted, Reason: reasonAborted,
			CompletedAt: r.cfg.Now()}}
	case errors.Is(cause, errShutdown), errors.Is(cause, errPaused), state.IsCode(err, pool.CodeClosed):
		return scheduler.End{NotBegun: true} // not a failure: the message is next again
	case forgotten(err):
		kept := r.kept(a, err)
		r.log.Warn("the end of an agent's conversation is gone", "agent", a.AgentID, "goes on from", kept, "err", err)
		return scheduler.End{NotBegun: true, Forgotten: true, Kept: kept}
	}
	return scheduler.End{Turn: ledger.Turn{Failure: r.failure(phaseStartup, err)}, NotBegun: true,
		Permanent: permanent(err)}
}

// maxKept bounds how many turns back a conversation may go on.
const maxKept = 50

// kept is the last response of the conversation of an attempt that is stored still, "" for none: those after it went
// with a container before they were copied.
func (r *Runtime) kept(a ledger.Attempt, err error) string {
	if !state.IsCode(err, responses.CodePreviousNotFound) || r.cfg.Turns.Stored(a.AgentID, a.Chain) {
		return ""
	}
	list, _ := ledger.Read(context.WithoutCancel(r.turns), r.store, func(v ledger.View) ([]ledger.Turn, error) {
		return v.Turns(a.AgentID, maxKept)
	})
	chain := a.Chain
	for _, t := range slices.Backward(list) {
		if t.ResponseID != chain {
			continue
		}
		if chain = t.Previous; chain == "" || r.cfg.Turns.Stored(a.AgentID, chain) {
			return chain
		}
	}
	return ""
}

// permanent reports whether a turn cannot be begun, or a container not be made, before a setting changes.
func permanent(err error) bool {
	e, ok := errors.AsType[*state.Error](err)
	return ok && rules.Permanent(e.Code)
}

// failure is an error for a person, without known secrets.
func (r *Runtime) failure(phase string, err error) *ledger.Failure {
	f := runner.Describe(err)
	return &ledger.Failure{OccurredAt: r.cfg.Now(), Phase: phase, Code: f.Code, Param: f.Param,
		Summary: r.cfg.Secrets.Text(state.Named(f.Param, f.Message)), Hint: r.cfg.Secrets.Text(f.Hint)}
}

// encode returns the JSON of records of ours, which can all be encoded.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}

// interrupted reports whether the context of a turn was ended from outside.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
