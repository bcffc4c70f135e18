package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/sys/unix"

	"holon/internal/bounded"
	"holon/internal/duration"
	"holon/internal/unixsocket"
	"holon/internal/visible"
	"holon/internal/yamltext"
)

// Bounds of a configuration.
const (
	maxConfig      = 1 << 20 // bytes of the file
	maxHeaderFile  = 64 << 10
	maxServers     = 64
	maxAllowed     = 1024
	maxServerName  = 32
	maxCallTimeout = 24 * time.Hour
)

// Config lists the servers. LoadConfig reads one from a file.
type Config struct {
	Servers map[string]Server `yaml:"servers"`
	// RequestURLs are the addresses that a request may name itself: an entry allows
	// its own address and every address below it.
	RequestURLs []string `yaml:"request_urls"`

	notes []note // of every turn
}

// Server is one configured server. Exactly one of Command, URL and Socket is set.
type Server struct {
	Command string            `yaml:"command"` // program to start, which speaks on its standard input and output
	Args    []string          `yaml:"args"`
	Env     map[string]string `yaml:"env"` // on top of what commands get
	Dir     string            `yaml:"dir"` // where it starts; the working trees by default

	URL         string `yaml:"url"`          // http or https, of the streamable transport
	HeadersFile string `yaml:"headers_file"` // lines "Name: value" that every request carries

	Socket string `yaml:"socket"` // Unix socket on which messages are exchanged line by line

	AllowedTools   []string `yaml:"allowed_tools"` // by the server's own names; nil: all
	AllowRequest   bool     `yaml:"allow_request"` // a request may name it in a tool of type mcp
	Optional       bool     `yaml:"optional"`      // turns begin without it
	ConnectTimeout Duration `yaml:"connect_timeout"`
	CallTimeout    Duration `yaml:"call_timeout"`

	list    string      // key of the list in the file, "" for servers
	headers http.Header // as HeadersFile, .mcp.json or a request had them
}

// Duration is written as "30s" or "5m".
type Duration time.Duration

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	v, err := duration.Parse(node.Value)
	if err != nil {
		return fmt.Errorf("line %d: %.40q is not a duration", node.Line, node.Value)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) or(def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return time.Duration(d)
}

// Problem is an error in a configuration.
type Problem struct {
	Field  string // servers.NAME.url, for example; empty for the file as a whole
	What   string
	Remedy string
}

func (p *Problem) Error() string { return strings.TrimPrefix(p.Field+": "+p.What, ": ") }

// LoadConfig reads a configuration in YAML, or JSON, which is YAML: ours, or the .mcp.json of other tools, whose
// variables are those of environ. The file must be a regular one of at most 1 MiB. Errors are *Problem values.
func LoadConfig(path string, environ []string) (*Config, error) {
	data, err := readFile(path, maxConfig)
	if err != nil {
		return nil, &Problem{What: fmt.Sprintf("%s cannot be read: %v", path, err), Remedy: "name a readable file"}
	}
	return parse(data, environ)
}

