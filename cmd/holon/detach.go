package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner/daemon"
)

// detachedFlag is the flag of the process that holds a run which holon run --detach has left.
const detachedFlag = "detached"

// detach starts a holon with the same options that holds the run. Until the agent works it has this command's standard
// error and ends with it; then it prints the run's id.
func (o *runOptions) detach(cmd *cobra.Command) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	started, err := daemon.StartDetached(cmd.Context(), self, o.detachedArgs(cmd.Flags()), o.Prompt)
	if err != nil {
		return err
	}
	if started.Run != "" {
		return o.showDetached(started.Run)
	}
	_, err = o.streams.Out.Write(started.Printed)
	if started.ExitCode != 0 {
		return exitError(started.ExitCode)
	}
	return err
}

// detachedArgs are the arguments of that holon. The prompt comes from its standard input.
func (o *runOptions) detachedArgs(flags *pflag.FlagSet) []string {
	args := []string{"run", "--" + detachedFlag}
	flags.Visit(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case f.Name == "detach", f.Name == reviewFlag: // the prompt has the comments
		case f.Name == "continue": // the last run may be another one by then
			args = append(args, "--continue="+o.parent.ID)
		case isList:
			for _, value := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+value)
			}
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			args = append(args, "--"+f.Name) // as inJSON reads it
		default:
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return append(args, "-")
}

// showDetached prints the id of a run that goes on without this command.
func (o *runOptions) showDetached(id string) error {
	if !o.Quiet && o.streams.OutTTY {
		o.streams.say("holon: it goes on; see it with holon logs -f, holon attach and holon stop")
	}
	if o.JSON {
		return printJSON(o.streams, struct {
			RunID string `json:"run_id"`
		}{id})
	}
	_, err := fmt.Fprintln(o.streams.Out, visible.OneLine(id, 130))
	return err
}

// leaving is the watcher of a run whose caller returns as soon as the agent works.
type leaving struct {
	*progress
	id string
}

// Phase implements daemon.Watcher. Nothing is printed once the caller has the id: its terminal may be gone.
func (l *leaving) Phase(name string) {
	l.progress.Phase(name)
	if name != "turn" {
		return
	}
	l.end()
	daemon.Leave(l.id)
}
