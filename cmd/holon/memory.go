package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
)

func newMemoryCommand(streams Streams) *cobra.Command {
	q := view.MemoryQuery{Limit: view.DefaultMemories}
	search := remoteCommand(streams, "search QUERY", "Search what an agent remembers",
		func(ctx context.Context, r *remote) error {
			if strings.TrimSpace(r.args[0]) == "" {
				return usage("QUERY", "is empty", "give the words to search for")
			}
			q.Text = r.args[0]
			found, err := r.SearchMemory(ctx, r.Agent, q)
			return showList(&r.base, found.Results, err, memoryHeads, r.memoryRow)
		})
	check := search.PreRunE
	search.PreRunE = func(cmd *cobra.Command, args []string) error { // its bound is lower than that of lists
		return cmp.Or(checkRange("--limit", q.Limit, 1, view.MaxMemories), check(cmd, args))
	}
	search.Long = `Search what an agent remembers, as its tool MemorySearch does: its briefs, episodes and
work items, its workspaces, and the files memory/self.md and memory/operator.md of its
home. The best result is first. Nothing in QUERY is an operator.`
	search.Flags().IntVar(&q.Limit, "limit", q.Limit, "`number` of results, at most 50")
	search.Flags().BoolVar(&q.AllWorkspaces, "all-workspaces", false,
		"also what belongs to other workspaces than that\nin which the agent works")
	chars := view.DefaultMemoryChars
	show := remoteCommand(streams, "show SOURCE_REF", "Show a memory that a search found",
		func(ctx context.Context, r *remote) error {
			if err := checkRange("--max-chars", chars, 1, view.MaxMemoryChars); err != nil {
				return err
			}
			m, err := r.Memory(ctx, r.Agent, r.args[0], chars)
			return r.show(m, err, func() error { return r.showMemory(m) })
		})
	show.Flags().IntVar(&chars, "max-chars", chars, "`number` of characters of the text that are shown,\nat most 50000")
	rebuild := remoteCommand(streams, "rebuild", "Make the index of an agent's memory anew",
		func(ctx context.Context, r *remote) error {
			done, err := r.RebuildMemory(ctx, r.Agent)
			return r.show(done, err, func() error {
				return facts(r.streams, "agent", done.AgentID, "memories", strconv.Itoa(done.Sources))
			})
		})
	rebuild.Long = `Make the index of an agent's memory anew, from the ledger and the files in its home. A
search does that by itself where there is no index that can be read.`
	return group("memory", "Search what an agent remembers", "", tableCommand(search, streams), show, rebuild)
}

var memoryHeads = []string{"SOURCE", "KIND", "CHANGED", "TITLE*", "TEXT*"}

func (r *remote) memoryRow(m view.MemoryResult) []string {
	return []string{m.SourceRef, m.Kind, r.streams.when(m.UpdatedAt), r.streams.oneLine(m.Title, 200),
		r.streams.oneLine(m.Snippet, 500)}
}

func (r *remote) showMemory(m view.MemorySource) error {
	err := facts(r.streams, "source", m.SourceRef, "kind", m.Kind, "title", r.streams.oneLine(m.Title, 500),
		"workspace", m.WorkspaceID, "file", m.SourcePath, "changed", r.streams.when(m.UpdatedAt))
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(r.streams.Out, "\n%s\n", strings.TrimSuffix(visible.Text(m.Content), "\n")); err != nil {
		return err
	}
	if m.Truncated {
		_, err = fmt.Fprintln(r.streams.Err, "this is the beginning of the text; --max-chars shows more")
	}
	return err
}
