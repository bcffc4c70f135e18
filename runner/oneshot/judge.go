package oneshot

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner"
	"holon/state"
)

// verdict is how a run ended.
type verdict struct {
	status  state.Status
	outcome state.Outcome
	failure *state.Failure // nil for success
}

func failed(status state.Status, outcome state.Outcome, err error) verdict {
	f := runner.Describe(err)
	return verdict{status, outcome, &f}
}

// judge decides status, outcome and exit code of the run. cause is why its context ended, and err what went wrong
// outside the turn; nil if nothing did.
func (r *execution) judge(cause, err error) {
	var v verdict
	if starting, ok := errors.AsType[*startError](err); ok {
		v = failed(state.StatusFailed, state.OutcomeRefused, starting.error)
		if errors.Is(err, runner.ErrInterrupted) {
			v = failed(state.StatusCancelled, state.OutcomeCancelled, runner.ErrInterrupted)
		}
	} else if v = r.judgeTurn(); err != nil && v.outcome == state.OutcomeSuccess {
		// the turn worked, but its result could not be collected
		v = failed(state.StatusFailed, state.OutcomeFailure, err)
	} else if err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings, runner.Describe(err).Message)
	} else if bad := r.unchecked(cause); bad != nil && v.outcome == state.OutcomeSuccess {
		v = *bad
	}
	if beaten, ok := errors.AsType[*superseded](cause); ok && v.outcome == state.OutcomeCancelled {
		v.failure = new(runner.Describe(beaten.failure()))
	}
	if v.failure != nil && r.spec.Blame != nil {
		r.spec.Blame(v.failure)
	}
	m := r.manifest
	m.Status, m.Outcome, m.ExitCode, m.Error = v.status, v.outcome, v.outcome.ExitCode(), v.failure
}

// withoutFlag names in a failure of a run that was taken up the limit alone: whether a flag, a variable or a file set
// it is not in the record of the run, and what takes up runs has no such flag.
func withoutFlag(f *state.Failure) {
	if limit, ok := strings.CutPrefix(f.Param, "--"); ok {
		limit = strings.ReplaceAll(limit, "-", "_")
		f.Hint = strings.Replace(f.Hint, "raise "+f.Param, "raise it for the next run", 1)
		f.Param = limit
	}
}

// judgeTurn decides by the end of the turn.
func (r *execution) judgeTurn() verdict {
	switch e := r.turn; {
	case e.NotBegun:
		return verdict{state.StatusInterrupted, state.OutcomeRefused,
			&state.Failure{Code: string(runner.CodeNotStarted),
				Message: "holon was killed before the turn began; nothing of it was run", Hint: "start it again"}}
	case e.Status != "":
		return r.judgeEnd()
	case e.Response == nil && !r.recovered: // agentd refused the request
		return failed(state.StatusFailed, refusal(e.Err), e.Err)
	case r.stopped:
		return failed(state.StatusCancelled, state.OutcomeCancelled, runner.ErrInterrupted)
	}
	return failed(state.StatusInterrupted, state.OutcomeFailure, r.turn.Err)
}

// refusal is the outcome of a turn that agentd did not accept.
func refusal(err error) state.Outcome {
	e, ok := errors.AsType[*responses.Error](err)
	if !ok {
		return state.OutcomeFailure
	}
	switch e.Code {
	case responses.CodeDiskFull, responses.CodeQueueFull, responses.CodeDraining:
		return state.OutcomeRefused
	}
	if e.Type == responses.TypeServerError {
		return state.OutcomeFailure
	}
	return state.OutcomeRefused
}

// judgeEnd decides by the end that is known. A reason to end early gets the option that the user can change.
func (r *execution) judgeEnd() verdict {
	failure := r.turn.Failure
	switch r.turn.Status {
	case responses.StatusCompleted:
		return verdict{state.StatusCompleted, state.OutcomeSuccess, nil}
	case responses.StatusCancelled:
		failure.Message = runner.ErrInterrupted.Error()
		return verdict{state.StatusCancelled, state.OutcomeCancelled, failure}
	case responses.StatusIncomplete:
	default:
		return verdict{state.StatusFailed, state.OutcomeFailure, failure}
	}
	status, outcome, limits := state.StatusIncomplete, state.OutcomeFailure, r.manifest.Limits
	explain := func(message, param, hint string) {
		failure.Message, failure.Param, failure.Hint = cmp.Or(message, failure.Message), param, hint
	}
	switch failure.Code {
	case string(runner.CodeDeadline):
		outcome = state.OutcomeDeadline
	case responses.ReasonTimeout:
		outcome = state.OutcomeDeadline
		explain("", "--timeout", "raise --timeout")
	case responses.ReasonShutdown:
		if r.stopped {
			return failed(state.StatusCancelled, state.OutcomeCancelled, runner.ErrInterrupted)
		}
		if status = state.StatusInterrupted; r.recovered {
			failure = &state.Failure{Code: string(runner.CodeInterrupted), Message: runner.StoppedLater}
		}
	case responses.ReasonBudget:
		explain(r.spent())
	case responses.ReasonMaxRounds:
		explain("the turn ended early: the model was asked "+times(limits.MaxRounds), "--max-rounds",
			"raise --max-rounds")
	case responses.ReasonMaxToolCalls:
		explain("the turn ended early: tools were called "+times(limits.MaxToolCalls),
			"--max-tool-calls", "raise --max-tool-calls")
	case responses.ReasonMaxOutputBytes:
		explain(fmt.Sprintf("the turn ended early: it left more output than %s, or its response has more than %s",
			visible.Size(limits.MaxOutput), visible.Size(responses.MaxOutput)),
			"--max-output-bytes", "raise --max-output-bytes, or ask for less text")
	case responses.ReasonEmptyAnswer:
		explain("the turn ended early: the model's answer was empty, also when it was asked once more", "",
			"start it again, or choose another model")
	case responses.ReasonMaxOutputTokens:
		explain("", "runtime.max_output_tokens",
			"raise it with holon config set runtime.max_output_tokens, or ask for less")
	}
	return verdict{status, outcome, failure}
}

// times says how often something was done.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// spent says which bound of the budget ended the turn.
func (r *execution) spent() (message, param, hint string) {
	message = "the turn ended early: its budget is used up"
	a := r.turn.Account
	if a == nil {
		return message, "", ""
	}
	if r.ask.Pool != nil {
		message = "the turn ended early: the budget that the attempts share is used up, of which it had"
	}
	if setting := state.HostBudget(a.Exhausted); setting != "" {
		return "the turn ended early: the budget of everything on this host is used up", setting,
			"raise it with holon config set " + setting + ", and go on with holon run --continue " + r.run.ID()
	}
	switch a.Exhausted {
	case "max_requests":
		return fmt.Sprintf("%s (%d of %d requests)", message, a.Requests, a.Budget.MaxRequests), "--max-requests",
			"raise --max-requests"
	case "max_tokens":
		return fmt.Sprintf("%s (%d of %d tokens)", message, a.Total, a.Budget.MaxTokens), "--max-tokens",
			"raise --max-tokens"
	case "max_cost":
		return fmt.Sprintf("%s (%s of %s spent)", message, a.Cost, a.Budget.MaxCost), "--max-cost", "raise --max-cost"
	}
	return message, "", ""
}
