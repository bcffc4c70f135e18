package agentd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"holon/agentd/forward"
	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/model/catalogue"
	"holon/agentd/model/scripted"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/agentd/tools/command"
	"holon/agentd/tools/image"
	"holon/agentd/tools/patch"
	"holon/internal/providers"
	"holon/internal/redact"
)

// Assemble makes the real parts of a server from a valid configuration: the
// process supervisor, the container's tools, the model transports and the
// skills. environ is the process's own environment; commands get the harmless
// part of it and what --pass-env names, never a key. secrets are what nobody may
// see; nil for none.
func Assemble(cfg Config, environ []string, secrets *redact.Set, log *slog.Logger) (Parts, error) {
	servers, err := cfg.mcpServers()
	if err != nil {
		return Parts{}, err
	}
	models, release, err := transports(cfg, environ)
	if err != nil {
		return Parts{}, err
	}
	found := cfg.roots("").DiscoverAgent()
	for _, p := range found.Problems {
		log.Warn("a skill is left out", "err", p.Error(), "hint", p.Hint)
	}
	// Nothing else in this program starts processes, so the supervisor may own them all.
	supervisor := process.New(process.Options{Logger: log, Exclusive: true, Secrets: secrets})
	managed := tasks.New(tasks.Options{Dir: filepath.Join(cfg.StateDir, "tasks"), Secrets: secrets, Logger: log})
	proxy, err := cfg.forward(log)
	if err != nil {
		return Parts{}, err
	}
	container, err := beside(len(cfg.ToolList()) > 0, func() (*tools.Registry, error) {
		return toolset(cfg, supervisor, managed)
	})
	if err != nil {
		return Parts{}, errors.Join(err, proxy.close())
	}
	commands := process.Environ(environ, append(proxy.environ, passed(environ, cfg.PassEnv)...)...)
	connected := mcp.Open(mcp.Options{
		Config: servers, HostSocket: cfg.hostSocket(), Starter: supervisor, Environ: commands, Dir: cfg.startDir(),
		LogDir: filepath.Join(cfg.StateDir, "mcp"), Version: Version(), Log: log,
	})
	return Parts{
		Models: models, Tools: container, MCP: connected, Tasks: managed, Skills: found,
		Secrets: secrets, Log: log, Version: Version(), Environ: commands, Now: time.Now,
		Close: func() error {
			return errors.Join(container.wait(), connected.Close(), managed.Close(), supervisor.Close(), proxy.close(),
				release())
		},
	}, nil
}

// mcpServers reads --mcp-config.
func (c *Config) mcpServers() (mcp.Config, error) {
	if c.MCPConfig == "" {
		return mcp.Config{}, nil
	}
	servers, err := mcp.LoadConfig(c.MCPConfig)
	if problem, ok := errors.AsType[*mcp.Problem](err); ok {
		return mcp.Config{}, Problems{{"--mcp-config", problem.Error(), problem.Remedy}}
	}
	if err != nil {
		return mcp.Config{}, err
	}
	return *servers, nil
}

// startDir is where MCP servers start that do not say: where working trees are,
// if there are any yet.
func (c *Config) startDir() string {
	if isDir(c.WorkspaceDir) {
		return c.WorkspaceDir
	}
	return "/"
}

// besideTools are container tools that are made while the server starts:
// deriving and compiling their schemas takes longer than all else there, and
// nobody needs them before the first turn.
type besideTools struct {
	made     chan struct{} // closed when the rest is set
	registry *tools.Registry
	err      error
}

// beside makes a toolset, and waits for it when making it may fail for a reason
// that the operator has to be told.
func beside(wait bool, build func() (*tools.Registry, error)) (*besideTools, error) {
	b := &besideTools{made: make(chan struct{})}
	go func() {
		defer close(b.made)
		b.registry, b.err = build()
	}()
	if wait {
		return b, b.wait()
	}
	return b, nil
}

// wait returns when the tools are made, and why they are not.
func (b *besideTools) wait() error {
	<-b.made
	return b.err
}

// ready returns the tools. That there are none is a defect of the program,
// which its tests would show: there was nothing to be told of.
func (b *besideTools) ready() *tools.Registry {
	if err := b.wait(); err != nil {
		panic(err)
	}
	return b.registry
}

