package config

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Turns bounds how many turns there are and what one may use up.
type Turns struct {
	Concurrency int           `env:"HOLON_CONCURRENCY"`
	QueueLimit  int           `env:"HOLON_QUEUE_LIMIT"`
	MaxRounds   int           `env:"HOLON_MAX_ROUNDS"`
	Timeout     time.Duration `env:"HOLON_TURN_TIMEOUT"`
	MaxOutput   int64         `env:"HOLON_MAX_OUTPUT_BYTES"`
	Grace       time.Duration `env:"HOLON_GRACE"`
	MinFree     int64         `env:"HOLON_MIN_FREE_BYTES"`
}

func (t *Turns) bind(fs *flag.FlagSet) {
	fs.IntVar(&t.Concurrency, "concurrency", t.Concurrency, "turns that may run at once, each in a session of its own")
	fs.IntVar(&t.QueueLimit, "queue-limit", t.QueueLimit, "turns that may wait before new ones are refused")
	fs.IntVar(&t.MaxRounds, "max-rounds", t.MaxRounds, "model rounds after which a turn ends as incomplete")
	fs.DurationVar(&t.Timeout, "turn-timeout", t.Timeout, "wall time after which a turn ends as incomplete")
	fs.Int64Var(&t.MaxOutput, "max-output-bytes", t.MaxOutput,
		"`bytes` in a turn's output directory, its streams included, beyond which it ends as incomplete; 0 for no "+
			"bound")
	fs.DurationVar(&t.Grace, "grace", t.Grace, "time that running turns get to end after SIGTERM")
	fs.Int64Var(&t.MinFree, "min-free-bytes", t.MinFree, "free disk space below which new turns are refused")
}

func (t *Turns) validate(p *Problems) {
	within(p, "--concurrency", t.Concurrency, 1, 1024, "1 is the safe default")
	within(p, "--queue-limit", t.QueueLimit, 0, 100_000, "64 is the default")
	atLeastOne(p, "--max-rounds", t.MaxRounds, "200 is the default")
	positive(p, "--turn-timeout", t.Timeout, "write a duration such as 30m")
	notNegative(p, "--max-output-bytes", t.MaxOutput, "0 means no bound")
	notNegative(p, "--grace", t.Grace, "write a duration such as 10s")
	notNegative(p, "--min-free-bytes", t.MinFree, "0 switches the check off")
}

// Retention says how long responses are stored.
type Retention struct {
	Age   time.Duration `env:"HOLON_RETAIN_AGE"`
	Count int           `env:"HOLON_RETAIN_COUNT"`
	Bytes int64         `env:"HOLON_RETAIN_BYTES"`
}

func (r *Retention) bind(fs *flag.FlagSet) {
	fs.DurationVar(&r.Age, "retain-age", r.Age,
		"time after which stored responses that nothing continues are removed; 0 for never")
	fs.IntVar(&r.Count, "retain-count", r.Count,
		"stored responses beyond which the least recent conversations are removed; 0 for no bound")
	fs.Int64Var(&r.Bytes, "retain-bytes", r.Bytes,
		"size of the stored responses beyond which the least recent conversations are removed; 0 for no bound")
}

func (r *Retention) validate(p *Problems) {
	notNegative(p, "--retain-age", r.Age, "write a duration such as 720h, or 0 to keep responses of any age")
	notNegative(p, "--retain-count", r.Count, "0 means no bound")
	notNegative(p, "--retain-bytes", r.Bytes, "0 means no bound")
}

// Tools says which tools models get, and how much of their output.
type Tools struct {
	Names           string `env:"HOLON_TOOLS"`
	OutputTokens    int    `env:"HOLON_DEFAULT_TOOL_OUTPUT_TOKENS"`
	MaxOutputTokens int    `env:"HOLON_MAX_TOOL_OUTPUT_TOKENS"`
	MCPConfig       string `env:"HOLON_MCP_CONFIG"`
	HostSocket      string `env:"HOLON_HOST_SOCKET"`
}

func (t *Tools) bind(fs *flag.FlagSet) {
	fs.StringVar(&t.Names, "tools", t.Names,
		"comma-separated `names` of the container tools that models get; empty for all")
	fs.IntVar(&t.OutputTokens, "default-tool-output-tokens", t.OutputTokens,
		"how much of a tool's output a model is shown when it does not say, in `tokens`")
	fs.IntVar(&t.MaxOutputTokens, "max-tool-output-tokens", t.MaxOutputTokens,
		"how much of a tool's output a model is shown at most, in `tokens`")
	fs.StringVar(&t.MCPConfig, "mcp-config", t.MCPConfig,
		"`file` that names the MCP servers whose tools models get (docs/reference/mcp.md)")
	fs.StringVar(&t.HostSocket, "host-socket", t.HostSocket,
		"Unix `path` of the host's MCP server (default "+defaultHostSocket+" where that exists)")
}

