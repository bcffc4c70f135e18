package config_test

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/config"
	"holon/test/expect"
)

// Impossible bounds of output files are reported all at once, each with a remedy;
// zero is a bound.
func TestBoundsOfLogsAreChecked(t *testing.T) {
	c := config.Default()
	c.Commands.TurnLogBytes, c.Commands.LogBytes = 0, 0
	if err := c.Validate(); err != nil {
		t.Errorf("zero is refused: %v", err)
	}
	c.Commands.StreamBytes, c.Commands.TurnLogBytes, c.Commands.LogBytes = 0, -1, -1
	problems, ok := errors.AsType[config.Problems](c.Validate())
	if !ok || len(problems) != 3 {
		t.Fatalf("Validate returns %v, want three problems", problems)
	}
	for i, setting := range []string{"--stream-log-bytes", "--turn-log-bytes", "--log-bytes"} {
		if p := problems[i]; p.Setting != setting || p.What == "" || !strings.Contains(p.Remedy, "is the default") {
			t.Errorf("problem %d is %+v, want one of %s with its default", i, p, setting)
		}
	}
}

// Each flag that a variable can set instead is known by it, and by itself when it was given.
func TestOrigins(t *testing.T) {
	c := config.Default()
	fs := flag.NewFlagSet("agentd", flag.ContinueOnError)
	c.Bind(fs)
	variables := map[string]string{"--max-rounds": "HOLON_MAX_ROUNDS", "--turn-timeout": "HOLON_TURN_TIMEOUT",
		"--model": "HOLON_MODEL", "--command-user": "HOLON_COMMAND_USER", "--log-bytes": "HOLON_LOG_BYTES"}
	for _, name := range variables {
		t.Setenv(name, "1")
	}
	t.Setenv("HOLON_GRACE", "")
	expect.NoError(t, config.ParseFlags(fs, []string{"--model", "gpt"}, io.Discard))
	delete(variables, "--model")
	got := c.Origins(fs)
	if diff := cmp.Diff(config.Origins(variables), got); diff != "" {
		t.Errorf("Origins (-want +got):\n%s", diff)
	}
	p, ok := errors.AsType[config.Problems](got.Name(config.Wrong("--max-rounds", "is wrong", "mend it")))
	if !ok || p[0].Setting != "HOLON_MAX_ROUNDS" {
		t.Errorf("the problem is %+v, want one of HOLON_MAX_ROUNDS", p)
	}
}

// Each flag has a text that explains it.
func TestUsages(t *testing.T) {
	c := config.Default()
	fs := flag.NewFlagSet("agentd", flag.ContinueOnError)
	c.Bind(fs)
	n := 0
	fs.VisitAll(func(f *flag.Flag) {
		n++
		if f.Usage == "" {
			t.Errorf("--%s has no usage", f.Name)
		}
	})
	if n != 49 {
		t.Errorf("there are %d flags, want the 49 that usages explains", n)
	}
}

// Two users share nothing, and agentd gets no directory in which the commands work.
func TestUsers(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(*config.Config)
		setting string // "": all is well
	}{
		"one user":              {func(c *config.Config) { c.Users.Command, c.Users.Server = "", "x" }, ""},
		"two users":             {func(*config.Config) {}, ""},
		"a name":                {func(c *config.Config) { c.Users.Command = "agent" }, "--command-user"},
		"commands of root":      {func(c *config.Config) { c.Users.Command = "0:1" }, "--command-user"},
		"agentd of root":        {func(c *config.Config) { c.Users.Server = "0:1" }, "--server-user"},
		"the same user":         {func(c *config.Config) { c.Users.Server = "1000:1" }, "--server-user"},
		"the same group":        {func(c *config.Config) { c.Users.Server = "1:1000" }, "--server-user"},
		"a tree in the output":  {func(c *config.Config) { c.Dirs.Output = "/w" }, "--output-dir"},
		"no tree":               {func(c *config.Config) { c.Dirs.Output = "/w/tree" }, ""},
		"a tree in the state":   {func(c *config.Config) { c.Dirs.State = "/w/tree/" }, "--state-dir"},
		"a tree with a socket":  {func(c *config.Config) { c.Server.Socket = "/w/agent.sock" }, "--socket"},
		"a socket in the tree":  {func(c *config.Config) { c.Server.Socket = "/w/tree/ipc/agent.sock" }, ""},
		"no socket, but a port": {func(c *config.Config) { c.Server.Socket, c.Server.Listen = "", "127.0.0.1:0" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			c.Users.Command, c.Dirs.Workspace = "1000", "/w/tree"
			row.change(&c)
			err := c.Validate()
			problems, _ := errors.AsType[config.Problems](err)
			switch {
			case row.setting == "":
				expect.NoError(t, err)
			case len(problems) != 1 || problems[0].Setting != row.setting:
				t.Errorf("%v, want one problem of %s", err, row.setting)
			}
		})
	}
}
