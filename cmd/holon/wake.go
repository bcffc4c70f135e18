package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holon/runner/control/wire"
)

// newWakeCommand makes `holon wake`.
func newWakeCommand(streams Streams) *cobra.Command {
	w := &wire.Wake{}
	cmd, r := remoteCommand(streams, "wake", "Ask an agent to look", 0, 0,
		func(ctx context.Context, r *remote) error {
			return runWake(ctx, r, *w)
		})
	cmd.Long = `Ask an agent to look whether there is something to do. It says nothing that the
agent would have to read, unless there is a --description: an agent that waits
for nothing goes on sleeping otherwise. Several are taken together while the
agent is busy.`
	cmd.Example = `  holon wake --reason deployed --description "version 12 is out"`
	r.onAgent(cmd)
	f := cmd.Flags()
	f.StringVar(&w.Reason, "reason", "operator", "`word` that says why")
	f.StringVar(&w.Description, "description", "", "`text` for the agent, which makes it worth a turn")
	f.StringVar(&w.Source, "source", "cli", "`word` that says who asks")
	return cmd
}

func runWake(ctx context.Context, r *remote, w wire.Wake) error {
	woken, err := r.Wake(ctx, r.Agent, w)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, woken)
	}
	_, err = fmt.Fprintf(r.streams.Out, "%s\t%s\n", r.streams.oneLine(woken.AgentID, 100),
		r.streams.oneLine(woken.Disposition, 100))
	return err
}
