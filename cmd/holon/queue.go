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

// newQueueCommand makes `holon queue`.
func newQueueCommand(streams Streams) *cobra.Command {
	limit := 50
	list, r := remoteCommand(streams, "list", "List the messages that wait for a turn, the next one first", 0, 0,
		func(ctx context.Context, r *remote) error { return runQueueList(ctx, r, limit) })
	tableCommand(list, streams)
	r.onAgent(list)
	list.Flags().IntVar(&limit, "limit", limit, "`number` of messages")
	remove, r := remoteCommand(streams, "remove MESSAGE", "Take a message out of the queue", 1, 1, runQueueRemove)
	remove.Long = "Take a message out of the queue before its turn begins. A turn that runs is ended with\n" +
		"holon agent abort."
	r.onAgent(remove)
	return group("queue", "See and remove what waits for an agent", "", list, remove)
}

func runQueueList(ctx context.Context, r *remote, limit int) error {
	if err := checkRange("--limit", limit, 1, view.MaxLimit); err != nil {
		return err
	}
	queue, err := r.Queue(ctx, r.Agent, limit)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, queue)
	}
	t := newTable(r.streams, "MESSAGE", "FROM", "PRIORITY", "CAME", "STATE", "TEXT").cutting("TEXT")
	why := ""
	for _, q := range queue {
		state, text := queueState(r.streams, q.Entry), cmp.Or(q.Message.Body.Text, string(q.Message.Body.Value))
		if r.streams.OutTTY { // the reason, which all share, stands below
			text = visible.OneLine(text, 40)
			if q.Entry.Blocked() {
				state, why = "blocked", q.Entry.Reason
			}
		}
		t.row(q.Message.ID, string(q.Entry.Sender), string(q.Entry.Priority),
			r.streams.moment(turns.At(q.Message.CreatedAt)),
			state, text)
	}
	if err := t.end(); err != nil || why == "" {
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
		return string(ledger.Queued) + ", tried again " + streams.moment(turns.At(*e.NotBefore))
	}
	return string(e.Status)
}

func runQueueRemove(ctx context.Context, r *remote) error {
	removed, err := r.Unqueue(ctx, r.Agent, r.args[0])
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, removed)
	}
	t := newTable(r.streams, "MESSAGE", "STATUS")
	t.row(removed.MessageID, string(removed.Status))
	return t.end()
}
