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
				if done.Patch != "" {
					r.streams.say(fmt.Sprintf("what was changed in %d files is kept as a patch", done.Changed))
				}
				if done.Bundle != "" {
					r.streams.say("commits elsewhere are kept as a git bundle")
				}
				for _, kept := range []string{done.Patch, done.Bundle} {
					if kept == "" {
						continue
					}
					if _, err := fmt.Fprintln(r.streams.Out, visible.OneLine(kept, 5000)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	cmd.Long = `Remove an isolated copy of an agent, in which it does not work now. What it changed there
and you did not take is kept as a patch, and commits elsewhere as a git bundle, whose paths are printed.`
	return cmd
}
