package agentruntime

import (
	"fmt"
)

func turnRules() []Rule {
	return []Rule{
		{Number: 23, Why: "needs a live server",
			Statement: "A submitted turn is durable and has a status before the first byte of a model."},
		{Number: 24, Why: "needs the response object",
			Statement: "The deltas of the model are the text of the response."},
		{Number: 25, Why: "needs recorded streams of providers",
			Statement: "The normalized stream holds what the provider said."},
		{Number: 26, On: []string{"model.requested"}, check: checkAttempt,
			Statement: "Every provider attempt is a request of its own, and is numbered: one that follows a failure " +
				"which is being retried has the next number. Rounds are counted without a gap."},
		{Number: 27, On: []string{"turn.failed"}, check: checkFailedTurn,
			Statement: "A failed turn has a category and retryability next to its status, and a failure that is being " +
				"retried does not fail it."},
		{Number: 28, Why: "needs a live server",
			Statement: "Submitting a turn again returns the first one and adds no event."},
		{Number: 29, Why: "needs a live server",
			Statement: "Interrupting a turn twice changes nothing the second time."},
		{Number: 30, Why: "needs the briefs and the work items",
			Statement: "An overflow of the context fails the turn and blocks its work item."},
	}
}

func checkAttempt(f *finding) {
	attempt, ok := f.number("attempt")
	most, bounded := f.number("max_attempts")
	f.must(ok && attempt >= 1 && (!bounded || attempt <= most), "attempt "+f.said("attempt")+" of "+f.said("max_attempts"),
		"a number from 1 to max_attempts")
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
	f.must(turn == nil || f.Status != "failed" || turn.text["model_outcome"] != "retrying",
		"the turn failed while its request is retried", "another attempt")
}
