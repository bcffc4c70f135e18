package main

import (
	"errors"
	"strings"
	"testing"

	"holon/responses"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// How a message ended decides the exit code and the words.
func TestOutcomeOfMessage(t *testing.T) {
	closure := func(o ledger.Outcome, w ledger.WaitingReason) ledger.Closure {
		return ledger.Closure{Outcome: o, WaitingReason: w}
	}
	turn := func(kind ledger.TurnKind, reason string, c ledger.Closure) *ledger.Turn {
		return &ledger.Turn{Kind: kind, Reason: reason, Closure: c}
	}
	completed := closure(ledger.OutcomeCompleted, "")
	for name, c := range map[string]struct {
		status ledger.EntryStatus
		turn   *ledger.Turn
		code   int
		final  string
	}{
		"completed":           {ledger.Processed, turn(ledger.TurnCompleted, "", completed), 0, "completed"},
		"into another's turn": {ledger.Interjected, turn(ledger.TurnCompleted, "", completed), 0, "completed"},
		"rests": {ledger.Processed,
			turn(ledger.TurnCompleted, "", closure(ledger.OutcomeWaiting, ledger.AwaitingTimer)), 0, "waiting"},
		"needs the operator": {ledger.Processed,
			turn(ledger.TurnCompleted, "", closure(ledger.OutcomeWaiting, ledger.AwaitingOperator)), 3, "waiting"},
		"failed": {ledger.Processed,
			turn(ledger.TurnAborted, "model_error", closure(ledger.OutcomeFailed, "")), 1, "failed"},
		"too many rounds": {ledger.Processed,
			turn(ledger.TurnAborted, responses.ReasonMaxRounds, closure(ledger.OutcomeFailed, "")), 1,
			"max_turns_exceeded"},
		"out of time": {ledger.Processed,
			turn(ledger.TurnAborted, responses.ReasonTimeout, closure(ledger.OutcomeFailed, "")), 124, "failed"},
		"aborted": {ledger.Aborted, &ledger.Turn{Kind: ledger.TurnAborted, Reason: "aborted",
			Failure: &ledger.Failure{Code: ledger.FailureAborted}}, 130, "failed"},
		"failed, whose entry is aborted as well": {ledger.Aborted,
			turn(ledger.TurnAborted, "model_error", closure(ledger.OutcomeFailed, "")), 1, "failed"},
		"aborted before it began": {ledger.Aborted, nil, 130, "failed"},
		"interrupted twice": {ledger.Interrupted,
			turn(ledger.TurnAborted, "interrupted", closure(ledger.OutcomeFailed, "")), 1, "failed"},
		"never begun":      {ledger.Quarantined, nil, 4, "failed"},
		"not worth a turn": {ledger.Dropped, nil, 4, "failed"},
		"no closure":       {ledger.Processed, turn(ledger.TurnCompleted, "", ledger.Closure{}), 0, "completed"},
	} {
		end := view.MessageState{Entry: ledger.Entry{Status: c.status}, Turn: c.turn}
		outcome, err := outcomeOf(end)
		code := outcome.ExitCode()
		if want := map[int]string{124: "incomplete", 130: "aborted", 3: "waiting"}[code]; want != "" &&
			endedWord(end, outcome) != want {
			t.Errorf("%s: endedWord = %q, want %q", name, endedWord(end, outcome), want)
		}
		switch {
		case code != c.code:
			t.Errorf("%s: code = %d, want %d", name, code, c.code)
		case (err == nil) != (code == 0 || code == 3):
			t.Errorf("%s: (err == nil) = %v, want %v", name, (err == nil), (code == 0 || code == 3))
		case finalStatus(end) != c.final:
			t.Errorf("%s: finalStatus(end) = %q, want %q", name, finalStatus(end), c.final)
		}
	}
}

// What lets a blocked message go on is told by the code of its reason, whatever the words of that are.
func TestUnblocking(t *testing.T) {
	for code, want := range map[string]string{"missing_credentials": "holon daemon restart",
		"image_not_found": "holon agent start main", "": "holon agent start main"} {
		_, err := outcomeOf(view.MessageState{Entry: ledger.Entry{Status: ledger.Blocked, Reason: "no", Code: code},
			Message: ledger.Message{AgentID: "main"}})
		if e, ok := errors.AsType[*state.Error](err); !ok || !strings.Contains(e.Hint, want) {
			t.Errorf("%q: %+v, want a hint with %s", code, err, want)
		}
	}
}
