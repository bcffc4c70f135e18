package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
)

// within is how many letters a name may be away from what was written to be meant by it: not all of a short word.
func within(written string) int {
	if len(written) < 3 {
		return 1
	}
	return 2
}

// similarCommand ends a sentence about a command that does not exist.
func similarCommand(cmd *cobra.Command, written string) string {
	cmd.SuggestionsMinimumDistance = within(written)
	return didYouMean("", cmd.SuggestionsFor(written))
}

// similarFlag ends a sentence about a flag that does not exist. Flags are compared as the commands of a group are.
func similarFlag(cmd *cobra.Command, written string) string {
	if len(written) < 2 {
		return ""
	}
	names := &cobra.Command{SuggestionsMinimumDistance: within(written)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return didYouMean("--", names.SuggestionsFor(written))
}

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return ", did you mean " + strings.Join(names, " or ") + "?"
}

// noCommand refuses an argument where only the name of a command can be.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("COMMAND", fmt.Sprintf("there is no command %q", visible.OneLine(args[0], 80))+
			similarCommand(cmd, args[0]), seeHelp(cmd))
	}
	return nil
}
