package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
	"holon/state/files"
)

// attemptCommand is lifecycleCommand for a command about the result of a run, which may be that of an attempt.
func attemptCommand(streams Streams, use, short string, do func(context.Context, *lifecycle) error) *cobra.Command {
	var number int
	var cmd *cobra.Command
	cmd = lifecycleCommand(streams, use, short, func(ctx context.Context, l *lifecycle) error {
		if l.attempt = number; number < 1 && cmd.Flags().Changed("attempt") {
			return usage("--attempt", fmt.Sprintf("cannot be %d", number), "attempts are counted from 1")
		}
		return do(ctx, l)
	})
	cmd.Flags().IntVar(&number, "attempt", 0, "`number` of an attempt of a run with several (default the best)")
	return cmd
}

// resultRun finds the run of the argument, or the attempt of it that --attempt names, by default the best.
func (l *lifecycle) resultRun(ctx context.Context) (*files.Entry, error) {
	entry, err := l.run(ctx)
	if err != nil {
		return nil, err
	}
	return attemptOf(ctx, l.home, entry, l.attempt)
}

// changedRun is resultRun for a command about what a run changed: the last one is the newest that changed something,
// or whose change could not be collected, and is named where others are newer. changes reports whether a change counts.
func (l *lifecycle) changedRun(ctx context.Context, changes func(*workspace.Diff) bool) (*files.Entry, error) {
	if l.ref() != files.Last {
		return l.resultRun(ctx)
	}
	here, err := filepath.Abs("")
	if err != nil {
		return nil, err
	}
	newer := ""
	entry, err := files.New(l.home).LastThat(ctx, here, func(e *files.Entry) bool {
		m := e.Manifest
		if m == nil { // which has no result yet
			newer = cmp.Or(newer, fmt.Sprintf("%s is newer and %s", e.ID, e.Status()))
			return false
		}
		diff := workspaceOf(m).Changes
		found := diff == nil && m.Turn != nil || diff != nil && changes(diff) ||
			slices.ContainsFunc(m.Attempts, func(a state.Attempt) bool { return a.Files > 0 })
		if !found {
			newer = cmp.Or(newer, e.ID+" is newer and changed nothing")
		}
		return found
	})
	if err != nil {
		return nil, err
	}
	if newer != "" && !strings.HasPrefix(newer, entry.ID) { // where none has a change, it is the newest
		l.streams.say(fmt.Sprintf("holon: the last run with a change is %s; %s", whichRun(entry), newer))
	}
	return attemptOf(ctx, l.home, entry, l.attempt)
}

// whichRun names a run as a person knows it: by its id, and its name or task.
func whichRun(entry *files.Entry) string {
	if m := entry.Manifest; m != nil {
		return entry.ID + " (" + visible.OneLine(cmp.Or(m.Name, m.Task), maxRunName) + ")"
	}
	return entry.ID
}

// anyFile reports whether a change has a file.
func anyFile(diff *workspace.Diff) bool { return len(diff.Files) > 0 }

// attemptOf is the attempt of a run with that number, by default the best. A run without attempts is its only one.
func attemptOf(ctx context.Context, home state.Home, entry *files.Entry, number int) (*files.Entry, error) {
	attempts := oneshot.Attempts(entry)
	refuse := func(message, hint string) error { return usage("--attempt", message, hint) }
	switch {
	case number == 0 && len(attempts) == 0:
		return entry, nil
	case number != 0 && (number > max(1, len(attempts))):
		return nil, refuse(fmt.Sprintf("%s has no attempt %d", entry.ID, number), fmt.Sprintf("it has %s",
			count(max(1, len(attempts)), "attempt")))
	case len(attempts) == 0:
		return entry, nil
	case number == 0 && entry.Manifest == nil:
		return nil, refuse(entry.ID+" has several attempts and has not ended", "name one of them with --attempt N")
	case number == 0:
		if number = entry.Manifest.Winner; number == 0 {
			return nil, noWinner(entry, refuse)
		}
	}
	return files.New(home).Open(ctx, state.AttemptID(entry.ID, number))
}

// noWinner is the error of a run with attempts of which none is the best.
func noWinner(entry *files.Entry, refuse func(message, hint string) error) error {
	if tied := oneshot.Tied(entry.Manifest); len(tied) > 0 {
		return refuse(fmt.Sprintf("attempts %s of %s are equal", listed(tied), entry.ID),
			"choose one of them with --attempt N; holon diff --attempt N shows it")
	}
	return refuse("no attempt of "+entry.ID+" passed the check", "name one with --attempt N all the same; holon show "+
		entry.ID+" lists them")
}

// showStanding lists the attempts of a run that has not ended.
func (l *lifecycle) showStanding(v oneshot.View) error {
	return printTable(l.streams, v.Attempts, []string{"ATTEMPT", "STATUS", "CONTAINER", "MODEL*"},
		func(a oneshot.View) []string {
			_, number := state.WholeOf(a.ID)
			return []string{number, standing(a), a.Container, a.Model}
		})
}

// checkOf says how the check of a run ended, "" if it had none.
func checkOf(m *state.Manifest) string {
	c := m.Checked
	if c == nil {
		return ""
	}
	text := oneshot.CheckText(state.Attempt{Checked: c, Outcome: m.Outcome})
	if c.DurationMS > 0 {
		text += " in " + elapsed(c.DurationMS)
	}
	return text + ": " + visible.OneLine(c.Command, 300)
}

// bestOf says which attempt is the best, "" for a run without several.
func bestOf(m *state.Manifest) string {
	switch tied := oneshot.Tied(m); {
	case m.Winner > 0:
		return "attempt " + strconv.Itoa(m.Winner)
	case len(tied) > 0:
		return "attempts " + listed(tied) + " are equal"
	case len(m.Attempts) > 0:
		return "none"
	}
	return ""
}