// With implements Toolset.
func (b *besideTools) With(more ...tools.Tool) (*tools.Registry, error) {
	return b.ready().With(more...)
}

// Definitions implements turn.Toolset.
func (b *besideTools) Definitions() []tools.Definition { return b.ready().Definitions() }

// Run implements turn.Toolset.
func (b *besideTools) Run(ctx context.Context, env tools.Env, call tools.Call) tools.Outcome {
	return b.ready().Run(ctx, env, call)
}

// toolset is the one list of container tools, less those that the profile
// leaves out. Without the tools to go on with a task there are no tasks.
func toolset(cfg Config, supervisor *process.Supervisor, managed *tasks.Manager) (*tools.Registry, error) {
	profile := cfg.ToolList()
	options := command.Options{Starter: supervisor, Tasks: managed, TaskTime: cfg.TaskTimeout,
		StreamBytes: cfg.StreamBytes}
	if len(profile) > 0 && !(slices.Contains(profile, command.OutputName) &&
		slices.Contains(profile, command.StopName)) {
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
func transports(cfg Config, environ []string) (resolver *model.Resolver, release func() error, err error) {
	refs := append([]string{cfg.Model}, cfg.FallbackList()...)
	opts := scripted.Options{Dirs: []string{".", cfg.WorkspaceDir}}
	for _, ref := range refs {
		if file, ok := strings.CutPrefix(ref, "scripted/"); ok && filepath.IsAbs(file) {
			opts.Files = append(opts.Files, file)
		}
	}
	script, err := scripted.New(opts)
	if err != nil {
		return nil, nil, err
	}
	set, err := catalogue.Open(catalogue.Options{
		Configured: commaList(cfg.Providers), References: refs, Taken: []string{providers.Scripted},
		Setting: cfg.provider(environ), Socket: cfg.gateway(), IdleTimeout: cfg.ModelIdle, Freeform: cfg.Freeform,
	})
	if err != nil {
		return nil, nil, err
	}
	set.Offered[providers.Scripted] = script
	policy := model.DefaultPolicy()
	policy.Total = cfg.ModelTimeout
	resolver, err = model.NewResolver(model.Options{
		Transports: set.Offered, Unlisted: set.Unlisted, Default: cfg.Model, Fallbacks: cfg.FallbackList(),
		Retry: policy, Totals: set.Totals,
	})
	if err != nil {
		return nil, nil, errors.Join(err, set.Close())
	}
	return resolver, set.Close, nil
}

// provider returns how settings of providers are looked up: those that Config
// names there, all others in the environment, since there may be any.
func (c *Config) provider(environ []string) func(name string) string {
	values := make(map[string]string)
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			values[name] = value
		}
	}
	values["OPENAI_API_KEY"], values["OPENAI_BASE_URL"] = c.OpenAIKey, c.OpenAIBaseURL
	values["ANTHROPIC_API_KEY"], values["ANTHROPIC_BASE_URL"] = c.AnthropicKey, c.AnthropicBaseURL
	return func(name string) string { return values[name] }
}

// gateway returns the socket of the model gateway, "" when there is none.
func (c *Config) gateway() string { return socketOr(c.ModelSocket, DefaultModelSocket) }

// hostSocket returns the socket of the host's MCP server, "" when there is none.
func (c *Config) hostSocket() string { return socketOr(c.HostSocket, DefaultHostSocket) }

// socketOr returns the socket that is configured, else the conventional one if
// the host has put it there, else "".
func socketOr(configured, conventional string) string {
	if configured != "" {
		return configured
	}
	if info, err := os.Stat(conventional); err == nil && info.Mode().Type() == fs.ModeSocket {
		return conventional
	}
	return ""
}

// wayOut is what commands are told of the host's HTTP proxy.
type wayOut struct {
	environ []string
	close   func() error
}

// forward opens the way to the host's HTTP proxy, if there is one.
func (c *Config) forward(log *slog.Logger) (wayOut, error) {
	socket := socketOr(c.EgressSocket, DefaultEgress)
	if socket == "" {
		return wayOut{close: func() error { return nil }}, nil
	}
	f, err := forward.Listen(socket, log)
	if err != nil {
		return wayOut{}, err
	}
	log.Info("commands reach the network through the host's proxy", "address", f.URL(), "socket", socket)
	return wayOut{environ: f.Environ(), close: f.Close}, nil
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
