// Package config holds the settings of agentd: their flags, their environment
// variables, their defaults and their checks.
//
//	Default ─▶ LoadEnv ─▶ Bind, flags ─▶ Validate ─▶ the server
//
// The tags of a field are all there is of a setting: its variable, its default, the
// bounds of a number. Its flag has the name of the variable without HOLON_. Validate
// reports everything that is wrong at once. No other package of agentd reads the
// environment.
package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"holon/internal/redact"
	"holon/skills"
)

// Config holds every setting. Each is a flag and an environment variable; a flag
// wins.
type Config struct {
	Server    server
	Dirs      dirs
	Agent     agent
	Models    models
	Turns     turns
	Retention retention
	Tools     tools
	Commands  commands
	WebSocket webSocket
	Users     users
}

// Conventional sockets inside a container (docs/reference/turn.md).
const (
	defaultModelSocket  = "/holon/host/model.sock"
	defaultEgressSocket = "/holon/host/egress.sock"
	defaultHostSocket   = "/holon/host/host.sock"
)

// Default returns the settings that hold inside a container.
func Default() Config {
	c := Config{WebSocket: webSocket{Lifetime: time.Hour, Ping: 30 * time.Second}}
	if err := env.ParseWithOptions(&c, env.Options{Environment: map[string]string{}}); err != nil {
		panic(err) // a default of the tags cannot be read
	}
	return c
}

// Validate checks every setting and reports all that are wrong together, as
// Problems. It makes the directories absolute.
func (c *Config) Validate() error {
	var p Problems
	c.inBounds(&p)
	c.Dirs.validate(&p)
	c.Server.validate(&p)
	c.Models.validate(&p)
	c.Agent.validate(&p)
	c.Turns.validate(&p)
	c.Tools.validate(&p)
	c.Users.validate(&p)
	if c.Users.Command != "" {
		c.checkDirs(&p)
	}
	return p.err()
}

// StartDir is the working tree of what names none: the agent's home where that is one of the working trees.
func (c *Config) StartDir() string {
	if rel, err := filepath.Rel(c.Dirs.Workspace, c.Agent.Home); err == nil && filepath.IsLocal(rel) {
		return c.Agent.Home
	}
	return c.Dirs.Workspace
}

// checkDirs refuses paths that lead through a link where commands must not take
// agentd's place. The image made such a link: what the host mounted is then where
// the link leads, which may be a directory that commands can rename. It refuses
// directories of agentd in which the working tree lies, which is the commands'.
func (c *Config) checkDirs(p *Problems) {
	tree := absolute(c.Dirs.Workspace)
	for _, at := range []struct {
		flag, dir string
		own       bool
	}{
		{"--input-dir", c.Dirs.Input, false}, {"--output-dir", c.Dirs.Output, true}, {"--state-dir", c.Dirs.State, true},
		{"--workspace-dir", c.Dirs.Workspace, false}, {"--skills-dir", c.Dirs.Skills, false},
		{"--anchors-dir", c.Dirs.Anchors, false},
		{"--agent-home", c.Agent.Home, false}, {"--socket", filepath.Dir(c.Server.Socket), c.Server.Socket != ""},
		{"--model-socket", filepath.Dir(c.Models.Gateway()), c.Models.Gateway() != ""},
		{"--host-socket", filepath.Dir(c.Tools.HostMCP()), c.Tools.HostMCP() != ""},
		{"--egress-socket", filepath.Dir(c.Commands.EgressSocket), c.Commands.EgressSocket != ""},
	} {
		real, err := filepath.EvalSymlinks(at.dir)
		if err == nil && real != filepath.Clean(at.dir) {
			p.add(at.flag, fmt.Sprintf("%s leads to %s by a link", at.dir, real),
				"use an image without links below /holon")
		}
		rel, err := filepath.Rel(absolute(at.dir), tree)
		if rel == "." && at.flag == "--output-dir" { // there is no tree: a turn works among its artifacts
			continue
		}
		if at.own && err == nil && filepath.IsLocal(rel) {
			p.add(at.flag, fmt.Sprintf("the working tree %s lies in %s, which --command-user gives to agentd", tree,
				at.dir), "choose a directory of its own")
		}
	}
}

// absolute is path from the root, or as it is where there is no working directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// SkillRoots says where skills are looked for, with a working tree or "" for
// none. The agent's home in a container without one of its own is /holon, so that --skills-dir is by
// default what the runtime specification calls <agent_home>/skills.
func (c *Config) SkillRoots(tree string) skills.Roots {
	return skills.Roots{Role: skills.Role(c.Agent.Role), UserHome: c.Agent.UserHome, AgentSkills: c.Dirs.Skills,
		AgentHome: c.Agent.Home, Workspace: tree}
}

// RegisterSecrets registers for redaction the values of variables that are secret
// by their name or named by --secret-env, and the token of --token-file. It returns
// the names of variables whose values cannot be looked for.
func (c *Config) RegisterSecrets(environ []string, secrets *redact.Set) (unknown []string) {
	unknown = secrets.AddEnviron(environ, commaList(c.Commands.SecretEnv))
	if token, err := c.Server.Token(); err == nil { // the server reports what is wrong with the file
		secrets.Add("--token-file", token)
	}
	return unknown
}

func commaList(s string) []string {
	var list []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	return list
}
