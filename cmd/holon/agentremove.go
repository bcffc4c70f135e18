package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/control/wire"
	"holon/runner/workspace"
	"holon/state"
)

func newAgentRemoveCommand(streams Streams) *cobra.Command {
	a, yes := wire.Archive{}, false
	cmd := agentCommand(streams, "remove AGENT", "Remove an agent for good",
		func(ctx context.Context, r *remote) error { return runAgentRemove(ctx, r, a, yes) })
	cmd.Long = `Remove an agent for good, after you have seen what it loses and agreed: messages in
its queue, timers, the trigger, what it waits for, and with --force the turn that runs,
and what it changed in workspaces and you did not take, of which a patch is kept, and
a git bundle of commits on other branches, stashes and the like.
Its home directory stays where it is, and so does its record: holon transcript and
holon tail show it. No other agent gets its id. The default agent stays.`
	f := cmd.Flags()
	f.BoolVar(&yes, "yes", false, "do not ask, for scripts")
	f.BoolVar(&a.DryRun, "dry-run", false, "say what the agent would lose, and do nothing")
	f.BoolVar(&a.Force, "force", false,
		"also while a turn runs, which is aborted, or with changes or commits that were not taken")
	return cmd
}

func runAgentRemove(ctx context.Context, r *remote, a wire.Archive, yes bool) error {
	if !a.DryRun && !yes {
		if err := r.confirmRemoval(ctx); err != nil {
			return err
		}
	}
	done, err := r.Archive(ctx, r.args[0], a)
	verb := "removed"
	if a.DryRun {
		verb = "would remove"
	}
	return r.showFacts(done, err, losses(verb, done)...)
}

// confirmRemoval shows a person what is lost, and asks.
func (r *remote) confirmRemoval(ctx context.Context) error {
	if !r.streams.InTTY || !r.streams.ErrTTY || r.JSON {
		return usage("--yes", "there is no one to ask whether agent "+r.args[0]+" is to be removed",
			"give --yes; --dry-run says what is lost")
	}
	would, err := r.Archive(ctx, r.args[0], wire.Archive{DryRun: true})
	if err != nil {
		return err
	}
	shown := r.streams.ofErr()
	shown.Out, shown.OutTTY = r.streams.Err, true
	if err := facts(shown, losses("would remove", would)...); err != nil {
		return err
	}
	sure, err := r.streams.ask(ctx, "remove it? [y/N] ")
	if err == nil && !sure {
		err = usage("AGENT", "it was not removed", "answer y, or give --yes")
	}
	return err
}

// losses are what a removal says, the home that stays last.
func losses(verb string, a wire.Archived) []string {
	lost := []string{verb, a.AgentID, "turn", a.Lost.RunID,
		"queued messages", strconv.Itoa(a.Lost.QueuedMessages), "timers", strconv.Itoa(a.Lost.Timers),
		"triggers", strconv.Itoa(a.Lost.Triggers), "waits", strconv.Itoa(a.Lost.Waits),
		"open work items", strconv.Itoa(a.Lost.WorkItems), "tasks", strconv.Itoa(a.Lost.Tasks),
		"children", strconv.Itoa(a.Lost.Children), "trees, whose patches stay", strconv.Itoa(a.Lost.Trees),
		"home, which stays", a.AgentHome}
	for _, c := range a.Changes {
		if c.Changes.PatchBytes > 0 {
			lost = append(lost, "changes of "+c.Tree+", kept as", c.Changes.Patch)
		}
		if c.Changes.Bundle != "" {
			lost = append(lost, "commits of "+c.Tree+", "+branchNames(c.Changes.Branches)+", kept as", c.Changes.Bundle)
		}
		for _, what := range workspace.Lost(&c.Changes) {
			lost = append(lost, "tree "+c.Tree+", which stays", visible.OneLine(what, 300))
		}
	}
	return lost
}

// branchNames names commits that are not part of a change.
func branchNames(branches []state.Branch) string {
	var names []string
	for _, b := range branches {
		names = append(names, fmt.Sprintf("%s (%d)", b.Name, b.Commits))
	}
	return visible.OneLine(strings.Join(names, ", "), 1000)
}

// ask asks a person at the terminal; anything but yes is no.
func (s Streams) ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(s.Err, question)
	answer, err := readAll(ctx, &untilNewline{r: s.In})
	if err != nil {
		return false, err
	}
	text := strings.ToLower(strings.TrimSpace(string(answer)))
	return text == "y" || text == "yes", nil
}

// untilNewline ends with the first line.
type untilNewline struct {
	r     io.Reader
	ended bool
}

func (u *untilNewline) Read(p []byte) (int, error) {
	if u.ended || len(p) == 0 {
		return 0, io.EOF
	}
	n, err := u.r.Read(p[:1])
	u.ended = n == 1 && p[0] == '\n'
	return n, err
}
