package agentd

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"holon/agentd/process"
	"holon/agentd/record"
	"holon/internal/providers"
	"holon/internal/redact"
	"holon/skills"
)

// Config holds every setting of agentd. Each is a flag and an environment
// variable; a flag wins. Validate turns it into checked values once, at the
// start; no other code reads the environment.
type Config struct {
	Socket       string        `env:"HOLON_SOCKET"`
	HostOnly     bool          `env:"HOLON_HOST_ONLY"`
	InputDir     string        `env:"HOLON_INPUT_DIR"`
	OutputDir    string        `env:"HOLON_OUTPUT_DIR"`
	StateDir     string        `env:"HOLON_STATE_DIR"`
	WorkspaceDir string        `env:"HOLON_WORKSPACE_DIR"`
	SkillsDir    string        `env:"HOLON_SKILLS_DIR"`
	AgentHome    string        `env:"HOLON_AGENT_HOME"`
	AgentRole    string        `env:"HOLON_AGENT_ROLE"`
	UserHome     string        `env:"HOME"`
	Model        string        `env:"HOLON_MODEL"`
	Fallbacks    string        `env:"HOLON_MODEL_FALLBACKS"`
	ModelSocket  string        `env:"HOLON_MODEL_SOCKET"`
	EgressSocket string        `env:"HOLON_EGRESS_SOCKET"`
	Providers    string        `env:"HOLON_PROVIDERS"`
	ModelIdle    time.Duration `env:"HOLON_MODEL_IDLE_TIMEOUT"`
	ModelTimeout time.Duration `env:"HOLON_MODEL_TIMEOUT"`
	Listen       string        `env:"HOLON_LISTEN"`
	TokenFile    string        `env:"HOLON_TOKEN_FILE"`
	Concurrency  int           `env:"HOLON_CONCURRENCY"`
	QueueLimit   int           `env:"HOLON_QUEUE_LIMIT"`
	MaxRounds    int           `env:"HOLON_MAX_ROUNDS"`
	TurnTimeout  time.Duration `env:"HOLON_TURN_TIMEOUT"`
	MaxOutput    int64         `env:"HOLON_MAX_OUTPUT_BYTES"`
	Grace        time.Duration `env:"HOLON_GRACE"`
	MinFree      int64         `env:"HOLON_MIN_FREE_BYTES"`
	RetainAge    time.Duration `env:"HOLON_RETAIN_AGE"`
	RetainCount  int           `env:"HOLON_RETAIN_COUNT"`
	RetainBytes  int64         `env:"HOLON_RETAIN_BYTES"`
	PassEnv      string        `env:"HOLON_PASS_ENV"`
	SecretEnv    string        `env:"HOLON_SECRET_ENV"`
	Tools        string        `env:"HOLON_TOOLS"`
	TaskTimeout  time.Duration `env:"HOLON_TASK_TIMEOUT"`
	OutputTokens int           `env:"HOLON_DEFAULT_TOOL_OUTPUT_TOKENS"`
	MaxTokens    int           `env:"HOLON_MAX_TOOL_OUTPUT_TOKENS"`
	StreamBytes  int64         `env:"HOLON_STREAM_LOG_BYTES"`
	TurnLogBytes int64         `env:"HOLON_TURN_LOG_BYTES"`
	LogBytes     int64         `env:"HOLON_LOG_BYTES"`
	Freeform     bool          `env:"HOLON_FREEFORM_TOOLS"`
	ModelWindows string        `env:"HOLON_MODEL_WINDOWS"`
	MCPConfig    string        `env:"HOLON_MCP_CONFIG"`
	HostSocket   string        `env:"HOLON_HOST_SOCKET"`

	// What the protocol and not the operator settles; tests shorten it.
	WebSocketLifetime time.Duration // of a connection
	WebSocketPing     time.Duration // silence after which a peer is asked whether it is there

	OpenAIKey        string `env:"OPENAI_API_KEY"`
	OpenAIBaseURL    string `env:"OPENAI_BASE_URL"`
	AnthropicKey     string `env:"ANTHROPIC_API_KEY"`
	AnthropicBaseURL string `env:"ANTHROPIC_BASE_URL"`

	windows providers.Windows // of ModelWindows, once it is checked
}

// Conventional paths inside a container (docs/reference/turn.md).
const (
	DefaultSocket      = "/holon/ipc/agent.sock"
	DefaultModelSocket = "/holon/host/model.sock"
	DefaultEgress      = "/holon/host/egress.sock"
	DefaultHostSocket  = "/holon/host/host.sock"
	maxSocketPath      = 107 // sun_path of Linux, less its NUL
)

