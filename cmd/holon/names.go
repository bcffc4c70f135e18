package main

import (
	"context"
	"slices"
	"strings"

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
	agents, runs, models, skills := agentIDs(streams), onMachine(runIDs), onMachine(modelNames), onMachine(skillNames)
	providers, files := onMachine(providerNames), oneOfFiles
	return map[string]completer{
		"AGENT": agents, "--agent": agents, "RUN": runs, "--continue": runs,
		"PROVIDER/NAME": models, "--model": models, "--model-fallbacks": models,
		"--skill": skills, "skills NAME": skills, "KEY": onMachine(settingKeys), "VALUE": settingValues,
		"providers NAME": providers, "credentials NAME": providers, "credentials remove NAME": onMachine(keyNames),
		"FILE": files, "FILE...": files, "SOURCE": files,
		"--network":          oneOfWords(engine.NetworkNone, "bridge"),
		"--engine":           oneOfWords(settings.EngineAuto, settings.EngineDocker, settings.EngineLocal),
		"--accept-weaker":    oneOfWords(runner.AxisNames()...),
		"--reasoning-effort": oneOfWords(rules.Efforts...),
		"--template":         oneOfWords("holon-default", "holon-developer"),
		"--output-format":    oneOfWords(outputFormats...),
		"--priority": oneOfWords(string(ledger.Interject), string(ledger.Next), string(ledger.Normal),
			string(ledger.Background)),
		"--access": oneOfWords(string(control.ModeLocal), string(control.ModeTunnel), string(control.ModeLAN),
			string(control.ModeTailnet)),
		"tail --level":             oneOfWords("action_required", "work_done", "turn_result", "progress", "trace"),
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

// oneOfWords completes what takes few values.
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
