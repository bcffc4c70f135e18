package main

import (
	"context"

	"github.com/spf13/cobra"

	"holon/runner/control/wire"
)

func newWakeCommand(streams Streams) *cobra.Command {
	w := &wire.Wake{}
	cmd := remoteCommand(streams, "wake", "Ask an agent to look",
		func(ctx context.Context, r *remote) error {
			woken, err := r.Wake(ctx, r.Agent, *w)
			return r.showRow(woken, err, woken.AgentID, woken.Disposition)
		})
	cmd.Long = `Ask an agent to look whether there is something to do. It says nothing that the
agent would have to read, unless there is a --description: an agent that waits
for nothing goes on sleeping otherwise. Several are taken together while the
agent is busy.`
	cmd.Example = `  holon wake --reason deployed --description "version 12 is out"`
	f := cmd.Flags()
	f.StringVar(&w.Reason, "reason", "operator", "`word` that says why")
	f.StringVar(&w.Description, "description", "", "`text` for the agent, which makes it worth a turn")
	f.StringVar(&w.Source, "source", "cli", "`word` that names the requester")
	return cmd
}