// DefaultConfig returns the settings that hold inside a container.
func DefaultConfig() Config {
	return Config{
		Socket:       DefaultSocket,
		InputDir:     "/holon/input",
		OutputDir:    "/holon/output",
		StateDir:     "/holon/state",
		WorkspaceDir: "/holon/workspaces",
		SkillsDir:    "/holon/skills",
		AgentHome:    "/holon",
		AgentRole:    string(skills.RoleDefault),
		Concurrency:  1,
		QueueLimit:   64,
		MaxRounds:    200,
		TurnTimeout:  2 * time.Hour,
		MaxOutput:    4 << 30,
		Grace:        10 * time.Second,
		MinFree:      64 << 20,
		RetainAge:    30 * 24 * time.Hour,
		RetainCount:  10_000,
		RetainBytes:  1 << 30,
		TaskTimeout:  24 * time.Hour,
		ModelIdle:    5 * time.Minute,
		ModelTimeout: time.Hour,
		OutputTokens: 8_000,
		MaxTokens:    64_000,
		StreamBytes:  process.DefaultLogBytes,
		TurnLogBytes: 1 << 30,
		LogBytes:     8 << 30,

		WebSocketLifetime: time.Hour,
		WebSocketPing:     30 * time.Second,
	}
}

// LoadEnv overrides c with what the environment sets. All malformed variables
// are reported together.
func (c *Config) LoadEnv() error {
	err := env.Parse(c)
	agg, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return err
	}
	var p Problems
	for _, e := range agg.Errors {
		wrong, ok := errors.AsType[env.ParseError](e)
		if !ok {
			p = append(p, Problem{"environment", e.Error(), "correct or unset the variable"})
			continue
		}
		field, _ := reflect.TypeFor[Config]().FieldByName(wrong.Name)
		p = append(p, Problem{field.Tag.Get("env"), fmt.Sprintf("cannot be read as %s", wrong.Type),
			"correct or unset the variable"})
	}
	return p
}

