package agentruntime

import (
	"fmt"
)

func checkAttempt(f *finding) {
	attempt, ok := f.number("attempt")
	most, bounded := f.number("max_attempts")
	f.must(ok && attempt >= 1 && (!bounded || attempt <= most),
		"attempt "+f.shown("attempt")+" of "+f.shown("max_attempts"), "a number from 1 to max_attempts")
	turn := f.turnOf(f.Event)
	if turn == nil || !ok {
		return
	}
	round, rounds := f.number("round")
	f.must(!rounds || f.field("purpose") != nil || round >= turn.round && round <= turn.round+1,
		fmt.Sprintf("round %v after %v", round, turn.round), "the same or the next")
	outcome, failed := turn.text["model_outcome"]
	switch failed = failed && outcome != "completed"; {
	case outcome == "retrying" || attempt > 1 && failed:
		f.must(attempt == turn.attempt+1, fmt.Sprintf("attempt %v", attempt), fmt.Sprintf("%v, the next", turn.attempt+1))
	case attempt > 1:
		f.report(fmt.Sprintf("attempt %v", attempt), "model.failed of the attempt before")
	}
}

func checkFailedTurn(f *finding) {
	f.has("failure_category")
	f.isBool("retryable")
	turn := f.turnOf(f.Event)
	// what fails besides the request, such as a disk that is full, may fail the turn meanwhile
	f.must(turn == nil || f.Status != "failed" || turn.text["model_outcome"] != "retrying" ||
		turn.text["model_category"] != f.text("failure_category"),
		"the turn failed while its request is retried", "another attempt")
}

func checkContext(f *finding) {
	turn := f.turnOf(f.Event)
	f.must(turn == nil || turn.seen["context.resolved"] > 0, "no context.resolved", "context.resolved before it")
}

func checkPreserved(f *finding) {
	f.has("preserved.actions", "preserved.incidents", "preserved.evidence")
}
