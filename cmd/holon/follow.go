package main

import (
	"context"
	"errors"
	"math"
	"time"

	"holon/internal/duration"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

// ofMessage is what belongs to one message: the message and the turns that were made for it.
type ofMessage struct {
	sent  wire.Enqueued
	turns map[string]bool
}

// has reports whether an event that names a message and a turn, "" for none, belongs to the message.
func (o *ofMessage) has(message, turn string) bool {
	ours := message == o.sent.MessageID
	if ours && turn != "" {
		o.turns[turn] = true
	}
	return ours || o.turns[turn]
}

// watch follows a message until it has ended. Unless it is quiet it shows what the agent does for the message; where
// events are printed, it prints them.
func (r *remote) watch(ctx context.Context, sent wire.Enqueued, quiet bool) (end view.MessageState, err error) {
	r.view = newProgress(r.streams, quiet)
	r.view.json = r.JSON || r.streaming()
	defer r.view.end()
	of := &ofMessage{sent, map[string]bool{}}
	if r.streaming() {
		r.events = &agentEvents{eventLines: eventLines{streams: r.streams}, remote: r, after: max(sent.EventSeq-1, 0),
			ofMessage: of}
	}
	end, err = r.messageNow(ctx, sent)
	// the events of a new message are read also when it has ended already: they show which commands were run
	if err != nil || ended(end) && (sent.Replayed || end.Entry.Blocked()) {
		if err == nil {
			err = r.events.upTo(ctx, math.MaxInt64)
		}
		return end, err
	}
	r.streams.watch(true)
	r.view.Phase("waiting for " + sent.AgentID)
	end, err = r.followMessage(ctx, end, of)
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errReaderGone) {
		r.view.end()
		r.streams.say("holon: no longer watched; the agent goes on: holon tail -f --agent " + sent.AgentID)
	}
	return end, err
}

// followMessage shows the items of an agent's stream that belong to a message, until that has ended.
func (r *remote) followMessage(ctx context.Context, end view.MessageState, of *ofMessage) (view.MessageState, error) {
	follow := client.Follow{After: max(of.sent.EventSeq-1, 0), Text: r.view.live(), Away: r.sayAway}
	for item, err := range r.Follow(ctx, of.sent.AgentID, follow) {
		if err == nil && item.Event != nil {
			err = follow.Read(ctx, func() error { return r.events.upTo(ctx, item.Event.EventSeq) })
		}
		if err != nil {
			return end, err
		}
		if !r.showItem(item, of) {
			continue
		}
		err = follow.Read(ctx, func() (err error) {
			if end, err = r.messageNow(ctx, of.sent); err == nil && ended(end) {
				err = r.events.upTo(ctx, math.MaxInt64)
			}
			return err
		})
		if err != nil || ended(end) {
			return end, err
		}
	}
	return end, context.Cause(ctx)
}

// showItem shows an item of the stream, and reports whether the message may have ended.
func (r *remote) showItem(item client.Item, of *ofMessage) (mayHaveEnded bool) {
	ev := item.Event
	switch {
	case item.Text != nil:
		if item.Text.MessageID == of.sent.MessageID {
			r.view.AgentText(item.Text)
		}
		return false
	case ev == nil:
		return item.Reset != nil
	}
	ours := of.has(ev.Provenance.MessageID, ev.Provenance.TurnID)
	if ours {
		r.view.AgentEvent(ev)
	}
	return ev.Type == record.AgentStateChanged || ours && mayEnd[ev.Type]
}

// ended reports whether waiting for a message makes no sense any more: it has ended, or a setting has to change before
// a turn can be run for it.
func ended(end view.MessageState) bool { return end.Entry.Status.Terminal() || end.Entry.Blocked() }

// mayEnd are the events of a message after which it is asked what became of it.
var mayEnd = map[string]bool{record.QueueEntrySettled: true, record.QueueEntryQuarantined: true,
	record.QueueEntryBlocked: true, record.QueueEntryRequeued: true, record.TurnTerminal: true}

// messageNow asks what became of a message. One in the queue of a stopped agent is blocked, as that does not take it
// before it is started. The agent is asked first: what it has claimed before it was stopped is not queued.
func (r *remote) messageNow(ctx context.Context, sent wire.Enqueued) (view.MessageState, error) {
	agent, err := r.Status(ctx, sent.AgentID)
	if err != nil {
		return view.MessageState{}, err
	}
	end, err := r.Message(ctx, sent.AgentID, sent.MessageID)
	if err == nil && agent.Agent.Status == rules.Stopped && end.Entry.Status == ledger.Queued {
		end.Entry.Status, end.Entry.Code = ledger.Blocked, string(scheduler.CodeAgentStopped)
		end.Entry.Reason = "the agent is stopped"
	}
	return end, err
}

// sayAway reports why nothing happens while the daemon is away.
func (r *remote) sayAway(patience time.Duration) {
	text := "holon: the daemon does not answer; it is waited for, " + duration.Text(patience) + " at most"
	if r.view != nil && !r.view.quiet {
		r.view.println(text) // above the status line
		return
	}
	r.streams.say(text)
}