func parse(data []byte, environ []string) (*Config, error) {
	if c, ok, err := parseOther(data, environ); ok {
		if err == nil {
			err = c.complete()
		}
		if problem, ok := errors.AsType[*Problem](err); ok {
			if rest, ours := strings.CutPrefix(problem.Field, "servers"); ours {
				problem.Field = "mcpServers" + rest
			}
			return nil, problem
		}
		return c, nil
	}
	var c Config
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return nil, unreadable(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Problem{What: "the file has more than one document", Remedy: "remove the others"}
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &c, nil
}

// unreadable says of an error of the decoder what it means for the file.
func unreadable(err error) error {
	return &Problem{What: "the file cannot be read: " + visible.OneLine(yamltext.Explain(err), 300),
		Remedy: "write servers: with a name and command:, url: or socket: for each (docs/reference/mcp.md)"}
}

// complete checks the servers and reads the files with their headers.
func (c *Config) complete() error {
	if n := len(c.Servers); n > maxServers {
		return &Problem{Field: "servers", What: fmt.Sprintf("there are %d, and there may be %d", n, maxServers),
			Remedy: "remove some"}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		server := c.Servers[name]
		if err := server.complete(name); err != nil {
			return err
		}
		c.Servers[name] = server
	}
	for i, prefix := range c.RequestURLs {
		if _, err := parseURL(prefix); err != nil {
			return &Problem{Field: fmt.Sprintf("request_urls[%d]", i), What: err.Error(),
				Remedy: "write https://host/path"}
		}
	}
	return nil
}

// complete checks a server and reads the file with its headers.
func (s *Server) complete(name string) error {
	bad := func(field, what, remedy string) error {
		return &Problem{Field: strings.TrimSuffix("servers."+visible.OneLine(name, 64)+"."+field, "."), What: what,
			Remedy: remedy}
	}
	if !validServer(name) {
		return bad("", "cannot be the name of a server",
			fmt.Sprintf("use at most %d letters, digits, '-' and single '_', and not the name host", maxServerName))
	}
	if err := s.checkTransport(bad); err != nil {
		return err
	}
	if err := s.checkLimits(bad); err != nil {
		return err
	}
	if s.HeadersFile == "" {
		return nil
	}
	headers, err := readHeaders(s.HeadersFile)
	if err != nil {
		return bad("headers_file", err.Error(), "write a line \"Name: value\" for each header")
	}
	s.headers = headers
	return nil
}

// checkTransport checks how the server is reached. bad makes an error about a field.
func (s *Server) checkTransport(bad func(field, what, remedy string) error) error {
	ways := slices.DeleteFunc([]string{s.Command, s.URL, s.Socket}, func(way string) bool { return way == "" })
	if len(ways) != 1 {
		return bad("", fmt.Sprintf("has %d of command, url and socket", len(ways)), "give exactly one")
	}
	switch {
	case s.Command == "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		return bad("command", "is missing, and args, env or dir is there", "give the program")
	case s.URL == "" && s.HeadersFile != "":
		return bad("url", "is missing, and headers_file is there", "give the address")
	case s.Dir != "" && !filepath.IsAbs(s.Dir):
		return bad("dir", "is not an absolute path", "give an absolute path")
	case s.URL != "":
		if _, err := parseURL(s.URL); err != nil {
			return bad("url", err.Error(), "write https://host/path")
		}
	case s.Socket != "" && (!filepath.IsAbs(s.Socket) || len(s.Socket) > unixsocket.MaxPath):
		return bad("socket", "is not an absolute path of at most 107 bytes", "give a shorter absolute path")
	}
	return nil
}

// checkLimits checks the environment and the fields that bound the server.
func (s *Server) checkLimits(bad func(field, what, remedy string) error) error {
	for key, value := range s.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) {
			return bad("env", fmt.Sprintf("%.40q cannot be a variable", key), "use plain names and values")
		}
	}
	switch {
	case len(s.AllowedTools) > maxAllowed:
		return bad("allowed_tools", fmt.Sprintf("lists %d tools, and may list %d", len(s.AllowedTools), maxAllowed),
			"leave it out to allow all")
	case s.CallTimeout < 0 || time.Duration(s.CallTimeout) > maxCallTimeout:
		return bad("call_timeout", "is not within 0 and 24h", "write for example 5m")
	case s.ConnectTimeout < 0 || time.Duration(s.ConnectTimeout) > time.Hour:
		return bad("connect_timeout", "is not within 0 and 1h", "write for example 30s")
	}
	return nil
}

// nameRunes are the characters that providers accept in the name of a tool.
const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// validServer reports whether a server can have the name. Names of tools begin
// with it, so it must not contain the separator that follows it.
func validServer(name string) bool {
	return name != "" && len(name) <= maxServerName && strings.Trim(name, nameRunes) == "" &&
		!strings.Contains(name, "__") && !strings.HasSuffix(name, "_") && !strings.HasPrefix(name, "_") &&
		name != hostName
}

// parseURL reads the address of a server.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > 2048:
		return nil, errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("is not an http or https URL")
	case u.User != nil:
		return nil, errors.New("has a name or password in it")
	case u.Fragment != "":
		return nil, errors.New("has a fragment")
	}
	return u, nil
}

// readHeaders reads the lines of a file with secrets. Errors show none of them.
func readHeaders(path string) (http.Header, error) {
	data, err := readFile(path, maxHeaderFile)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	headers := make(http.Header)
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if err := addHeader(headers, name, strings.TrimSpace(value)); !found || err != nil {
			return nil, fmt.Errorf("line %d is not a header that may be set", number)
		}
	}
	return headers, nil
}

var errHeader = errors.New("it cannot be set")

// addHeader adds a header that the transport does not need for itself.
func addHeader(headers http.Header, name, value string) error {
	name = http.CanonicalHeaderKey(name)
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return errHeader
	}
	switch name {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer",
		"Accept", "Accept-Encoding":
		return errHeader
	}
	if strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Proxy-") {
		return errHeader
	}
	headers.Add(name, value)
	return nil
}

// readFile reads a regular file of at most limit bytes. It does not wait for a
// writer, as opening a FIFO would.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	return bounded.ReadAll(f, limit)
}
