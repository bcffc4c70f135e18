package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

func newQueueCommand(streams Streams) *cobra.Command {
	limit := 50
	list := remoteCommand(streams, "list", "List the messages that wait for a turn, the next one first",
		func(ctx context.Context, r *remote) error { return runQueueList(ctx, r, limit) })
	list.Flags().IntVar(&limit, "limit", limit, "`number` of messages")
	remove := remoteCommand(streams, "remove MESSAGE", "Take a message out of the queue",
		func(ctx context.Context, r *remote) error {
			removed, err := r.Unqueue(ctx, r.Agent, r.args[0])
			return r.show(removed, err, func() error {
				return printTable(r.streams, []ledger.Entry{removed}, []string{"MESSAGE", "STATUS"},
					func(e ledger.Entry) []string { return []string{e.MessageID, string(e.Status)} })
			})
		})
	remove.Long = "Take a message out of the queue before its turn begins. A turn that runs is ended with\n" +
		"holon agent abort."
	return group("queue", "See and remove what waits for an agent", "", tableCommand(list, streams), remove)
}

func runQueueList(ctx context.Context, r *remote, limit int) error {
	queue, err := r.Queue(ctx, r.Agent, limit)
	why := ""
	err = showList(&r.base, queue, err, []string{"MESSAGE", "FROM", "PRIORITY", "CAME", "STATE", "TEXT*"},
		func(q view.MessageState) []string {
			state, text := queueState(r.streams, q.Entry), cmp.Or(q.Message.Body.Text, string(q.Message.Body.Value))
			if r.streams.OutTTY { // the reason, which all share, stands below
				text = visible.OneLine(text, 40)
				if q.Entry.Blocked() {
					state, why = "blocked", q.Entry.Reason
				}
			}
			return []string{q.Message.ID, string(q.Entry.Sender), string(q.Entry.Priority),
				r.streams.when(turns.At(q.Message.CreatedAt)), state, text}
		})
	if err != nil || why == "" {
		return err
	}
	return r.streams.print("blocked: ", "  ", r.streams.oneLine(why, 1000))
}

// queueState is the status of an entry, and why it is not taken now.
func queueState(streams Streams, e ledger.Entry) string {
	switch {
	case e.Blocked():
		return "blocked: " + e.Reason
	case e.NotBefore != nil:
		return string(ledger.Queued) + ", tried again " + streams.when(turns.At(*e.NotBefore))
	}
	return string(e.Status)
}
