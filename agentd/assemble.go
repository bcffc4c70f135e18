package agentd

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/agentd/model/openai"
	"holon/agentd/model/scripted"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/agentd/tools/command"
	"holon/agentd/tools/image"
	"holon/agentd/tools/patch"
)

// Assemble makes the real parts of a server from a valid configuration: the
// process supervisor, the container's tools, the model transports and the
// skills. environ is the process's own environment; commands get the harmless
// part of it and what --pass-env names, never a key.
func Assemble(cfg Config, environ []string, log *slog.Logger) (Parts, error) {
	models, release, err := transports(cfg)
	if err != nil {
		return Parts{}, err
	}
	found := cfg.roots("").DiscoverAgent()
	for _, p := range found.Problems {
		log.Warn("a skill is left out", "err", p.Error(), "hint", p.Hint)
	}
	// Nothing else in this program starts processes, so the supervisor may own them all.
	supervisor := process.New(process.Options{Logger: log, Exclusive: true})
	managed := tasks.New(tasks.Options{Dir: filepath.Join(cfg.StateDir, "tasks"), Logger: log})
	registry, err := toolset(cfg, supervisor, managed)
	if err != nil {
		return Parts{}, err
	}
	return Parts{
		Models: models, Tools: registry, Tasks: managed, Skills: found,
		Log: log, Version: Version(), Environ: process.Environ(environ, passed(environ, cfg.PassEnv)...), Now: time.Now,
		Close: func() error { return errors.Join(managed.Close(), supervisor.Close(), release()) },
	}, nil
}

// toolset is the one list of container tools, less those that the profile
// leaves out. Without the tools to go on with a task there are no tasks.
func toolset(cfg Config, supervisor *process.Supervisor, managed *tasks.Manager) (*tools.Registry, error) {
	profile := cfg.ToolList()
	options := command.Options{Starter: supervisor, Tasks: managed, TaskTime: cfg.TaskTimeout, StreamBytes: cfg.StreamBytes}
	if len(profile) > 0 && !(slices.Contains(profile, command.OutputName) && slices.Contains(profile, command.StopName)) {
		options.Tasks = nil
	}
	list, err := command.New(options)
	if err != nil {
		return nil, fmt.Errorf("assemble the tools: %w", err)
	}
	apply, err := patch.New()
	if err != nil {
		return nil, fmt.Errorf("assemble the tools: %w", err)
	}
	view, err := image.New()
	if err != nil {
		return nil, fmt.Errorf("assemble the tools: %w", err)
	}
	registry, err := tools.NewRegistry(append(list, apply, view)...)
	if err != nil {
		return nil, fmt.Errorf("assemble the tools: %w", err)
	}
	if len(profile) == 0 {
		return registry, nil
	}
	chosen, err := registry.Subset(profile)
	if err != nil {
		return nil, Problems{{"--tools", err.Error(), "name tools of this list, or leave the setting out for all"}}
	}
	return chosen, nil
}

// transports configures the providers. Behind a gateway there is no key here:
// the host adds it.
func transports(cfg Config) (resolver *model.Resolver, release func() error, err error) {
	opts := scripted.Options{Dirs: []string{".", cfg.WorkspaceDir}}
	for _, ref := range append([]string{cfg.Model}, cfg.FallbackList()...) {
		if file, ok := strings.CutPrefix(ref, "scripted/"); ok && filepath.IsAbs(file) {
			opts.Files = append(opts.Files, file)
		}
	}
	script, err := scripted.New(opts)
	if err != nil {
		return nil, nil, err
	}
	openaiOptions := openai.Options{BaseURL: cfg.OpenAIBaseURL, APIKey: cfg.OpenAIKey}
	anthropicOptions := anthropic.Options{BaseURL: cfg.AnthropicBaseURL, APIKey: cfg.AnthropicKey}
	if socket := cfg.gateway(); socket != "" {
		openaiOptions, anthropicOptions = openai.Options{SocketPath: socket}, anthropic.Options{SocketPath: socket}
	}
	openaiOptions.Freeform = cfg.Freeform
	gpt, err := openai.New(openaiOptions)
	if err != nil {
		return nil, nil, err
	}
	claude, err := anthropic.New(anthropicOptions)
	if err != nil {
		return nil, nil, err
	}
	resolver, err = model.NewResolver(model.Options{
		Transports: map[string]model.Transport{"anthropic": claude, "openai": gpt, "scripted": script},
		Default:    cfg.Model, Fallbacks: cfg.FallbackList(), Retry: model.DefaultPolicy(),
	})
	return resolver, func() error { return errors.Join(gpt.Close(), claude.Close()) }, err
}

// gateway returns the socket of the model gateway, "" when there is none.
func (c *Config) gateway() string {
	if c.ModelSocket != "" {
		return c.ModelSocket
	}
	if info, err := os.Stat(DefaultModelSocket); err == nil && info.Mode().Type() == fs.ModeSocket {
		return DefaultModelSocket
	}
	return ""
}

// passed picks the variables that the operator wants commands to have.
func passed(environ []string, names string) []string {
	wanted := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
	var list []string
	for _, kv := range environ {
		if name, _, ok := strings.Cut(kv, "="); ok && slices.Contains(wanted, name) {
			list = append(list, kv)
		}
	}
	return list
}
