package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/providers"
	"holon/internal/visible"
	"holon/runner/credentials"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/state"
)

func newModelsCommand(streams Streams) *cobra.Command {
	list := settingsCommand(streams, "list", "List the models that are set, and providers that can be asked",
		runModelsList)
	cmd := settingsCommand(streams, "models", "List models, and ask whether they answer",
		runModelsList)
	cmd.Args = noCommand
	cmd.Long = `List the models that are set (the default, its fallbacks, models.catalog) and the
providers that can be asked for any model of theirs, with where their keys come
from. No provider is asked; "check" does that.`
	for _, c := range []*cobra.Command{cmd, list} {
		tableCommand(c, streams)
		c.Flags().BoolP("all", "a", false, "list providers without a key too")
	}
	check := settingsCommand(streams, "check [PROVIDER/NAME]",
		"Ask a model for a word, or the default one and its fallbacks", runModelsCheck)
	cmd.AddCommand(list, check)
	return cmd
}

func runModelsList(_ context.Context, s *surface) error {
	host := s.providers()
	list := host.Models()
	others := []modelaccess.Provider{}
	for _, p := range host.Providers() {
		if p.Ready || s.asked("all") {
			others = append(others, p)
		}
	}
	return s.show(struct {
		Models    []modelaccess.Model    `json:"models"`
		Providers []modelaccess.Provider `json:"providers"`
	}{list, others}, nil, func() error { return s.modelTable(list, others) })
}

func (s *surface) modelTable(list []modelaccess.Model, others []modelaccess.Provider) error {
	t := newTable(s.streams, "MODEL", "ROLE", "CONTRACT*", "WINDOW", "ANSWER", "KEY*")
	for _, m := range list {
		window := tokens(m.ContextWindow)
		if m.Window == settings.WindowAssumed {
			window += "?"
		}
		t.row(m.Ref, m.Role, m.Contract, window, tokens(m.MaxOutputTokens), s.keyOf(m.Provider, m.Credential, m.Ready))
	}
	for _, p := range others {
		t.row(p.Name+"/*", "", p.Contract, "", "", s.keyOf(p.Name, p.Credential, p.Ready))
	}
	return t.end()
}

// keyOf says where the key of a provider comes from.
func (s *surface) keyOf(provider string, where *credentials.Where, ready bool) string {
	switch {
	case provider == providers.Scripted, where != nil && ready && where.String() == "none":
		if s.streams.OutTTY {
			return "not needed" // stays whole in a narrow column; programs read the other words
		}
		return "none needed"
	case where != nil && ready:
		return visible.Text(where.String())
	}
	return "missing"
}

