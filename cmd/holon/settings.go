package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/duration"
	"holon/internal/providers"
	"holon/internal/visible"
	"holon/runner/control"
	"holon/runner/credentials"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/runner/workspace/git"
	"holon/state"
)

// surface is what the commands that show and change settings work with.
type surface struct {
	base
	configured
	cmd       *cobra.Command
	flags     *pflag.FlagSet
	workspace string
	keys      *credentials.Keys
}

// providers returns how models are asked with these settings.
func (s *surface) providers() *modelaccess.Host {
	return modelsOf(s.home, &s.Settings, s.keys, nil)
}

// surfaceCommand makes a command that reads what is set.
func surfaceCommand(streams Streams, use, short string, do func(context.Context, *surface) error) *cobra.Command {
	return (&surface{base: base{streams: streams}}).makeCommand(use, short, do)
}

// settingsCommand is surfaceCommand for commands that need settings without a mistake.
func settingsCommand(streams Streams, use, short string, do func(context.Context, *surface) error) *cobra.Command {
	return surfaceCommand(streams, use, short, func(ctx context.Context, s *surface) error {
		if err := s.Loaded.Err(); err != nil {
			return err
		}
		return do(ctx, s)
	})
}

func (s *surface) makeCommand(use, short string, do func(context.Context, *surface) error) *cobra.Command {
	s.cmd = s.command(use, short, func(ctx context.Context) error {
		if err := s.load(); err != nil {
			return err
		}
		return do(ctx, s)
	})
	s.flags = s.cmd.Flags()
	s.flags.StringVar(&s.workspace, "workspace", "",
		"`directory` whose project's settings count (default the current one)")
	return s.cmd
}

func (s *surface) load() error {
	workspace, err := filepath.Abs(s.workspace)
	if err != nil {
		return usage("--workspace", err.Error(), "")
	}
	if s.workspace != "" {
		if _, err := git.RealDirectory(workspace); err != nil {
			return git.WithCode("find the workspace", err)
		}
	}
	s.Loaded = s.host.load(s.home, workspace)
	s.keys = keysOf(s.home, nil)
	return nil
}

// asked reports whether a flag without a value was given.
func (s *surface) asked(flag string) bool {
	f := s.flags.Lookup(flag)
	return f != nil && f.Value.String() == "true"
}

// group makes a command that only holds others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

func newConfigCommand(streams Streams) *cobra.Command {
	get := settingsCommand(streams, "get KEY", "Print a setting as it is in force, or all below a group",
		runConfigGet)
	get.Flags().Bool("show-origin", false, "print also where it comes from")
	return group("config", "Show, change and check settings",
		`Settings come from flags, then variables, then `+settings.ProjectFile+` of the
project, then config.json of HOLON_HOME, which "set" and "unset" write. What a
repository may not decide, and keys of providers, are in no project's file.`,
		get,
		surfaceCommand(streams, "set KEY VALUE", "Set a value in config.json of HOLON_HOME", runConfigSet),
		surfaceCommand(streams, "unset KEY", "Take a setting, or all below a group, out of config.json",
			runConfigUnset),
		tableCommand(surfaceCommand(streams, "list",
			"List every setting with its value and where it comes from",
			runConfigList), streams),
		surfaceCommand(streams, "schema", "Print the JSON Schema of config.json", runConfigSchema),
		surfaceCommand(streams, "doctor", "Say what is wrong with files, variables, keys and models",
			runDoctor),
	)
}

func runConfigGet(_ context.Context, s *surface) error {
	entries, err := s.Loaded.Get(s.args[0])
	if err != nil {
		return err
	}
	return s.show(entries, nil, func() error {
		if len(entries) == 1 && entries[0].Key == s.args[0] && !s.asked("show-origin") {
			_, err := fmt.Fprintln(s.streams.Out, visible.Text(entries[0].Text()))
			return err
		}
		return s.table(entries, s.asked("show-origin"))
	})
}

func runConfigSet(_ context.Context, s *surface) error {
	home, err := state.MakeHome(s.Home, s.UserHome)
	if err != nil {
		return err
	}
	err = settings.Set(settings.Path(home), s.args[0], s.args[1], func(probe *settings.Settings) error {
		err := cmp.Or(s.host.refused(probe), s.unknownProvider(probe))
		if err == nil {
			return nil
		}
		f := describe(err)
		return usage("VALUE", f.Message, f.Hint)
	})
	if err != nil {
		return err
	}
	s.warnOutweighed()
	return nil
}

func runConfigUnset(_ context.Context, s *surface) error {
	removed, err := settings.Unset(settings.Path(s.home), s.args[0])
	if err != nil {
		return err
	}
	if !removed {
		s.streams.say(fmt.Sprintf("holon: %s was not set in %s", s.args[0], settings.Path(s.home)))
	}
	return nil
}

// unknownProvider refuses a model that is to be set and whose provider is neither built in nor set.
func (s *surface) unknownProvider(probe *settings.Settings) error {
	refs := probe.Fallbacks
	if probe.Model != "" {
		refs = slices.Concat(refs, []string{probe.Model})
	}
	s.Loaded.Consider(refs...)
	for _, ref := range refs {
		if provider, _, _ := providers.SplitRef(ref); provider == providers.Scripted {
			continue
		}
		if _, err := s.providers().Ready(ref); state.IsCode(err, modelaccess.CodeUnknownProvider) {
			return err
		}
	}
	return nil
}

