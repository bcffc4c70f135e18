package agentd

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/agentd/config"
	"holon/agentd/forward"
	"holon/agentd/mcp"
	"holon/agentd/model"
	"holon/agentd/model/registry"
	"holon/agentd/model/scripted"
	"holon/agentd/privilege"
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
// process supervisor, the container's tools and the model transports. environ is the
// process's own environment; commands get the harmless part of it and what --pass-env
// names, never a key. secrets are redacted everywhere; nil for none.
func Assemble(cfg config.Config, users *privilege.Users, environ []string, secrets *redact.Set,
	log *slog.Logger) (Parts, error) {
	servers, err := mcpServers(cfg.Tools.MCPConfig, process.Environ(environ, cfg.Commands.Passed(environ)...))
	if err != nil {
		return Parts{}, err
	}
	models, release, err := transports(cfg, environ)
	if err != nil {
		return Parts{}, err
	}
	// Nothing else in this program starts processes, so the supervisor may own them all.
	supervisor := process.New(process.Options{Logger: log, Exclusive: true, Secrets: secrets, Users: users,
		Dir: filepath.Join(cfg.Dirs.State, "commands")})
	managed := tasks.New(tasks.Options{Dir: filepath.Join(cfg.Dirs.State, "tasks"), Secrets: secrets, Logger: log})
	proxy, err := openProxy(cfg.Commands.Proxy(), cfg.Commands.ServiceNames(), log)
	if err != nil {
		return Parts{}, err
	}
	// Their schemas are compiled when a turn first needs them, and at once where a name of the profile can be wrong.
	container := sync.OnceValues(func() (*tools.Registry, error) { return toolset(cfg, supervisor, managed) })
	if len(cfg.Tools.List()) > 0 {
		if _, err := container(); err != nil {
			return Parts{}, errors.Join(err, proxy.close())
		}
	}
	commands := process.Environ(environ, append(proxy.environ, cfg.Commands.Passed(environ)...)...)
	connected := mcp.Open(mcp.Options{
		Config: servers, HostSocket: cfg.Tools.HostMCP(), Starter: supervisor, Environ: commands,
		Dir: startDir(cfg.StartDir()), LogDir: filepath.Join(cfg.Dirs.State, "mcp"), Version: Version(), Log: log,
	})
	return Parts{
		Models: models, Tools: container, MCP: connected, Tasks: managed,
		Commands: commandOptions(cfg, supervisor, managed),
		Secrets:  secrets, Users: users, Log: log, Version: Version(), Environ: commands, Now: time.Now,
		EndLeft: supervisor.EndRecorded,
		Close: func() error {
			return errors.Join(connected.Close(), managed.Close(), supervisor.Close(), proxy.close(), release())
		},
	}, nil
}

// mcpServers reads --mcp-config, which may be "". environ is what commands have.
func mcpServers(path string, environ []string) (mcp.Config, error) {
	if path == "" {
		return mcp.Config{}, nil
	}
	servers, err := mcp.LoadConfig(path, environ)
	if problem, ok := errors.AsType[*mcp.Problem](err); ok {
		return mcp.Config{}, config.Wrong("--mcp-config", problem.Error(), problem.Remedy)
	}
	if err != nil {
		return mcp.Config{}, err
	}
	return *servers, nil
}

// startDir is where MCP servers start that do not say: where working trees are,
// if there are any yet.
func startDir(workspace string) string {
	if isDir(workspace) {
		return workspace
	}
	return "/"
}

// CheckTools reports what is wrong with the names of tools in cfg.
func CheckTools(cfg config.Config) config.Problems {
	_, err := toolset(cfg, nil, nil)
	p, _ := errors.AsType[config.Problems](err)
	return p
}

func commandOptions(cfg config.Config, supervisor *process.Supervisor, managed *tasks.Manager) command.Options {
	return command.Options{Starter: supervisor, Tasks: managed, TaskTime: cfg.Commands.TaskTimeout,
		StreamBytes: cfg.Commands.StreamBytes}
}

// toolset is the one list of container tools, less those that the profile
// leaves out. Without the tools to go on with a task there are no tasks.
func toolset(cfg config.Config, supervisor *process.Supervisor, managed *tasks.Manager) (*tools.Registry, error) {
	profile := cfg.Tools.List()
	options := commandOptions(cfg, supervisor, managed)
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
		return nil, config.Wrong("--tools", err.Error(), "name tools of this list, or leave the setting out for all")
	}
	return chosen, nil
}

// transports configures the providers. Behind a gateway this process has no key:
// the host adds it.
func transports(cfg config.Config, environ []string) (resolver *model.Resolver, release func() error, err error) {
	refs := cfg.Models.References()
	opts := scripted.Options{Dirs: []string{".", cfg.Dirs.Workspace}}
	if socket := cfg.Tools.HostMCP(); socket != "" {
		opts.Host = filepath.Join(filepath.Dir(socket), "scenario.yaml")
	}
	for _, ref := range refs {
		if file, ok := strings.CutPrefix(ref, "scripted/"); ok && filepath.IsAbs(file) {
			opts.Files = append(opts.Files, file)
		}
	}
	script, err := scripted.New(opts)
	if err != nil {
		return nil, nil, err
	}
	set, err := registry.Open(registry.Options{
		Configured: cfg.Models.ProviderList(), References: refs, Taken: []string{providers.Scripted},
		Setting: cfg.Models.Setting(environ), Socket: cfg.Models.Gateway(), IdleTimeout: cfg.Models.Idle,
		Freeform: cfg.Models.Freeform,
	})
	if err != nil {
		return nil, nil, err
	}
	set.Offered[providers.Scripted] = script
	policy := model.DefaultPolicy()
	policy.Total = cfg.Models.Timeout
	resolver, err = model.NewResolver(model.Options{
		Transports: set.Offered, Unlisted: set.Unlisted, Default: cfg.Models.Default,
		Fallbacks: cfg.Models.FallbackList(), Retry: policy, Totals: set.Totals,
	})
	if err != nil {
		return nil, nil, errors.Join(err, set.Close())
	}
	return resolver, set.Close, nil
}

// wayOut is what commands are told of the host's HTTP proxy.
type wayOut struct {
	environ []string
	close   func() error
}

// openProxy opens the way to the host's HTTP proxy at socket, "" for none. Services are reached without it.
func openProxy(socket string, services []string, log *slog.Logger) (wayOut, error) {
	if socket == "" {
		return wayOut{close: func() error { return nil }}, nil
	}
	f, err := forward.Listen(socket, log)
	if err != nil {
		return wayOut{}, err
	}
	log.Info("commands reach the network through the host's proxy", "address", f.URL(), "socket", socket)
	return wayOut{environ: f.Environ(services...), close: f.Close}, nil
}
