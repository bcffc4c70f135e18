// Package config holds the settings of agentd: their flags, their environment
// variables, their defaults and their checks.
//
//	Default ─▶ LoadEnv ─▶ Bind, flags ─▶ Validate ─▶ the server
//
// Each noun of the server has a group with its own flags and checks. Validate
// reports everything that is wrong at once. No other package of agentd reads the
// environment.
package config

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"holon/agentd/process"
	"holon/internal/redact"
	"holon/skills"
)

// Config holds every setting. Each is a flag and an environment variable; a flag
// wins.
type Config struct {
	Server    Server
	Dirs      Dirs
	Agent     Agent
	Models    Models
	Turns     Turns
	Retention Retention
	Tools     Tools
	Commands  Commands
	WebSocket WebSocket
	Users     Users
}

// group is the settings of one noun.
type group interface {
	bind(*flag.FlagSet)
	validate(*Problems)
}

// groups returns all groups, in the order in which their problems are reported.
func (c *Config) groups() []group {
	return []group{&c.Dirs, &c.Server, &c.Models, &c.Agent, &c.Turns, &c.Retention, &c.Tools, &c.Commands, &c.WebSocket,
		&c.Users}
}

// Conventional sockets inside a container (docs/reference/turn.md).
const (
	defaultSocket       = "/holon/ipc/agent.sock"
	defaultModelSocket  = "/holon/host/model.sock"
	defaultEgressSocket = "/holon/host/egress.sock"
	defaultHostSocket   = "/holon/host/host.sock"
)

// Default returns the settings that hold inside a container.
func Default() Config {
	return Config{
		Server: Server{Socket: defaultSocket},
		Dirs: Dirs{Input: "/holon/input", Output: "/holon/output", State: "/holon/state",
			Workspace: "/holon/workspaces", Skills: "/holon/skills"},
		Agent:  Agent{Home: "/holon", Role: string(skills.RoleDefault)},
		Models: Models{Idle: 5 * time.Minute, Timeout: time.Hour, RetryFor: 2 * time.Minute},
		Turns: Turns{Concurrency: 1, QueueLimit: 64, MaxRounds: 200, Timeout: 2 * time.Hour, MaxOutput: 4 << 30,
			Grace: 10 * time.Second, MinFree: 64 << 20},
		Retention: Retention{Age: 30 * 24 * time.Hour, Count: 10_000, Bytes: 1 << 30},
		Tools:     Tools{OutputTokens: 8_000, MaxOutputTokens: 64_000},
		Commands: Commands{TaskTimeout: 24 * time.Hour, TaskNotices: true, StreamBytes: process.DefaultLogBytes,
			TurnLogBytes: 1 << 30, LogBytes: 8 << 30},
		Users:     Users{Server: "65533"},
		WebSocket: WebSocket{Lifetime: time.Hour, Ping: 30 * time.Second},
	}
}

// LoadEnv overrides c with what the environment sets. All malformed variables
// are reported together.
func (c *Config) LoadEnv() error {
	var p Problems
	for _, g := range c.groups() {
		err := env.Parse(g)
		agg, ok := errors.AsType[env.AggregateError](err)
		if err != nil && !ok {
			return err
		}
		for _, e := range agg.Errors {
			wrong, ok := errors.AsType[env.ParseError](e)
			if !ok {
				p.add("environment", e.Error(), "correct or unset the variable")
				continue
			}
			field, _ := reflect.TypeOf(g).Elem().FieldByName(wrong.Name)
			p.add(field.Tag.Get("env"), "cannot be read as "+kind(wrong.Type),
				"correct or unset the variable")
		}
	}
	return p.err()
}

// Bind registers the flags of c on fs, with c's present values as defaults.
func (c *Config) Bind(fs *flag.FlagSet) {
	for _, g := range c.groups() {
		g.bind(fs)
	}
}

// Validate checks every setting and reports all that are wrong together, as
// Problems. It makes the directories absolute.
func (c *Config) Validate() error {
	var p Problems
	for _, g := range c.groups() {
		g.validate(&p)
	}
	if c.Users.Command != "" {
		c.checkDirs(&p)
	}
	return p.err()
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
// none. The agent's home in a container is /holon, so that --skills-dir is by
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