func tokens(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// runModelsCheck asks models; one that does not answer makes the exit code 1.
func runModelsCheck(ctx context.Context, s *surface) error {
	refs := s.args
	if len(refs) == 0 {
		refs = s.Loaded.Refs()
	}
	s.Loaded.Consider(refs...)
	if err := s.Loaded.Err(); err != nil {
		return err
	}
	host := s.providers()
	broken := false
	results := []modelaccess.Checked{}
	for _, ref := range refs {
		if provider, _, ok := providers.SplitRef(ref); !ok ||
			provider != providers.Scripted && !providers.ValidName(provider) {
			return notAModel("MODEL", ref)
		}
		c := host.Check(ctx, ref)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		broken = broken || !c.OK
		results = append(results, c)
		if !s.JSON {
			if err := showChecked(s.streams, c); err != nil {
				return err
			}
		}
	}
	if s.JSON {
		if err := printJSON(s.streams, results); err != nil {
			return err
		}
	}
	if broken {
		return exitError(state.OutcomeFailure.ExitCode())
	}
	return nil
}

// showChecked prints a model as soon as it has answered.
func showChecked(streams Streams, c modelaccess.Checked) error {
	state, found := "ok", fmt.Sprintf("%d ms", c.LatencyMS)
	if !c.OK {
		failure := *c.Error
		if failure.Param == "REF" {
			failure.Param = "" // the model stands before it
		}
		state, found = "failed", fmt.Sprintf("%s: %s", failure.Code, line(failure))
	}
	if !streams.OutTTY {
		return printRow(streams, state, c.Ref, found)
	}
	_, err := fmt.Fprintf(streams.Out, "%-6s  %s  %s\n", state, visible.Text(c.Ref), visible.Text(found))
	return err
}

// providerFlags are the settings of a provider that have a flag; for the others
// there is holon config set.
var providerFlags = []struct{ flag, key, usage string }{
	{"transport", "contract", "`contract`: which API it speaks"},
	{"base-url", "base_url", "its `endpoint`: http, https, or unix:///SOCKET:/PREFIX"},
	{"credential-source", "credential.source", "`source` of its key: env, credential_file, command or none"},
	{"credential-kind", "credential.kind", "`kind` of its key: api_key or bearer_token"},
	{"credential-env", "credential.env", "`variable` with its key"},
	{"credential-profile", "credential.profile", "`profile` of the credentials file"},
	{"credential-command", "credential.command", "`command` that prints its key, as a JSON list"},
}

func newProvidersCommand(streams Streams) *cobra.Command {
	list := settingsCommand(streams, "list", "List the providers that are built in or set",
		runProvidersList)
	set := surfaceCommand(streams, "set NAME", "Set how a provider is asked", runProvidersSet)
	for _, f := range providerFlags {
		set.Flags().String(f.flag, "", f.usage)
		// The table of settings is read when a word is completed.
		complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			choices := settings.Choices("providers.x." + f.key)
			if choices == nil {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return choices, cobra.ShellCompDirectiveNoFileComp
		}
		// It fails only for a flag that is not there.
		_ = set.RegisterFlagCompletionFunc(f.flag, complete)
	}
	return group("providers", "Show and change how providers are asked",
		`Providers that are built in need nothing but a key. Any other is a name of your
own with an endpoint: holon providers set acme --base-url https://llm.example/v1`,
		tableCommand(list, streams),
		settingsCommand(streams, "get NAME", "Show one provider", runProvidersGet),
		set,
		surfaceCommand(streams, "remove NAME", "Take all that is set for a provider out of config.json",
			runProvidersRemove),
		surfaceCommand(streams, "doctor", "The same as holon config doctor", runDoctor),
	)
}

func runProvidersSet(_ context.Context, s *surface) error {
	changed := false
	for _, f := range providerFlags {
		given := s.flags.Lookup(f.flag)
		if !given.Changed {
			continue
		}
		home, err := state.MakeHome(s.Home, s.UserHome)
		if err != nil {
			return err
		}
		err = settings.Set(settings.Path(home), "providers."+s.args[0]+"."+f.key, given.Value.String())
		if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "VALUE" {
			e.Param = "--" + f.flag
		}
		if err != nil {
			return err
		}
		changed = true
	}
	if !changed {
		return usage("FLAGS", "nothing is to be set", "see holon providers set --help")
	}
	return nil
}

func runProvidersList(_ context.Context, s *surface) error {
	return showList(&s.base, s.providers().Providers(), nil, []string{"PROVIDER", "CONTRACT", "ENDPOINT*", "KEY*"},
		func(p modelaccess.Provider) []string {
			return []string{p.Name, p.Contract, p.BaseURL, s.keyOf(p.Name, p.Credential, p.Ready)}
		})
}

func runProvidersGet(_ context.Context, s *surface) error {
	p, err := s.providers().Provider(s.args[0])
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(s.streams, p)
	}
	problem := ""
	if p.Problem != nil {
		problem = line(*p.Problem)
	}
	if err := facts(s.streams, "name", p.Name, "contract", p.Contract,
		"endpoint", cmp.Or(p.BaseURL, "-"), "key", s.keyOf(p.Name, p.Credential, p.Ready),
		"problem", problem); err != nil {
		return err
	}
	entries, err := s.Loaded.Get("providers." + s.args[0])
	if err != nil || len(entries) == 0 {
		return err
	}
	fmt.Fprintln(s.streams.Out, strings.Repeat("-", 8))
	return s.table(entries, true)
}

func runProvidersRemove(_ context.Context, s *surface) error {
	removed, err := settings.Unset(settings.Path(s.home), "providers."+s.args[0])
	if err == nil && !removed {
		return &state.Error{Code: modelaccess.CodeUnknownProvider, Param: "NAME",
			Message: fmt.Sprintf("nothing is set for a provider %.80q in %s", s.args[0], settings.Path(s.home)),
			Hint:    "see holon providers list"}
	}
	return err
}
