package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holon/internal/visible"
)

func newWorkspaceDiscard(streams Streams) *cobra.Command {
	cmd := workspaceCommand(streams, "discard COPY", "Remove an isolated copy of an agent",
		func(ctx context.Context, r *remote) error {
			done, err := r.DiscardCopy(ctx, r.Agent, r.args[0])
			return r.show(done, err, func() error {
				r.streams.say("discarded " + done.Tree)
				if done.Patch == "" {
					return nil
				}
				r.streams.say(fmt.Sprintf("what was changed in %d files is kept as", done.Changed))
				_, err := fmt.Fprintln(r.streams.Out, visible.OneLine(done.Patch, 5000))
				return err
			})
		})
	cmd.Long = `Remove an isolated copy of an agent, in which it does not work now. What it changed there
and you did not take is kept as a patch, whose path is printed.`
	return cmd
}
