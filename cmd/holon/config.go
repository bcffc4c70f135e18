package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/settings"
	"holon/runner/workspace/git"
	"holon/state"
)

// configured are the settings of a run: what package settings merges, and what
// no file may say. In falling order of weight: flags, environment, files.
type configured struct {
	*settings.Loaded
}

// merge puts what is set for a workspace, "" for none, beneath the flags, and
// checks it.
func (c *configured) merge(h *host, home state.Home, workspace string, flags *pflag.FlagSet) error {
	c.Loaded = h.load(home, workspace)
	if err := override(c.Loaded, flags); err != nil {
		return err
	}
	if err := c.Err(); err != nil {
		return err
	}
	if _, err := confinementOf(&c.Settings); err != nil {
		return err
	}
	return checkHosts(&c.Settings)
}

const demoScenario = "demo" // built into agentd

// flagKeys are the flags of a run that set what files and variables can set too.
var flagKeys = []struct{ flag, key string }{
	{"model", "model.default"}, {"model-fallbacks", "model.fallbacks"}, {"image", "image"}, {"engine", "engine"}, {"link", "link"},
	{"include-dirty", "include_dirty"}, {"include-ignored", "include_ignored"},
	{"timeout", "timeout"}, {"max-rounds", "max_rounds"}, {"max-tool-calls", "max_tool_calls"},
	{"max-output-bytes", "max_output_bytes"}, {"memory", "memory"}, {"cpus", "cpus"}, {"network", "network"},
	{"disk", "disk"}, {"skill", "skills"},
	{"user", "user"}, {"runtime", "container_runtime"}, {"accept-weaker", "accept_weaker"},
	{"allow-host", "allow_hosts"}, {"service", "services"}, {"workspace-root", "workspace_roots"},
	{"ledger", "ledger"}, {"store", "store"}, {"tokens-file", "control.tokens_file"}, {"max-sessions", "sessions.max"},
	{"session-pause", "sessions.pause"},
	{"session-stop", "sessions.stop"}, {"session-ttl", "sessions.ttl"},
	{"token-max-sessions", "sessions.per_token.max"}, {"token-max-turns", "sessions.per_token.max_turns"},
	{"token-max-tokens", "sessions.per_token.max_tokens"}, {"token-max-cost", "sessions.per_token.max_cost"},
	{"token-max-disk", "sessions.per_token.max_disk"},
	{"client-call-timeout", "runtime.client_call_timeout"}, {"agent", "agent.default"}, {"listen", "control.http_addr"}, {"advertise", "control.callback_base_url"},
	{"max-requests", "budgets.run.max_requests"}, {"max-tokens", "budgets.run.max_tokens"},
	{"max-cost", "budgets.run.max_cost"},
}

// load reads the layers below the flags. A zero home has no settings, a workspace of "" no project.
func (h *host) load(home state.Home, workspace string) *settings.Loaded {
	src := settings.Sources{Environ: os.Environ()}
	if home != (state.Home{}) {
		src.File, src.Consents = settings.Path(home), home.Dir()
	}
	if workspace != "" {
		src.Project = settings.RepositoryTop(workspace)
	}
	return settings.Load(src)
}

// borrowing is what repositories may borrow from; other errors in the settings do not matter to it.
func (h *host) borrowing(home state.Home) git.Borrowing {
	return git.Borrowing{Allow: h.load(home, "").AllowAlternates, StateHome: home.Dir()}
}

func override(l *settings.Loaded, flags *pflag.FlagSet) error {
	for _, f := range flagKeys {
		given := flags.Lookup(f.flag)
		if given == nil || !given.Changed {
			continue
		}
		values := []string{given.Value.String()}
		if list, ok := given.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if err := l.Override(f.key, "--"+f.flag, values...); err != nil {
			return err
		}
	}
	return nil
}

// host is what only the environment sets: where things are.
type host struct {
	Home       string `env:"HOLON_HOME"`
	Agentd     string `env:"HOLON_AGENTD"`
	DockerHost string `env:"DOCKER_HOST"`
	UserHome   string `env:"HOME"`
	SocketPath string `env:"HOLON_SOCKET_PATH"`
	AgentID    string `env:"HOLON_AGENT_ID"`
	Visual     string `env:"VISUAL"`
	Editor     string `env:"EDITOR"`
	// ControlToken is what TCP clients of the control plane must send.
	ControlToken string `env:"HOLON_CONTROL_TOKEN"`
}

func (h *host) fromEnv() error { return env.Parse(h) }

// quota is what runs may use of the disk.
func (o *configured) quota() (runner.Quota, error) {
	quota := runner.Quota{Files: runner.DefaultFreeFiles}
	for _, r := range []struct {
		size settings.Size
		to   *int64
	}{{o.RunDisk, &quota.Run}, {o.MaxDisk, &quota.Home}, {o.MinFree, &quota.Free}} {
		n, err := r.size.Bytes()
		if err != nil {
			return quota, err
		}
		*r.to = n
	}
	return quota, nil
}

// longestWatched is how long a run that a person watches waits for models at most.
const longestWatched = 2 * time.Minute

// agentLimits are settings that agentd itself keeps, as its variables. watched says whether a person sees what it does.
func (o *configured) agentLimits(watched bool) (env []string) {
	wait := o.RetryFor
	if watched {
		wait = min(wait, longestWatched)
	}
	env = append(env, "HOLON_RETRY_FOR="+wait.String())
	if n := o.DefaultToolOutputTokens; n > 0 {
		env = append(env, fmt.Sprintf("HOLON_DEFAULT_TOOL_OUTPUT_TOKENS=%d", n))
	}
	if n := o.MaxToolOutputTokens; n > 0 {
		env = append(env, fmt.Sprintf("HOLON_MAX_TOOL_OUTPUT_TOKENS=%d", n))
	}
	return env
}

// hideSecrets registers the secrets of --env for redaction.
func (o *runOptions) hideSecrets() error {
	for _, name := range o.Secret {
		if !slices.ContainsFunc(o.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") && name != "" }) {
			return usage("--secret", fmt.Sprintf("%q is not given with --env or --env-file", visible.OneLine(name, 80)),
				fmt.Sprintf("write --env %s, which takes your value", visible.OneLine(name, 80)))
		}
	}
	o.streams.Secrets.AddEnviron(o.Env, o.Secret)
	return nil
}
