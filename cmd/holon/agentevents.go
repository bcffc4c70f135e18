package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// agentEvents prints the record of an agent for one message, an event on each line, as it grows.
type agentEvents struct {
	remote *remote
	sent   wire.Enqueued
	turns  map[string]bool
	after  int64 // number of the newest event that was read
	last   agentruntime.Event
}

// streamEvents prints the events of a message while it is watched.
func (r *remote) streamEvents(sent wire.Enqueued) {
	r.events = &agentEvents{remote: r, sent: sent, turns: make(map[string]bool), after: max(sent.EventSeq-1, 0)}
}

// upTo prints the events up to a number, and those that there are besides. Nil prints nothing.
func (e *agentEvents) upTo(ctx context.Context, seq int64) error {
	for e != nil && e.after < seq {
		page, err := e.remote.RuntimeEvents(ctx, e.sent.AgentID, e.after)
		if err != nil || len(page.Events) == 0 {
			return err
		}
		for _, ev := range page.Events {
			e.after = ev.Sequence
			if err := e.print(ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// print prints an event if it is about the message or a turn that was made for it.
func (e *agentEvents) print(ev agentruntime.Event) error {
	var refs struct {
		Message string `json:"message_id"`
	}
	if ev.Refs != nil && json.Unmarshal(ev.Refs, &refs) != nil {
		return nil
	}
	turn := ev.IDs[agentruntime.Turn]
	ours := refs.Message == e.sent.MessageID
	if ours && turn != "" {
		e.turns[turn] = true
	}
	if !ours && !e.turns[turn] {
		return nil
	}
	e.last = ev
	data, err := json.Marshal(ev)
	if err == nil {
		_, err = fmt.Fprintln(e.remote.streams.Out, string(machineText(data)))
	}
	return err
}

// finish prints the last event, which holds what the command prints with --json, and tells a person of the end. Its
// error is the exit code.
func (e *agentEvents) finish(end view.MessageState, finalText string, result any, quiet bool) error {
	data, err := json.Marshal(hostEvent{Type: runEnded, EventID: responses.NewID(responses.PrefixEvent),
		Timestamp: turns.At(time.Now()), SchemaVersion: agentruntime.SchemaVersion,
		SessionID: e.last.IDs[agentruntime.Session], TurnID: e.last.IDs[agentruntime.Turn], Status: string(statusOf(end)),
		Payload: struct {
			AgentID   string `json:"agent_id"`
			MessageID string `json:"message_id"`
			FinalText string `json:"final_text"`
			Result    any    `json:"result"`
		}{e.sent.AgentID, e.sent.MessageID, finalText, result}})
	if err == nil {
		_, err = fmt.Fprintln(e.remote.streams.Out, string(machineText(data)))
	}
	if err != nil {
		return err
	}
	e.remote.told = true
	return e.remote.showAnswer(end, quiet)
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
