package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"holon/runner"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/state/files"
)

// aboutRun is the part of a help text about the argument RUN.
const aboutRun = `RUN is the id of a run, the beginning of one, its name, or "last": the last run of
this workspace, to apply, diff and checkout the last that changed something.`

// findRun finds the run that a person means in the workspace dir, which is this directory when it is "".
func findRun(ctx context.Context, home state.Home, run, dir string) (*files.Entry, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return files.New(home).Find(ctx, run, dir)
}

// result returns what a run that has ended started from and what it changed; nil
// when it had no turn that could change something.
func result(entry *files.Entry) (workspace.Info, *workspace.Diff, error) {
	if entry.Manifest == nil {
		hint, status := "go on with it: holon attach "+entry.ID, state.StatusOrphaned
		if entry.Live {
			status = entry.Status()
			hint = "wait for its end: holon logs --follow " + entry.ID
		}
		return workspace.Info{}, nil, &runner.Error{Code: "run_not_finished", Param: "RUN",
			Message: fmt.Sprintf("%s is %s and has no result", entry.ID, status), Hint: hint}
	}
	ws := workspaceOf(entry.Manifest)
	if ws.Changes == nil && entry.Manifest.Turn != nil {
		return ws.Source, nil, uncollected(entry)
	}
	return ws.Source, ws.Changes, nil
}

// uncollected is the error of a run whose turn ended and whose change was not collected.
func uncollected(entry *files.Entry) error {
	e := &runner.Error{Code: "nothing_collected", Param: "RUN", Message: "the change of " + entry.ID +
		" was not collected", Hint: "holon show " + entry.ID + " says why; start it again"}
	if _, err := os.Stat(filepath.Join(entry.Dir, state.SessionFile)); err == nil { // it holds its tree
		e.Message = "the change of " + entry.ID + " is not saved yet"
		e.Hint = "free some space if there is none, and save it with: holon gc"
	}
	return e
}

// workspaceOf is the workspace of a manifest; zero when the run ended before it was recorded.
func workspaceOf(m *state.Manifest) state.Workspace {
	if m.Workspace == nil {
		return state.Workspace{}
	}
	return *m.Workspace
}

// showExecuted names the changed files that programs act on by themselves.
func showExecuted(streams Streams, warnings []workspace.Warning) {
	for _, line := range oneshot.ExecutedFiles(warnings) {
		fmt.Fprintln(streams.Err, streams.defuse(line))
	}
}

// consent keeps files that programs execute from being written without a person's
// consent: the flag, or an answer at the terminal.
type consent struct{ allow bool }

func (c *consent) flag(f *pflag.FlagSet) {
	f.BoolVar(&c.allow, "allow-executed", false,
		"write files too that programs execute without being asked to, which you have read")
}

// confirm shows the files, and asks where a person sees the question.
func (c *consent) confirm(ctx context.Context, streams Streams, asJSON bool, run string) landing.Confirm {
	return func(files []workspace.Warning) error {
		asks := !c.allow && !asJSON && streams.InTTY && streams.ErrTTY
		if c.allow || asks || !asJSON && len(workspace.GroupExecuted(files)) > landing.Named {
			showExecuted(streams, files)
		}
		if c.allow {
			return nil
		}
		if !asks {
			return landing.Unconfirmed(files, run)
		}
		sure, err := streams.ask(ctx, "write them? [y/N] ")
		if err == nil && !sure {
			err = landing.Unconfirmed(files, run)
		}
		return err
	}
}
