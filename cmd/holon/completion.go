package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/agent/rules"
	"holon/runner/control"
	"holon/runner/credentials"
	"holon/runner/engine"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/skills"
	"holon/state"
	"holon/state/files"
	"holon/state/ledger"
)

// completers complete flags and arguments by their names, behind those of a command or a group where that matters.
func completers(streams Streams) map[string]completer {
	agents, runs := ofDaemon(streams, agentIDs), onMachine(runIDs)
	models, skills := onMachine(modelNames), onMachine(skillNames)
	providers, files := onMachine(providerNames), oneOfFiles
	return map[string]completer{
		"SESSION": ofDaemon(streams, sessionIDs), "AGENT": agents, "--agent": agents, "RUN": runs, "--continue": runs,
		"PROVIDER/NAME": models, "--model": models, "--model-fallbacks": models, "--models": models, "--judge": models,
		"--skill": skills, "skills NAME": skills, "KEY": onMachine(settingKeys), "VALUE": settingValues,
		"providers NAME": providers, "credentials NAME": providers, "credentials remove NAME": onMachine(keyNames),
		"FILE": files, "FILE...": files, "SOURCE": files, "--image": oneOfWords(settings.DefaultImage),
		"--network": oneOfWords(engine.NetworkNone, "bridge"),
		"--engine": oneOfWords(settings.EngineAuto, settings.EngineDocker, settings.EngineKubernetes,
			settings.EngineLocal),
		"--link":             oneOfWords(engine.Links()...),
		"--accept-weaker":    oneOfWords(runner.AxisNames()...),
		"--reasoning-effort": oneOfWords(rules.Efforts...),
		"--template":         oneOfWords("holon-default", "holon-developer"),
		"--output-format":    oneOfWords(outputFormats...),
		"--priority": oneOfWords(string(ledger.Interject), string(ledger.Next), string(ledger.Normal),
			string(ledger.Background)),
		"--access": oneOfWords(string(control.ModeLocal), string(control.ModeTunnel), string(control.ModeLAN),
			string(control.ModeTailnet)),
		"tail --display":           oneOfWords("info", "verbose", "debug"),
		"runtime validate --level": oneOfWords("A", "B", "C"),
	}
}

// completeNames gives every command of a tree what completes its flags and arguments.
func completeNames(cmd *cobra.Command, all map[string]completer) {
	find := func(name string) completer {
		for path := strings.Fields(cmd.CommandPath())[1:]; ; path = path[:len(path)-1] {
			complete := all[strings.Join(append(slices.Clone(path), name), " ")]
			if complete != nil || len(path) == 0 {
				return complete
			}
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if complete := find("--" + f.Name); complete != nil && f.Value.Type() != "bool" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails only for a flag that is not there
		}
	})
	if names := argumentNames(cmd); len(names) > 0 && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) < len(names) {
				if complete := find(names[len(args)]); complete != nil {
					return complete(c, args, begun)
				}
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, sub := range cmd.Commands() {
		completeNames(sub, all)
	}
}

// oneOfFiles completes as the shell does.
func oneOfFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// onMachine makes a completer of names that are on this machine, which the shell keeps in their order. What cannot be
// read completes nothing.
func onMachine(names func(context.Context, *host, state.Home) []string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin) // a completion has no other context
		defer cancel()
		h := &host{}
		if h.fromEnv() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		home, err := state.FindHome(h.Home, h.UserHome)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := names(ctx, h, home)
		for i, name := range found {
			found[i] = visible.Text(name)
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// settingValues completes the value of the setting that is the argument before it.
func settingValues(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return settings.Choices(args[len(args)-1]), cobra.ShellCompDirectiveNoFileComp
}

func oneOfWords(list ...string) completer {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// runIDs are the runs, the newest first, with their tasks as descriptions, and then their names.
func runIDs(ctx context.Context, _ *host, home state.Home) []string {
	entries, err := files.New(home).List(ctx)
	if err != nil {
		return nil
	}
	ids, names := []string{files.Last}, []string{}
	for _, e := range entries {
		id := e.ID
		if e.Start != nil && e.Start.Name != "" && !slices.Contains(names, e.Start.Name) {
			names = append(names, e.Start.Name)
		}
		if e.Manifest != nil && e.Manifest.Task != "" {
			id += "\t" + visible.OneLine(e.Manifest.Task, 60)
		}
		ids = append(ids, id)
	}
	return append(ids, names...)
}

// modelNames are the models that are set and the built-in scenario.
func modelNames(_ context.Context, h *host, home state.Home) []string {
	names := []string{"scripted/" + demoScenario, settings.DefaultModel}
	for _, m := range h.models(home).Models() {
		names = append(names, m.Ref)
	}
	for _, p := range h.models(home).Providers() {
		if p.Ready {
			names = append(names, p.Name+"/")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func providerNames(_ context.Context, h *host, home state.Home) []string {
	return each(h.models(home).Providers(), func(p modelaccess.Provider) string { return p.Name })
}

// keyNames are the providers whose key is stored.
func keyNames(_ context.Context, _ *host, home state.Home) []string {
	stored, _ := credentials.StoreIn(home).List() // what cannot be read completes nothing
	return each(stored, func(p credentials.Profile) string { return p.Name })
}

func settingKeys(_ context.Context, h *host, home state.Home) []string {
	return each(h.load(home, ".").All(), func(e settings.Entry) string { return e.Key })
}

func skillNames(_ context.Context, _ *host, home state.Home) []string {
	installed, _ := skills.NewStore(home.SkillsDir()).List() // likewise
	return each(installed, func(s skills.Installed) string { return s.Name })
}

func each[T any](list []T, name func(T) string) (names []string) {
	for _, v := range list {
		names = append(names, name(v))
	}
	return names
}

// completeWithin bounds how long a shell waits for the daemon.
const completeWithin = time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// ofDaemon completes names that a daemon has. One that is not there completes nothing.
func ofDaemon(streams Streams, names func(context.Context, *remote) []string) completer {
	return onMachine(func(ctx context.Context, _ *host, _ state.Home) []string {
		r := &remote{base: base{streams: streams}}
		if r.begin(nil) != nil || r.connect() != nil {
			return nil
		}
		defer r.Close()
		return names(ctx, r)
	})
}

// agentIDs are the ids of all agents.
func agentIDs(ctx context.Context, r *remote) (ids []string) {
	agents, _ := r.Agents(ctx) // none completes nothing
	for _, a := range agents {
		ids = append(ids, visible.OneLine(a.Identity.AgentID, 100))
	}
	return ids
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
