package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// turns bounds how many turns there are and what one may use up.
type turns struct {
	Concurrency int           `env:"HOLON_CONCURRENCY" envDefault:"1" min:"1" max:"1024"`
	QueueLimit  int           `env:"HOLON_QUEUE_LIMIT" envDefault:"64" min:"0" max:"100000"`
	MaxRounds   int           `env:"HOLON_MAX_ROUNDS" envDefault:"200" min:"1"`
	Timeout     time.Duration `env:"HOLON_TURN_TIMEOUT" envDefault:"2h" min:"1"`
	MaxOutput   int64         `env:"HOLON_MAX_OUTPUT_BYTES" envDefault:"4294967296" min:"0"`
	Grace       time.Duration `env:"HOLON_GRACE" envDefault:"10s" min:"0"`
	MinFree     int64         `env:"HOLON_MIN_FREE_BYTES" envDefault:"67108864" min:"0"`

	// of requests that say nothing of them
	Isolation     string `env:"HOLON_ISOLATION" envDefault:"none"`
	ShowToolCalls bool   `env:"HOLON_SHOW_TOOL_CALLS"`
}

func (t *turns) validate(p *Problems) {
	if !slices.Contains([]string{"none", "copy", "worktree"}, t.Isolation) {
		p.add("--isolation", fmt.Sprintf("%q is not an isolation mode", t.Isolation), "write none, copy or worktree")
	}
}

// retention says how long responses are stored.
type retention struct {
	Age   time.Duration `env:"HOLON_RETAIN_AGE" envDefault:"720h" min:"0"`
	Count int           `env:"HOLON_RETAIN_COUNT" envDefault:"10000" min:"0"`
	Bytes int64         `env:"HOLON_RETAIN_BYTES" envDefault:"1073741824" min:"0"`
}

// tools says which tools models get, and how much of their output.
type tools struct {
	Names           string `env:"HOLON_TOOLS"`
	OutputTokens    int    `env:"HOLON_DEFAULT_TOOL_OUTPUT_TOKENS" envDefault:"8000" min:"1"`
	MaxOutputTokens int    `env:"HOLON_MAX_TOOL_OUTPUT_TOKENS" envDefault:"64000" min:"1" max:"1000000"`
	MCPConfig       string `env:"HOLON_MCP_CONFIG"`
	HostSocket      string `env:"HOLON_HOST_SOCKET"`
}

func (t *tools) validate(p *Problems) {
	socketFits(p, "--host-socket", t.HostSocket)
	if t.OutputTokens > t.MaxOutputTokens {
		p.add("--default-tool-output-tokens",
			fmt.Sprintf("%d is more than --max-tool-output-tokens", t.OutputTokens), "8000 is the default")
	}
}

// List returns the tools that models get; empty for all.
func (t *tools) List() []string { return commaList(t.Names) }

// HostMCP returns the socket of the host's MCP server, "" when there is none.
func (t *tools) HostMCP() string { return socketOr(t.HostSocket, defaultHostSocket) }

// commands says what the commands of turns get and what is kept of their output.
type commands struct {
	PassEnv      string        `env:"HOLON_PASS_ENV"`
	SecretEnv    string        `env:"HOLON_SECRET_ENV"`
	EgressSocket string        `env:"HOLON_EGRESS_SOCKET"`
	Services     string        `env:"HOLON_SERVICES"`
	TaskTimeout  time.Duration `env:"HOLON_TASK_TIMEOUT" envDefault:"24h" min:"1"`
	TaskNotices  bool          `env:"HOLON_TASK_NOTICES" envDefault:"true"`
	StreamBytes  int64         `env:"HOLON_STREAM_LOG_BYTES" envDefault:"67108864" min:"1"`
	TurnLogBytes int64         `env:"HOLON_TURN_LOG_BYTES" envDefault:"1073741824" min:"0"` // 0 keeps no files
	LogBytes     int64         `env:"HOLON_LOG_BYTES" envDefault:"8589934592" min:"0"`      // likewise
}

// Proxy returns the socket of the host's HTTP proxy, "" when there is none.
func (c *commands) Proxy() string { return socketOr(c.EgressSocket, defaultEgressSocket) }

// ServiceAddresses are those at which services take connections, as NAME:PORT or the path of a socket.
func (c *commands) ServiceAddresses() (list []string) {
	for _, service := range commaList(c.Services) {
		if strings.ContainsAny(service, ":/") {
			list = append(list, service)
		}
	}
	return list
}

// ServiceNames are the names of the services that share the container's network.
func (c *commands) ServiceNames() (list []string) {
	for _, service := range commaList(c.Services) {
		name, _, _ := strings.Cut(service, ":")
		if !strings.HasPrefix(name, "/") && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// Passed picks from environ the variables that the operator wants commands to
// have.
func (c *commands) Passed(environ []string) []string {
	wanted := strings.FieldsFunc(c.PassEnv, func(r rune) bool { return r == ',' || r == ' ' })
	var list []string
	for _, kv := range environ {
		if name, _, ok := strings.Cut(kv, "="); ok && slices.Contains(wanted, name) {
			list = append(list, kv)
		}
	}
	return list
}
