package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holon/runner/agent/view"
	"holon/state/ledger"
)

// newTranscriptCommand makes `holon transcript`.
func newTranscriptCommand(streams Streams) *cobra.Command {
	limit := 50
	cmd, r := remoteCommand(streams, "transcript [flags]", "Show what was said to an agent, and what it said and did",
		0, 0, func(ctx context.Context, r *remote) error {
			return runTranscript(ctx, r, limit)
		})
	cmd.Long = "Show the newest of what was said to an agent, and of what it said and did, in order.\nIt reads and " +
		"changes nothing."
	r.onAgent(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "`number` of entries")
	return cmd
}

func runTranscript(ctx context.Context, r *remote, limit int) error {
	if err := checkRange("--limit", limit, 1, view.MaxLimit); err != nil {
		return err
	}
	entries, err := r.Transcript(ctx, r.Agent, limit)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, entries)
	}
	for _, e := range entries {
		if err := r.showEntry(e); err != nil {
			return err
		}
	}
	return nil
}

// speakers are how entries begin.
var speakers = map[ledger.TranscriptKind]string{
	ledger.TranscriptMessage: "message", ledger.TranscriptRound: "agent", ledger.TranscriptTools: "tools",
	ledger.TranscriptFailure: "failure", ledger.TranscriptContinue: "runtime",
}

func (r *remote) showEntry(e ledger.TranscriptEntry) error {
	at := e.CreatedAt.UTC().Format(time.RFC3339)
	if r.streams.OutTTY {
		at = e.CreatedAt.Local().Format(time.DateTime)
	}
	if _, err := fmt.Fprintf(r.streams.Out, "%s  %s\n", at,
		cmp.Or(speakers[e.Kind], r.streams.oneLine(string(e.Kind), 60))); err != nil {
		return err
	}
	return r.streams.paragraph(entryText(e))
}

// entryText is what an entry says, for a person: its text if it has one, else its
// data as they are.
func entryText(e ledger.TranscriptEntry) string {
	var data struct {
		Text    string      `json:"text"`
		Call    string      `json:"call"`
		Error   string      `json:"error"`
		Summary string      `json:"summary"`
		Body    ledger.Body `json:"body"`
	}
	if json.Unmarshal(e.Data, &data) == nil {
		if data.Call != "" {
			return data.Call + ": " + cmp.Or(data.Error, data.Summary)
		}
		for _, text := range []string{data.Text, data.Body.Text, string(data.Body.Value), data.Summary} {
			if text != "" {
				return text
			}
		}
	}
	return string(e.Data)
}