// Bind registers the flags of c on fs, with c's present values as defaults.
func (c *Config) Bind(fs *flag.FlagSet) {
	fs.StringVar(&c.Socket, "socket", c.Socket, "Unix `path` to serve on; empty for none")
	fs.BoolVar(&c.HostOnly, "host-only", c.HostOnly,
		"take connections to --socket only from outside this process's PID namespace: not from the commands of its turns")
	fs.StringVar(&c.InputDir, "input-dir", c.InputDir, "`directory` under which input directories of turns lie")
	fs.StringVar(&c.OutputDir, "output-dir", c.OutputDir, "`directory` under which turns write their records")
	fs.StringVar(&c.StateDir, "state-dir", c.StateDir, "`directory` for stored responses")
	fs.StringVar(&c.WorkspaceDir, "workspace-dir", c.WorkspaceDir, "`directory` that is, or holds, the working trees")
	fs.StringVar(&c.SkillsDir, "skills-dir", c.SkillsDir, "`directory` of skills")
	fs.StringVar(&c.AgentHome, "agent-home", c.AgentHome, "`directory` with the agent's AGENTS.md; empty for none")
	fs.StringVar(&c.AgentRole, "agent-role", c.AgentRole,
		"default, named or child: only the default agent sees the skills in the user's home")
	fs.StringVar(&c.Model, "model", c.Model, "default model, as `provider/model`")
	fs.StringVar(&c.Fallbacks, "model-fallbacks", c.Fallbacks,
		"comma-separated `models` to try when the model fails before it says anything")
	fs.StringVar(&c.ModelSocket, "model-socket", c.ModelSocket,
		"Unix `path` of the model gateway (default "+DefaultModelSocket+" where that exists)")
	fs.StringVar(&c.EgressSocket, "egress-socket", c.EgressSocket,
		"Unix `path` of the host's HTTP proxy, which commands are given (default "+DefaultEgress+" where that exists)")
	fs.StringVar(&c.Providers, "providers", c.Providers,
		"comma-separated providers beside the built-in ones, as `name` or name=contract; behind a gateway: all there are")
	fs.DurationVar(&c.ModelIdle, "model-idle-timeout", c.ModelIdle, "how long a provider may be silent")
	fs.DurationVar(&c.ModelTimeout, "model-timeout", c.ModelTimeout,
		"how long one attempt at a model may take; 0 for no bound")
	fs.StringVar(&c.ModelWindows, "model-windows", c.ModelWindows,
		"comma-separated windows of models in tokens, as `PREFIX=CONTEXT` or PREFIX=CONTEXT/OUTPUT, where what is "+
			"known of them is wrong; 0 for no bound")
	fs.StringVar(&c.Listen, "listen", c.Listen,
		"also serve on this TCP `address`; loopback only unless --token-file is given")
	fs.StringVar(&c.TokenFile, "token-file", c.TokenFile,
		"`file` whose content TCP clients must send as a bearer token")
	fs.IntVar(&c.Concurrency, "concurrency", c.Concurrency, "turns that may run at once, each in a session of its own")
	fs.IntVar(&c.QueueLimit, "queue-limit", c.QueueLimit, "turns that may wait before new ones are refused")
	fs.IntVar(&c.MaxRounds, "max-rounds", c.MaxRounds, "model rounds after which a turn ends as incomplete")
	fs.DurationVar(&c.TurnTimeout, "turn-timeout", c.TurnTimeout, "wall time after which a turn ends as incomplete")
	fs.Int64Var(&c.MaxOutput, "max-output-bytes", c.MaxOutput,
		"`bytes` in a turn's output directory, its streams included, beyond which it ends as incomplete; 0 for no bound")
	fs.DurationVar(&c.Grace, "grace", c.Grace, "time that running turns get to end after SIGTERM")
	fs.StringVar(&c.PassEnv, "pass-env", c.PassEnv,
		"comma-separated `names` of variables that commands get although they are not on the list of harmless ones")
	fs.StringVar(&c.SecretEnv, "secret-env", c.SecretEnv,
		"comma-separated `names` of variables whose values are taken out of all that is shown and kept, beside "+
			"those whose names say so")
	fs.DurationVar(&c.RetainAge, "retain-age", c.RetainAge,
		"time after which stored responses that nothing continues are removed; 0 for never")
	fs.IntVar(&c.RetainCount, "retain-count", c.RetainCount,
		"stored responses beyond which the least recent conversations are removed; 0 for no bound")
	fs.Int64Var(&c.RetainBytes, "retain-bytes", c.RetainBytes,
		"size of the stored responses beyond which the least recent conversations are removed; 0 for no bound")
	fs.StringVar(&c.Tools, "tools", c.Tools,
		"comma-separated `names` of the container tools that models get; empty for all")
	fs.DurationVar(&c.TaskTimeout, "task-timeout", c.TaskTimeout,
		"time after which a command that became a task is ended")
	fs.IntVar(&c.OutputTokens, "default-tool-output-tokens", c.OutputTokens,
		"how much of a tool's output a model is shown when it does not say, in `tokens`")
	fs.IntVar(&c.MaxTokens, "max-tool-output-tokens", c.MaxTokens,
		"how much of a tool's output a model is shown at most, in `tokens`")
	fs.Int64Var(&c.StreamBytes, "stream-log-bytes", c.StreamBytes,
		"`bytes` of each output stream of a command that are kept in a file")
	fs.Int64Var(&c.TurnLogBytes, "turn-log-bytes", c.TurnLogBytes,
		"`bytes` of output that the commands of one turn may leave in files")
	fs.Int64Var(&c.LogBytes, "log-bytes", c.LogBytes,
		"`bytes` of output that the commands of all turns may leave in files under --output-dir")
	fs.StringVar(&c.MCPConfig, "mcp-config", c.MCPConfig,
		"`file` that names the MCP servers whose tools models get (docs/reference/mcp.md)")
	fs.StringVar(&c.HostSocket, "host-socket", c.HostSocket,
		"Unix `path` of the host's MCP server (default "+DefaultHostSocket+" where that exists)")
	fs.BoolVar(&c.Freeform, "freeform-tools", c.Freeform,
		"let models of openai/ that may know it write patches as plain text, by a grammar, instead of as JSON")
	fs.Int64Var(&c.MinFree, "min-free-bytes", c.MinFree, "free disk space below which new turns are refused")
}

// Problem is one wrong setting.
type Problem struct{ Setting, What, Remedy string }

// Problems are all wrong settings of a configuration, reported at once.
type Problems []Problem

// Error lists the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = fmt.Sprintf("%s: %s; %s", x.Setting, x.What, x.Remedy)
	}
	return strings.Join(lines, "\n")
}

