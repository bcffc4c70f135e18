package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeWithin bounds how long a shell waits for the daemon.
const completeWithin = time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// agentIDs completes ids of agents. A daemon that is not there completes nothing.
func agentIDs(streams Streams) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		r := &remote{streams: streams}
		if r.connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer r.Close()
		// a completion has no context of its own
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		agents, err := r.Agents(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ids := make([]string, len(agents))
		for i, a := range agents {
			ids[i] = streams.oneLine(a.Identity.AgentID, 100)
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWords completes a flag that takes few values.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, oneOfWords(words...))
}
