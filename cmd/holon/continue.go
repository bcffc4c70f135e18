package main

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/state"
	"holon/state/files"
)

// findParent finds the run that --continue names, takes from it what no flag says, and returns the arguments that are
// left: a RUN before the prompt is the value of the flag.
func (o *runOptions) findParent(cmd *cobra.Command, home state.Home, args []string) (rest []string, err error) {
	if !cmd.Flags().Changed("continue") {
		return args, nil
	}
	if o.Continue == files.Last && len(args) == 2 {
		o.Continue, args = args[0], args[1:]
	}
	if o.parent, err = findRun(cmd.Context(), home, o.Continue); err != nil {
		if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "run" {
			e.Param = "--continue"
		}
		return nil, err
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