// Validate checks every setting and reports all that are wrong together, as a
// Problems. It makes the directories absolute.
func (c *Config) Validate() error {
	var p Problems
	bad := func(setting, what, remedy string) { p = append(p, Problem{setting, what, remedy}) }
	for _, d := range []struct {
		flag string
		dir  *string
	}{{"--input-dir", &c.InputDir}, {"--output-dir", &c.OutputDir}, {"--state-dir", &c.StateDir},
		{"--workspace-dir", &c.WorkspaceDir}, {"--skills-dir", &c.SkillsDir}} {
		abs, err := filepath.Abs(*d.dir)
		switch {
		case *d.dir == "":
			bad(d.flag, "is empty", "give a directory")
		case err != nil:
			bad(d.flag, err.Error(), "give an absolute path")
		default:
			*d.dir = abs
			if info, err := os.Stat(abs); err == nil && !info.IsDir() {
				bad(d.flag, fmt.Sprintf("%s is not a directory", abs),
					"name a directory or a path that does not exist yet")
			}
		}
	}
	if len(c.Socket) > maxSocketPath {
		bad("--socket", fmt.Sprintf("the path has %d bytes and a socket's may have %d", len(c.Socket), maxSocketPath),
			"choose a shorter path")
	}
	if len(c.HostSocket) > maxSocketPath {
		bad("--host-socket", fmt.Sprintf("the path has %d bytes and a socket's may have %d", len(c.HostSocket),
			maxSocketPath), "choose a shorter path")
	}
	c.checkListen(bad)
	c.checkLinks(bad)
	for _, ref := range append([]string{c.Model}, c.FallbackList()...) {
		if provider, name, ok := strings.Cut(ref, "/"); ref != "" && (!ok || provider == "" || name == "") {
			bad("--model", fmt.Sprintf("%q is not a model reference", ref),
				"write provider/model, for example openai/gpt-5 or scripted/demo")
		}
	}
	if !skills.Role(c.AgentRole).Known() {
		bad("--agent-role", fmt.Sprintf("%q is not a role", c.AgentRole), "choose default, named or child")
	}
	if c.AgentHome != "" && !filepath.IsAbs(c.AgentHome) {
		bad("--agent-home", fmt.Sprintf("%q is not an absolute path", c.AgentHome),
			"give an absolute path, or nothing for none")
	}
	if c.Concurrency < 1 || c.Concurrency > 1024 {
		bad("--concurrency", fmt.Sprintf("%d is not within 1 and 1024", c.Concurrency), "1 is the safe default")
	}
	if c.QueueLimit < 0 || c.QueueLimit > 100_000 {
		bad("--queue-limit", fmt.Sprintf("%d is not within 0 and 100000", c.QueueLimit), "64 is the default")
	}
	if c.MaxRounds < 1 {
		bad("--max-rounds", fmt.Sprintf("%d is less than 1", c.MaxRounds), "200 is the default")
	}
	if c.TurnTimeout <= 0 {
		bad("--turn-timeout", fmt.Sprintf("%s is not positive", c.TurnTimeout), "write a duration such as 30m")
	}
	if c.MaxOutput < 0 {
		bad("--max-output-bytes", fmt.Sprintf("%d is negative", c.MaxOutput), "0 is no bound")
	}
	if c.Grace < 0 {
		bad("--grace", fmt.Sprintf("%s is negative", c.Grace), "write a duration such as 10s")
	}
	if c.MinFree < 0 {
		bad("--min-free-bytes", fmt.Sprintf("%d is negative", c.MinFree), "0 switches the check off")
	}
	c.checkRetention(bad)
	if c.ModelIdle <= 0 {
		bad("--model-idle-timeout", fmt.Sprintf("%s is not positive", c.ModelIdle), "write a duration such as 5m")
	}
	if c.ModelTimeout < 0 {
		bad("--model-timeout", fmt.Sprintf("%s is negative", c.ModelTimeout),
			"write a duration such as 30m, or 0 for no bound")
	}
	var err error
	if c.windows, err = providers.ParseWindows(c.ModelWindows); err != nil {
		bad("--model-windows", err.Error(), "write for example openai/gpt-5=400000/128000,lab/=32768")
	}
	if c.TaskTimeout <= 0 {
		bad("--task-timeout", fmt.Sprintf("%s is not positive", c.TaskTimeout), "write a duration such as 24h")
	}
	if c.MaxTokens < 1 || c.MaxTokens > 1_000_000 {
		bad("--max-tool-output-tokens", fmt.Sprintf("%d is not within 1 and 1000000", c.MaxTokens),
			"64000 is the default")
	}
	if c.OutputTokens < 1 || c.OutputTokens > c.MaxTokens {
		bad("--default-tool-output-tokens",
			fmt.Sprintf("%d is not within 1 and --max-tool-output-tokens", c.OutputTokens), "8000 is the default")
	}
	c.checkLogs(bad)
	if c.WebSocketLifetime <= 0 || c.WebSocketPing <= 0 {
		bad("WebSocketLifetime, WebSocketPing", "one of them is not positive", "begin with DefaultConfig")
	}
	if len(p) > 0 {
		return p
	}
	return nil
}

