package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/record"
	"holon/state/ledger"
)

func newTranscriptCommand(streams Streams) *cobra.Command {
	limit := 50
	cmd := remoteCommand(streams, "transcript", "Show the messages to an agent, and what it wrote and did",
		func(ctx context.Context, r *remote) error {
			return runTranscript(ctx, r, limit)
		})
	cmd.Long = `Show the newest of the messages to an agent, and of what it wrote and did, in order:
rounds of the model with their number and tokens, calls of tools with the beginning of
their results and the file that has the whole. It reads and changes nothing.`
	cmd.Flags().IntVar(&limit, "limit", limit, "`number` of entries")
	return cmd
}

func runTranscript(ctx context.Context, r *remote, limit int) error {
	entries, err := r.Transcript(ctx, r.Agent, limit)
	return r.show(entries, err, func() error {
		for _, e := range entries {
			if err := r.showEntry(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// speakers are how entries begin.
var speakers = map[record.EntryKind]string{
	record.EntryMessage: "message", record.EntryRound: "agent", record.EntryTools: "tools",
	record.EntryFailure: "failure", record.EntryContinue: "message, again after its turn was interrupted",
}

func (r *remote) showEntry(e record.TranscriptEntry) error {
	at := e.CreatedAt.Time().UTC().Format(time.RFC3339)
	if r.streams.OutTTY {
		at = e.CreatedAt.Time().Local().Format(time.DateTime)
	}
	if _, err := fmt.Fprintf(r.streams.Out, "%s  %s\n", at, r.streams.oneLine(entryHead(e), 200)); err != nil {
		return err
	}
	text := entryText(e)
	if text == "" { // a round that calls tools only
		return nil
	}
	if e.Kind == record.EntryRound && r.streams.OutTTY && !r.streams.CI { // Markdown of the model
		narrow := r.streams
		narrow.Width = func() int { return r.streams.Width() - 2 }
		return r.streams.indented(narrow.render(text))
	}
	return r.streams.paragraph(text)
}

// entryHead is what an entry is: of a round its number, and what it took.
func entryHead(e record.TranscriptEntry) string {
	head := cmp.Or(speakers[e.Kind], string(e.Kind))
	if e.Round > 0 {
		head += fmt.Sprintf("  round %d", e.Round)
	}
	if e.Kind != record.EntryRound || e.InputTokens == 0 {
		return head
	}
	var data struct {
		Tokens struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"token_usage"`
	}
	_ = json.Unmarshal(e.Data, &data) // then nothing was cached
	return fmt.Sprintf("%s  %d tokens in, %d of them cached, %d out", head, e.InputTokens, data.Tokens.Cached,
		e.OutputTokens)
}

// shownResult bounds what is shown of a result, in bytes. The whole of what is kept is in the JSON.
const shownResult = 400

// entryText is the text of an entry, for a person: its text if it has one, else its
// data as they are.
func entryText(e record.TranscriptEntry) string {
	var data struct {
		Text    string          `json:"text"`
		Call    string          `json:"call"`
		Status  string          `json:"status"`
		Summary string          `json:"summary"`
		Output  string          `json:"output"`
		Ref     string          `json:"output_ref"`
		Expired *record.Expired `json:"output_expired"`
		Body    ledger.Body     `json:"body"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return string(e.Data)
	}
	if data.Call != "" {
		text := data.Call + ": " + data.Summary
		if data.Output != "" && data.Status != "error" {
			text += "\n" + visible.Clip(data.Output, shownResult)
		}
		if data.Ref != "" {
			text += "\nwhole output: " + data.Ref
			if data.Expired != nil {
				at := data.Expired.At.Time().Format(time.RFC3339)
				text += fmt.Sprintf(", expired %s (%s)", at, data.Expired.Reason)
			}
		}
		return text
	}
	for _, text := range []string{data.Text, data.Body.Text, string(data.Body.Value), data.Summary} {
		if text != "" {
			return text
		}
	}
	if e.Kind == record.EntryRound {
		return ""
	}
	return string(e.Data)
}
