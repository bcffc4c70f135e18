package main

import (
	"context"
	"fmt"
	"strings"
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

// bashWords is what the script for bash needs of the package bash-completion, where that is not installed: the words of
// the line up to the cursor, as the package would split them with "=" and ":" within words.
const bashWords = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    case $line in *[[:space:]]) words+=("") ;; esac
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword - 1]}
}
fi
`

// standalone makes the script for bash work without the package bash-completion.
func standalone(bash *cobra.Command) {
	script := bash.RunE
	bash.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := fmt.Fprint(cmd.OutOrStdout(), bashWords); err != nil {
			return err
		}
		return script(cmd, args)
	}
	_, rest, _ := strings.Cut(bash.Long, "package manager.\n\n")
	bash.Long = "Generate the autocompletion script for the bash shell.\n\n" + rest
}
