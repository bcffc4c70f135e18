package main

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/agent/rules"
	"holon/runner/credentials"
	"holon/runner/engine"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/skills"
	"holon/state"
	"holon/state/files"
)

// completeNames gives every command of a tree what completes its flags and arguments. What an argument is follows from
// its name in the command's usage.
func completeNames(cmd *cobra.Command, streams Streams) {
	agents := agentIDs(streams)
	flags := map[string]completer{"agent": agents, "model": onMachine(modelNames),
		"model-fallbacks": onMachine(modelNames),
		"skill":           onMachine(skillNames), "image": onMachine(imageNames),
		"continue":      inOrder(onMachine(runIDs)),
		"network":       oneOfWords(engine.NetworkNone, "bridge"),
		"engine":        oneOfWords(settings.EngineAuto, settings.EngineDocker, settings.EngineLocal),
		"accept-weaker": oneOfWords(runner.AxisNames()...), "reasoning-effort": oneOfWords(rules.Efforts...),
		"template": oneOfWords("holon-default", "holon-developer")}
	for name, complete := range flags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Value.Type() != "bool" {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails only for a flag that is not there
		}
	}
	arguments := map[string]completer{"AGENT": agents, "RUN": inOrder(onMachine(runIDs)), "KEY": onMachine(settingKeys),
		"PROVIDER/NAME": onMachine(modelNames), "IMAGE": onMachine(imageNames), "VALUE": settingValues}
	if name := cmd.Name(); name == "stop" || name == "attach" {
		arguments["RUN"] = inOrder(onMachine(openRunIDs))
	}
	switch parent := cmd.Parent(); {
	case parent != nil && parent.Name() == "providers":
		arguments["NAME"] = onMachine(providerNames)
	case parent != nil && parent.Name() == "credentials":
		arguments["NAME"] = onMachine(providerNames)
		if cmd.Name() == "remove" {
			arguments["NAME"] = onMachine(keyNames)
		}
	case parent != nil && parent.Name() == "skills":
		arguments["NAME"] = onMachine(skillNames)
	}
	if names := argumentNames(cmd); len(names) > 0 && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string,
			cobra.ShellCompDirective) {
			switch {
			case len(args) >= len(names):
				return nil, cobra.ShellCompDirectiveNoFileComp
			case arguments[names[len(args)]] != nil:
				return arguments[names[len(args)]](c, args, begun)
			case names[len(args)] == "FILE" || names[len(args)] == "SOURCE":
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, sub := range cmd.Commands() {
		completeNames(sub, streams)
	}
}

// argumentNames are the words of a command's usage that stand for arguments.
func argumentNames(cmd *cobra.Command) (names []string) {
	words := strings.Fields(cmd.Use)
	for _, word := range words[min(1, len(words)):] {
		if word = strings.Trim(word, "[]"); word == strings.ToUpper(word) {
			names = append(names, word)
		}
	}
	return names
}

// onMachine makes a completer of names that are on this machine. What cannot be read completes nothing.
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
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// inOrder has the shell keep the order of what is completed.
func inOrder(complete completer) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		found, directive := complete(cmd, args, begun)
		return found, directive | cobra.ShellCompDirectiveKeepOrder
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
	return idsOf(ctx, home, func(*files.Entry) bool { return true })
}

// openRunIDs are the runs that have not ended.
func openRunIDs(ctx context.Context, _ *host, home state.Home) []string {
	return idsOf(ctx, home, func(e *files.Entry) bool { return e.Manifest == nil })
}

func idsOf(ctx context.Context, home state.Home, wanted func(*files.Entry) bool) []string {
	entries, err := files.New(home).List(ctx)
	if err != nil {
		return nil
	}
	ids, names := []string{files.Last}, []string{}
	for _, e := range entries {
		if !wanted(e) {
			continue
		}
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

// imageNames are the image that is set and those of runs.
func imageNames(ctx context.Context, h *host, home state.Home) []string {
	images := []string{h.load(home, ".").Image}
	entries, err := files.New(home).List(ctx)
	if err != nil {
		return images
	}
	for _, e := range entries {
		if e.Manifest != nil && e.Manifest.Image != "" {
			images = append(images, e.Manifest.Image)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// access is what is known of providers here.
func (h *host) access(home state.Home) *modelaccess.Host {
	return &modelaccess.Host{Settings: &h.load(home, ".").Settings, Proxy: http.ProxyFromEnvironment,
		Keys: &credentials.Keys{Store: credentials.StoreIn(home), Environ: os.Environ()}}
}

// modelNames are the models that are set and the built-in scenario.
func modelNames(_ context.Context, h *host, home state.Home) []string {
	names := []string{"scripted/" + demoScenario, settings.DefaultModel}
	for _, m := range h.access(home).Models() {
		names = append(names, m.Ref)
	}
	for _, p := range h.access(home).Providers() {
		if p.Ready {
			names = append(names, p.Name+"/")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func providerNames(_ context.Context, h *host, home state.Home) (names []string) {
	for _, p := range h.access(home).Providers() {
		names = append(names, p.Name)
	}
	return names
}

// keyNames are the providers whose key is stored.
func keyNames(_ context.Context, _ *host, home state.Home) (names []string) {
	stored, err := credentials.StoreIn(home).List()
	if err != nil {
		return nil
	}
	for _, p := range stored {
		names = append(names, p.Name)
	}
	return names
}

func settingKeys(_ context.Context, h *host, home state.Home) (keys []string) {
	for _, e := range h.load(home, ".").All() {
		keys = append(keys, e.Key)
	}
	return keys
}

func skillNames(_ context.Context, _ *host, home state.Home) (names []string) {
	installed, err := skills.NewStore(home.SkillsDir()).List()
	if err != nil {
		return nil
	}
	for _, s := range installed {
		names = append(names, s.Name)
	}
	return names
}
