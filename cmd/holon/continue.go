package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/state"
	"holon/state/files"
)

// findParent finds the run that --continue names, takes from it what no flag says, and returns the arguments that are
// left: a RUN before or after the prompt, or alone, is the value of the flag.
func (o *runOptions) findParent(cmd *cobra.Command, home state.Home, args []string) (rest []string, err error) {
	if !cmd.Flags().Changed("continue") {
		return args, nil
	}
	if o.Continue == files.Last {
		if args, err = o.takeRun(cmd.Context(), home, args); err != nil {
			return nil, err
		}
	}
	if o.parent, err = findRun(cmd.Context(), home, o.Continue, o.Workspace); err != nil {
		if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "run" {
			e.Param = "--continue"
		}
		return nil, err
	}
	whole := o.parent.ID
	if o.parent, err = attemptOf(cmd.Context(), home, o.parent, 0); err != nil {
		return nil, usage("--continue", whole+" has no best attempt", "name one of them: --continue="+
			state.AttemptID(whole, 1))
	}
	m := o.parent.Manifest
	if m == nil { // which oneshot refuses, with the reason
		return args, nil
	}
	if ws := workspaceOf(m); o.Workspace == "" {
		if err := o.streams.fromElsewhere("--continue", o.Continue, o.parent.ID, ws.Path); err != nil {
			return nil, err
		}
		o.Workspace = filepath.Join(ws.Path, ws.Prefix)
	}
	return args, inherit(cmd.Flags(), map[string]string{"model": m.Model, "image": m.Image})
}

// takeRun takes the run from arguments that name one: the first, or else the second of two, since other programs have
// the value of a flag behind the prompt.
func (o *runOptions) takeRun(ctx context.Context, home state.Home, args []string) (rest []string, err error) {
	for i, arg := range args[:min(len(args), 2)] {
		if o.meansRun(ctx, home, arg) {
			o.Continue = arg
			return slices.Delete(slices.Clone(args), i, i+1), nil
		}
	}
	if len(args) == 2 {
		return nil, usage("--continue", fmt.Sprintf("neither %q nor %q is a run", visible.OneLine(args[0], 80),
			visible.OneLine(args[1], 80)), `write holon run --continue=RUN "…"; holon ps --all lists the runs`)
	}
	return args, nil
}

// leastBeginning is how much of an id means a run where a prompt could stand as well.
const leastBeginning = 4

// meansRun reports whether an argument is a run rather than the prompt: "last", the name of a run, what has the form of
// an id, or the beginning of an id that is not a short word.
func (o *runOptions) meansRun(ctx context.Context, home state.Home, arg string) bool {
	if arg == files.Last || strings.HasPrefix(arg, "run_") && !strings.ContainsAny(arg, " \t\n") {
		return true // which need not exist: then it is refused
	}
	if len(arg) < leastBeginning {
		runs, err := files.New(home).List(ctx)
		return err == nil && slices.ContainsFunc(runs, func(e *files.Entry) bool {
			return e.Start != nil && e.Start.Name == arg
		})
	}
	_, err := findRun(ctx, home, arg, o.Workspace)
	return err == nil || state.IsCode(err, state.CodeRunAmbiguous)
}

// needsPrompt says of a missing prompt where it goes: an only argument was taken for the run.
func (o *runOptions) needsPrompt(err error) error {
	if e, ok := errors.AsType[*state.Error](err); ok && o.parent != nil && e.Message == missing {
		e.Hint = fmt.Sprintf("write the task after the run: holon run --continue %s \"now add a test\"", o.parent.ID)
	}
	return err
}

// inherit sets flags that were not given, if there is a value for them.
func inherit(f *pflag.FlagSet, values map[string]string) error {
	for name, value := range values {
		if f.Changed(name) || value == "" {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}
