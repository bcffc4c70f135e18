package main

import (
	"context"
	"fmt"
	"time"

	"holon/internal/visible"
	"holon/state"

	"github.com/spf13/cobra"
)

// completeWithin bounds how long a shell waits for the daemon.
const completeWithin = time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// agentIDs completes ids of agents. A daemon that is not there completes nothing.
func agentIDs(streams Streams) completer {
	return onMachine(func(ctx context.Context, _ *host, _ state.Home) (ids []string) {
		r := &remote{base: base{streams: streams}}
		if r.begin(nil) != nil || r.connect() != nil {
			return nil
		}
		defer r.Close()
		agents, err := r.Agents(ctx)
		if err != nil {
			return nil
		}
		for _, a := range agents {
			ids = append(ids, visible.OneLine(a.Identity.AgentID, 100))
		}
		return ids
	})
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
}

// loading is how each shell gets the words that holon completes: those that run, and those that are started.
var loading = map[string]string{
	"bash": `For the shell that you are in, and in ~/.bashrc for all that are started:

  source <(holon completion bash)`,
	"zsh": `For the shell that you are in, and in ~/.zshrc, behind compinit, for all that are
started:

  source <(holon completion zsh)`,
	"fish": `For the shell that you are in, and for all that are started:

  holon completion fish | source
  holon completion fish >~/.config/fish/completions/holon.fish`,
	"powershell": `For the shell that you are in, and in the file $PROFILE for all that are started:

  holon completion powershell | Out-String | Invoke-Expression`,
}

// describeCompletion gives the commands that print scripts our words and arguments.
func describeCompletion(cmd *cobra.Command) {
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("SHELL", fmt.Sprintf("there is no completion for %q", visible.OneLine(args[0], 80)), seeHelp(cmd))
		}
		return nil
	}
	cmd.Short = "Print a script by which a shell completes what you type"
	cmd.Long = `Print a script by which a shell completes commands, flags and their values, and what is
on this machine: runs, agents, models, settings. The help of each shell says how it is
loaded.`
	for _, shell := range cmd.Commands() {
		shell.Args = argumentsOfUse
		shell.Short = "Print the script for " + shell.Name()
		shell.Long = shell.Short + ".\n\n" + loading[shell.Name()]
		if f := shell.Flags().Lookup("no-descriptions"); f != nil {
			f.Usage = "complete names without their descriptions"
		}
		if shell.Name() == "bash" {
			standalone(shell)
		}
	}
}