// checkLinks refuses paths that lead through a link where commands must not take
// agentd's place. The image has made such a link: what the host mounted is then
// where the link leads, which may be a directory that commands can rename.
func (c *Config) checkLinks(bad func(setting, what, remedy string)) {
	if !c.HostOnly {
		return
	}
	for _, at := range []struct{ flag, dir string }{
		{"--input-dir", c.InputDir}, {"--output-dir", c.OutputDir}, {"--state-dir", c.StateDir},
		{"--workspace-dir", c.WorkspaceDir},
		{"--skills-dir", c.SkillsDir}, {"--agent-home", c.AgentHome}, {"--socket", filepath.Dir(c.Socket)},
		{"--model-socket", filepath.Dir(c.gateway())}, {"--host-socket", filepath.Dir(c.hostSocket())},
		{"--egress-socket", filepath.Dir(c.EgressSocket)},
	} {
		if real, err := filepath.EvalSymlinks(at.dir); err == nil && real != filepath.Clean(at.dir) {
			bad(at.flag, fmt.Sprintf("%s leads to %s by a link", at.dir, real),
				"use an image without links below /holon")
		}
	}
}

// checkListen refuses a TCP address that others could reach without a token:
// whoever reaches agentd can run commands.
func (c *Config) checkListen(bad func(setting, what, remedy string)) {
	if c.Listen == "" {
		return
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("--listen", fmt.Sprintf("%q is not host:port", c.Listen), "write for example 127.0.0.1:8080")
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && c.TokenFile == "" {
		bad("--listen", fmt.Sprintf("%s can be reached from other machines", c.Listen),
			"listen on 127.0.0.1, or give --token-file")
	}
}

// FallbackList returns the fallback models, in order.
func (c *Config) FallbackList() []string { return commaList(c.Fallbacks) }

// Learn makes known what nobody may see: values of variables that are secret by
// their name, or named by --secret-env, and the token of --token-file.
func (c *Config) Learn(environ []string, secrets *redact.Set) {
	secrets.AddEnviron(environ, commaList(c.SecretEnv))
	if token, err := c.token(); err == nil { // Serve says what is wrong with the file
		secrets.Add("--token-file", token)
	}
}

// ToolList returns the tools that models get; empty for all.
func (c *Config) ToolList() []string { return commaList(c.Tools) }

func commaList(s string) []string {
	var list []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// checkLogs refuses bounds of the files with output that say nothing.
func (c *Config) checkLogs(bad func(setting, what, remedy string)) {
	if c.StreamBytes < 1 {
		bad("--stream-log-bytes", fmt.Sprintf("%d is less than 1", c.StreamBytes),
			"67108864 is the default; --turn-log-bytes 0 keeps no output in files")
	}
	if c.TurnLogBytes < 0 {
		bad("--turn-log-bytes", fmt.Sprintf("%d is negative", c.TurnLogBytes), "0 keeps no output in files")
	}
	if c.LogBytes < 0 {
		bad("--log-bytes", fmt.Sprintf("%d is negative", c.LogBytes), "0 keeps no output in files")
	}
}

// checkRetention refuses negative bounds.
func (c *Config) checkRetention(bad func(setting, what, remedy string)) {
	if c.RetainAge < 0 {
		bad("--retain-age", fmt.Sprintf("%s is negative", c.RetainAge),
			"write a duration such as 720h, or 0 to keep responses of any age")
	}
	if c.RetainCount < 0 {
		bad("--retain-count", fmt.Sprintf("%d is negative", c.RetainCount), "0 is no bound")
	}
	if c.RetainBytes < 0 {
		bad("--retain-bytes", fmt.Sprintf("%d is negative", c.RetainBytes), "0 is no bound")
	}
}

// retention is how long responses are stored.
func (c *Config) retention() record.Retention {
	return record.Retention{MaxAge: c.RetainAge, MaxCount: c.RetainCount, MaxBytes: c.RetainBytes}
}
