package main

import (
	"cmp"
	"fmt"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/credentials"
	"holon/runner/oneshot"
	"holon/state"
	"holon/state/ledger"
)

// finalStatus is how a message ended, in the words of the runtime's surface.
func finalStatus(end view.MessageState) string {
	switch {
	case end.Turn == nil || end.Entry.Status == ledger.Interrupted:
		return "failed"
	case end.Turn.Reason == responses.ReasonMaxRounds:
		return "max_turns_exceeded"
	case end.Turn.Kind != ledger.TurnCompleted:
		return "failed"
	}
	switch end.Turn.Closure.Outcome {
	case ledger.OutcomeFailed:
		return "failed"
	case ledger.OutcomeWaiting:
		return "waiting"
	}
	return "completed"
}

// outcomeOf is what a message's end makes of a command, in the words and exit codes of a run (docs/reference/run.md).
// The error says what went wrong, nil when nothing did.
func outcomeOf(end view.MessageState) (state.Outcome, error) {
	t, who := end.Turn, end.Message.AgentID
	subject := "agent " + who
	if end.Entry.Blocked() {
		return state.OutcomeRefused, &state.Error{Code: "blocked", Param: subject,
			Message: "no turn can be run: " + end.Entry.Reason,
			Hint: unblocking(state.Code(end.Entry.Code), who) +
				"; or take it back: holon queue remove --agent " + who + " " + end.Message.ID}
	}
	if t == nil || end.Entry.Status == ledger.Quarantined {
		outcome := state.OutcomeRefused
		if end.Entry.Status == ledger.Aborted {
			outcome = state.OutcomeCancelled
		}
		return outcome, &state.Error{Code: state.Code(end.Entry.Status), Param: subject,
			Message: "no turn was run for the message: " + cmp.Or(end.Entry.Reason, string(end.Entry.Status)),
			Hint:    "see: holon status --agent " + who}
	}
	if t.Kind == ledger.TurnCompleted {
		if t.Closure.WaitingReason == ledger.AwaitingOperator {
			return state.OutcomeWaiting, nil
		}
		if finalStatus(end) != "failed" {
			return state.OutcomeSuccess, nil
		}
	}
	outcome, failure := state.OutcomeFailure, ledger.Failure{Summary: cmp.Or(t.Reason, string(end.Entry.Status))}
	if t.Failure != nil {
		failure = *t.Failure
	}
	switch {
	case failure.Code == ledger.FailureAborted: // an entry is also "aborted" when its turn failed
		outcome = state.OutcomeCancelled
	case t.Reason == responses.ReasonTimeout:
		outcome = state.OutcomeDeadline
	}
	return outcome, &state.Error{Code: state.Code(cmp.Or(t.Reason, "failed")), Param: subject,
		Message: "the turn did not complete: " + failure.Summary,
		Hint:    cmp.Or(failure.Hint, "see: holon transcript --agent "+who)}
}

// unblocking says what lets a message go on that is blocked for a reason of that code. A missing key may be a variable,
// of which the daemon has those that it was started with.
func unblocking(code state.Code, who string) string {
	switch code {
	case scheduler.CodeAgentStopped:
		return "the message stays queued until: " + rules.StartHint(who)
	case credentials.CodeMissing:
		return "the message stays queued and is tried again when the key is stored, or when the variable is set and the " +
			"daemon has it: holon daemon restart"
	default:
		return "the message stays queued until a setting, the model or the daemon changes, or is tried again at once " +
			"with: holon agent start " + who
	}
}

// endedWord is how a turn ended, for a person: in the words of a run's status, and those that only agents have.
func endedWord(end view.MessageState, outcome state.Outcome) string {
	switch outcome {
	case state.OutcomeWaiting:
		return "waiting"
	case state.OutcomeCancelled:
		return "aborted"
	}
	return string(statusOf(end))
}

// showEnd prints how a message ended: the answer, or result where JSON is asked for, on stdout, the rest on stderr. Its
// error is the exit code.
func (r *remote) showEnd(end view.MessageState, result any, answer string, quiet bool) (err error) {
	switch {
	case r.JSON:
		err = printJSON(r.streams, result)
	case r.streaming():
		err = r.events.finish(end, answer, result)
	default:
		err = r.view.showAnswer(answer)
	}
	if err != nil {
		return err
	}
	outcome, failure := outcomeOf(end)
	if end.Turn != nil && !quiet && !r.JSON {
		r.summarize(end.Turn, endedWord(end, outcome))
	}
	if failure != nil {
		r.streams.sayFailure(describe(failure))
	}
	if code := outcome.ExitCode(); code != 0 {
		return exitError(code)
	}
	return nil
}

func (r *remote) summarize(t *ledger.Turn, ended string) {
	fmt.Fprintf(r.streams.Err, "%s in %s: %s, %s\n", ended, elapsed(t.DurationMS), count(t.ModelRounds, "round"),
		count(t.ToolCalls, "tool call"))
	for _, f := range r.view.edited {
		fmt.Fprintf(r.streams.Err, "  edited   %s  +%d −%d\n", visible.Name(f.Path), f.Added, f.Deleted)
	}
	if t.Usage != nil && t.Usage.TotalTokens > 0 {
		fmt.Fprintln(r.streams.Err, "tokens   "+oneshot.TokensOf(t.Usage))
	}
}

// statusOf is how a message ended, in the words of a run's status.
func statusOf(end view.MessageState) state.Status {
	outcome, _ := outcomeOf(end)
	limited := end.Turn != nil && end.Turn.Reason == responses.ReasonMaxRounds
	switch {
	case limited, outcome == state.OutcomeDeadline:
		return state.StatusIncomplete
	case outcome == state.OutcomeSuccess, outcome == state.OutcomeWaiting:
		return state.StatusCompleted
	case outcome == state.OutcomeCancelled:
		return state.StatusCancelled
	case end.Entry.Status == ledger.Interrupted:
		return state.StatusInterrupted
	}
	return state.StatusFailed
}