// warnOutweighed says when what was just set will not count.
func (s *surface) warnOutweighed() {
	if origin := s.Loaded.Origin(s.args[0]); origin.Layer == settings.LayerProject ||
		origin.Layer == settings.LayerEnv {
		s.streams.say(fmt.Sprintf("holon: it is set, but here %s outweighs it", origin))
	}
}

// runConfigList lists the settings, also when some cannot be read: which that are is the error.
func runConfigList(_ context.Context, s *surface) error {
	if s.JSON {
		return s.show(s.Loaded.All(), s.Loaded.Err(), nil)
	}
	return errors.Join(s.table(s.Loaded.All(), true), s.Loaded.Err())
}

func runConfigSchema(_ context.Context, s *surface) error {
	_, err := s.streams.Out.Write(settings.Schema())
	return err
}

// runDoctor reports what is wrong; something that is makes the exit code 1.
func runDoctor(_ context.Context, s *surface) error {
	findings := append(s.providers().Doctor(s.Loaded), s.refusedByRuns()...)
	if findings == nil {
		findings = []modelaccess.Finding{}
	}
	retry := s.retryPolicy()
	err := s.show(struct {
		OK       bool                  `json:"ok"`
		Findings []modelaccess.Finding `json:"findings"`
		Retry    retryPolicy           `json:"retry"`
	}{!modelaccess.Broken(findings), findings, retry}, nil, func() error {
		if err := s.showProblems(findings); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.streams.Out,
			"a request is made up to %d times more after %s, and then for %s; not after %s\n", retry.MaxRetries,
			strings.Join(retry.Retryable, ", "), retry.RetryFor, strings.Join(retry.FailFast, ", "))
		return err
	})
	if err != nil {
		return err
	}
	if modelaccess.Broken(findings) {
		return exitError(state.OutcomeFailure.ExitCode())
	}
	return nil
}

// retryPolicy is which failures of a request to a provider are tried again (runtime specification, "Current retry
// policy").
type retryPolicy struct {
	MaxRetries int      `json:"max_retries"`
	BaseMS     int64    `json:"base_ms"`
	MaxPauseMS int64    `json:"max_pause_ms"`
	RetryFor   string   `json:"retry_for"` // how long a turn goes on after all attempts failed
	Retryable  []string `json:"retryable"`
	FailFast   []string `json:"fail_fast"`
}

func (s *surface) retryPolicy() retryPolicy {
	return retryPolicy{MaxRetries: providers.Retries, BaseMS: providers.RetryBase.Milliseconds(),
		MaxPauseMS: providers.RetryMaxPause.Milliseconds(), RetryFor: duration.Text(s.RetryFor),
		Retryable: []string{"timeout", "connection failure", "429", "5xx"},
		FailFast:  []string{"401", "403", "other 4xx", "an answer that can't be read"}}
}

func (s *surface) showProblems(findings []modelaccess.Finding) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintln(s.streams.Out, "nothing is wrong")
		return err
	}
	for _, f := range findings {
		where := f.Source
		if f.Key != "" && f.Key != f.Source {
			where += ": " + f.Key
		}
		if err := s.showFinding(f, where); err != nil {
			return err
		}
	}
	return nil
}

// refusedByRuns is what a run would not accept of the settings that can be read.
func (s *surface) refusedByRuns() []modelaccess.Finding {
	if s.Loaded.Err() != nil {
		return nil // reported already
	}
	err := s.host.refused(&s.Settings)
	if err == nil {
		return nil
	}
	f := describe(s.named(&s.host, err))
	return []modelaccess.Finding{{Level: modelaccess.Wrong, Source: f.Param, Message: f.Message, Hint: f.Hint}}
}

// refused is why no run, or no daemon, would accept settings, nil when they are accepted.
func (h *host) refused(s *settings.Settings) error {
	_, err := confinementOf(s)
	if err = cmp.Or(err, checkHosts(s)); err != nil {
		return err
	}
	for _, skill := range s.Skills {
		if _, err := h.skillFolder(skill); err != nil {
			return err
		}
	}
	// With access from a network, which is a flag of the daemon, every address is allowed.
	_, err = control.Access{Mode: control.ModeLAN, Listen: cmp.Or(s.HTTPAddr, "localhost:0"),
		Advertise: s.CallbackBaseURL}.Check()
	return err
}

func (s *surface) showFinding(f modelaccess.Finding, where string) error {
	if !s.streams.OutTTY {
		return printRow(s.streams, string(f.Level), where, f.Message, f.Hint)
	}
	return s.streams.printVerdict(fmt.Sprintf("%-7s  ", f.Level), where+": "+f.Message, f.Hint)
}

// printVerdict prints on a terminal what was found, behind a head, and below it the remedy.
func (s Streams) printVerdict(head, found, remedy string) error {
	indent := strings.Repeat(" ", cells(head))
	err := s.print(head, indent, visible.Text(found))
	if err != nil || remedy == "" {
		return err
	}
	return s.print(indent+"→ ", indent+"  ", visible.Text(remedy))
}

// table prints settings in columns.
func (s *surface) table(entries []settings.Entry, origin bool) error {
	heads := []string{"KEY", "VALUE", "SOURCE"}
	if !origin {
		heads = heads[:2]
	}
	return printTable(s.streams, entries, heads, func(e settings.Entry) []string {
		return []string{e.Key, e.Text(), settings.Tilde(e.Origin.String(), s.UserHome)}[:len(heads)]
	})
}