func (t *Tools) validate(p *Problems) {
	socketFits(p, "--host-socket", t.HostSocket)
	within(p, "--max-tool-output-tokens", t.MaxOutputTokens, 1, 1_000_000, "64000 is the default")
	if t.OutputTokens < 1 || t.OutputTokens > t.MaxOutputTokens {
		p.add("--default-tool-output-tokens",
			fmt.Sprintf("%d is not within 1 and --max-tool-output-tokens", t.OutputTokens), "8000 is the default")
	}
}

// List returns the tools that models get; empty for all.
func (t *Tools) List() []string { return commaList(t.Names) }

// HostMCP returns the socket of the host's MCP server, "" when there is none.
func (t *Tools) HostMCP() string { return socketOr(t.HostSocket, defaultHostSocket) }

// Commands says what the commands of turns get and what is kept of their output.
type Commands struct {
	PassEnv      string        `env:"HOLON_PASS_ENV"`
	SecretEnv    string        `env:"HOLON_SECRET_ENV"`
	EgressSocket string        `env:"HOLON_EGRESS_SOCKET"`
	TaskTimeout  time.Duration `env:"HOLON_TASK_TIMEOUT"`
	TaskNotices  bool          `env:"HOLON_TASK_NOTICES"`
	StreamBytes  int64         `env:"HOLON_STREAM_LOG_BYTES"`
	TurnLogBytes int64         `env:"HOLON_TURN_LOG_BYTES"`
	LogBytes     int64         `env:"HOLON_LOG_BYTES"`
}

func (c *Commands) bind(fs *flag.FlagSet) {
	fs.StringVar(&c.PassEnv, "pass-env", c.PassEnv,
		"comma-separated `names` of variables that commands get although they are not on the list of harmless ones")
	fs.StringVar(&c.SecretEnv, "secret-env", c.SecretEnv,
		"comma-separated `names` of variables whose values are taken out of all that is shown and kept, in addition "+
			"to those whose names say so")
	fs.StringVar(&c.EgressSocket, "egress-socket", c.EgressSocket,
		"Unix `path` of the host's HTTP proxy, which commands are given (default "+defaultEgressSocket+
			" where that exists)")
	fs.DurationVar(&c.TaskTimeout, "task-timeout", c.TaskTimeout,
		"time after which a command that became a task is ended")
	fs.BoolVar(&c.TaskNotices, "task-notices", c.TaskNotices,
		"tell the model which tasks have ended, with its next round; a host that follows tasks tells it itself")
	fs.Int64Var(&c.StreamBytes, "stream-log-bytes", c.StreamBytes,
		"`bytes` of each output stream of a command that are kept in a file")
	fs.Int64Var(&c.TurnLogBytes, "turn-log-bytes", c.TurnLogBytes,
		"`bytes` of output that the commands of one turn may leave in files")
	fs.Int64Var(&c.LogBytes, "log-bytes", c.LogBytes,
		"`bytes` of output that the commands of all turns may leave in files under --output-dir")
}

func (c *Commands) validate(p *Problems) {
	positive(p, "--task-timeout", c.TaskTimeout, "write a duration such as 24h")
	atLeastOne(p, "--stream-log-bytes", c.StreamBytes,
		"67108864 is the default; --turn-log-bytes 0 keeps no output in files")
	notNegative(p, "--turn-log-bytes", c.TurnLogBytes, "0 keeps no output in files")
	notNegative(p, "--log-bytes", c.LogBytes, "0 keeps no output in files")
}

// Proxy returns the socket of the host's HTTP proxy, "" when there is none.
func (c *Commands) Proxy() string { return socketOr(c.EgressSocket, defaultEgressSocket) }

// Passed picks from environ the variables that the operator wants commands to
// have.
func (c *Commands) Passed(environ []string) []string {
	wanted := strings.FieldsFunc(c.PassEnv, func(r rune) bool { return r == ',' || r == ' ' })
	var list []string
	for _, kv := range environ {
		if name, _, ok := strings.Cut(kv, "="); ok && slices.Contains(wanted, name) {
			list = append(list, kv)
		}
	}
	return list
}
