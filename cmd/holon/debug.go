package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// newDebugCommand makes `holon debug`.
func newDebugCommand(streams Streams) *cobra.Command {
	prompt := remoteCommand(streams, "prompt TEXT",
		"Print the whole prompt in which a text would be sent", runDebugPrompt)
	prompt.Long = `Print what the model would be asked if an agent got a text now: model and cache key,
instructions with those of AGENTS.md, skills, the conversation, and the names of the
tools. --json has the schemas of tools too, and the blocks that holon itself makes.
The agent's container is asked, and started if there is none. Nothing is sent to a
model and nothing is recorded. A conversation that is too long for the model is shown
as it is before a turn makes it shorter.`
	prompt.Args = cobra.ArbitraryArgs // which readPrompt checks
	limit := 10
	latency := remoteCommand(streams, "latency", "Say where the time of an agent's newest turns went",
		func(ctx context.Context, r *remote) error { return runLatency(ctx, r, limit) })
	latency.Flags().IntVar(&limit, "limit", limit, "`number` of turns")
	return group("debug", "Look into an agent", "", prompt, tableCommand(latency, streams))
}

func runLatency(ctx context.Context, r *remote, limit int) error {
	report, err := r.Latency(ctx, r.Agent, limit)
	return r.show(report, err, func() error {
		return printTable(r.streams, report.Turns,
			[]string{"TURN*", "INDEX", "MESSAGE*", "ENDED", "QUEUED", "BEGIN", "TOOK", "ROUNDS", "CALLS"}, r.latencyRow)
	})
}

func (r *remote) latencyRow(turn view.TurnLatency) []string {
	begin, ended := "", string(turn.Kind)
	if turn.Kind == ledger.TurnAborted && turn.FailureCode != scheduler.FailureAborted {
		ended = "failed"
	}
	if turn.BeginMS != nil {
		begin = r.streams.millis(*turn.BeginMS)
	}
	return []string{turn.TurnID, strconv.FormatInt(turn.TurnIndex, 10), string(turn.MessageKind), ended,
		r.streams.millis(turn.QueueWaitMS), begin, r.streams.millis(turn.TurnMS), strconv.Itoa(turn.ModelRounds),
		strconv.Itoa(turn.ToolCalls)}
}

// millis is a time in milliseconds: a number in a pipe, with its unit for a person.
func (s Streams) millis(ms int64) string {
	switch {
	case !s.OutTTY:
		return strconv.FormatInt(ms, 10)
	case ms < 10_000:
		return strconv.FormatInt(ms, 10) + "ms"
	}
	return elapsed(ms)
}
