package mcp

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"holon/internal/visible"

	"go.yaml.in/yaml/v3"
)

// otherConfig is the list of servers that other tools keep in .mcp.json. Only a file that the operator names is read,
// so that no repository brings servers of its own.
type otherConfig struct {
	Servers map[string]otherServer `yaml:"mcpServers"`
	Unknown map[string]yaml.Node   `yaml:",inline"`
}

// otherServer is a server as other tools describe it. Optional is ours: no other tool has a word for it.
type otherServer struct {
	Type     string               `yaml:"type"`
	Command  string               `yaml:"command"`
	Args     []string             `yaml:"args"`
	Env      map[string]string    `yaml:"env"`
	URL      string               `yaml:"url"`
	Headers  map[string]string    `yaml:"headers"`
	Optional bool                 `yaml:"optional"`
	Unknown  map[string]yaml.Node `yaml:",inline"`
}

// parseOther reads such a list into ours. ok is false for a file of another kind. ${NAME} and ${NAME:-default} stand
// for variables of environ: those that commands have, which can be no more secret than to the servers. A key that is
// not known has no effect and is a note.
func parseOther(data []byte, environ []string) (c *Config, ok bool, err error) {
	var keys map[string]yaml.Node
	if yaml.Unmarshal(data, &keys) != nil {
		return nil, false, nil
	}
	if _, ok := keys["mcpServers"]; !ok {
		return nil, false, nil
	}
	var other otherConfig
	if err := yaml.Unmarshal(data, &other); err != nil {
		return nil, true, unreadable(err)
	}
	c = &Config{Servers: make(map[string]Server, len(other.Servers))}
	c.ignore("", other.Unknown)
	for _, name := range slices.Sorted(maps.Keys(other.Servers)) {
		from := other.Servers[name]
		if problem := from.expand(environ); problem != nil {
			problem.Field = "mcpServers." + visible.OneLine(name, 64) + "." + problem.Field
			return nil, true, problem
		}
		c.ignore("mcpServers."+visible.OneLine(name, 64)+".", from.Unknown)
		server := Server{Command: from.Command, Args: from.Args, Env: from.Env, URL: from.URL, Optional: from.Optional,
			list: "mcpServers"}
		for key, value := range from.Headers {
			if server.headers == nil {
				server.headers = make(http.Header)
			}
			if err := addHeader(server.headers, key, value); err != nil || from.URL == "" {
				return nil, true, &Problem{Field: "mcpServers." + visible.OneLine(name, 64) + ".headers",
					What: fmt.Sprintf("%.40q cannot be set", key), Remedy: "leave it out"}
			}
		}
		c.Servers[name] = server
	}
	return c, true, nil
}

// ignore notes keys that have no effect.
func (c *Config) ignore(path string, unknown map[string]yaml.Node) {
	for _, key := range slices.Sorted(maps.Keys(unknown)) {
		c.notes = append(c.notes, note{noteIgnored,
			fmt.Sprintf("%s%s in the list of MCP servers has no effect", path, visible.OneLine(key, 64))})
	}
}

// expand puts variables in, and checks that the type is that of what is there.
func (s *otherServer) expand(environ []string) *Problem {
	switch s.Type {
	case "", "stdio", "http", "streamable-http":
	default:
		return &Problem{Field: "type", What: fmt.Sprintf("%.40q is not supported", s.Type), Remedy: "use stdio or http"}
	}
	if s.Type == "stdio" && s.URL != "" || strings.HasSuffix(s.Type, "http") && s.Command != "" {
		return &Problem{Field: "type", What: "does not go with what the server has",
			Remedy: "give command for stdio, and url for http"}
	}
	values := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	missing := ""
	put := func(text string) string { return expandVariables(text, values, &missing) }
	s.Command, s.URL = put(s.Command), put(s.URL)
	for i := range s.Args {
		s.Args[i] = put(s.Args[i])
	}
	for _, texts := range []map[string]string{s.Env, s.Headers} {
		for key, value := range texts {
			texts[key] = put(value)
		}
	}
	if missing != "" {
		return &Problem{Field: "${" + missing + "}", What: "the variable is not set for commands",
			Remedy: "allow it with --env " + missing + " (agentd: --pass-env), or write ${" + missing + ":-default}"}
	}
	return nil
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// expandVariables puts in the values of variables. missing becomes the name of one that has none.
func expandVariables(text string, values map[string]string, missing *string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		parts := variable.FindStringSubmatch(found)
		value, set := values[parts[1]]
		switch {
		case value != "" || set && parts[2] == "":
			return value
		case parts[2] == "":
			*missing = parts[1]
		}
		return strings.TrimPrefix(parts[2], ":-")
	})
}
