package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/settings"
	"holon/runner/uidpool"
)

// confinement is what only a person may say about how the container
// is confined.
type confinement struct {
	User         string
	UIDs         string
	Runtime      string
	AcceptWeaker []string
	AllowHosts   []string
}

// confinementFlags defines the flags of a confinement.
func confinementFlags(f *pflag.FlagSet) {
	f.StringArray("allow-host", nil, "`HOST` that the agent may reach over HTTP and HTTPS, or *.DOMAIN for those "+
		"below one (default none)")
	f.String("user", "", "`UID:GID` of the container (default yours; each container of root has one of its own)")
	f.String("runtime", "", "`name` of what runs containers in the engine, such as runsc (default the engine's)")
	f.StringSlice("accept-weaker", nil,
		"`axes` of the isolation that the engine may enforce less strictly than asked for")
}

// confinementOf returns what is set of a confinement.
func confinementOf(s *settings.Settings) confinement {
	return confinement{User: s.User, UIDs: s.ContainerUIDs, Runtime: s.ContainerRuntime, AcceptWeaker: s.AcceptWeaker,
		AllowHosts: s.AllowHosts}
}

// check refuses what no engine could be asked for.
func (c *confinement) check(engineName string) error {
	for flag, value := range map[string]string{"--user": c.User, "--runtime": c.Runtime} {
		if value != "" && engineName == "local" {
			return usage(flag, "the local engine runs everything as you", "leave "+flag+" out, or use --engine docker")
		}
	}
	for _, name := range c.AcceptWeaker {
		if !slices.Contains(runner.AxisNames(), name) {
			return usage("--accept-weaker", fmt.Sprintf("there is no axis %q", visible.OneLine(name, 60)),
				"choose of "+strings.Join(runner.AxisNames(), ", "))
		}
	}
	_, err := c.user()
	return err
}

// user returns who runs in the container, nil for the default.
func (c *confinement) user() (*engine.User, error) {
	if c.User == "" {
		return nil, nil
	}
	uid, gid, ok := strings.Cut(c.User, ":")
	var ids [2]int
	for i, text := range []string{uid, gid} {
		// To the kernel the last number means that the id is not set.
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || !ok || n >= 1<<32-1 {
			return nil, usage("--user", fmt.Sprintf("%q is not UID:GID", visible.OneLine(c.User, 60)),
				"write two numbers, for example 1000:1000")
		}
		ids[i] = int(n)
	}
	return &engine.User{UID: ids[0], GID: ids[1]}, nil
}

// confine puts it into a session.
func (c *confinement) confine(cfg *runner.Config) (err error) {
	cfg.Runtime, cfg.Accept = c.Runtime, c.AcceptWeaker
	if cfg.Egress, err = c.proxy(cfg.Log); err != nil {
		return err
	}
	if cfg.UIDs, err = c.uids(); err != nil {
		return err
	}
	cfg.User, err = c.user()
	return err
}

// uidDir keeps which user ids are in use, for every state home of the machine. It
// is lost with a reboot, as the containers are.
const uidDir = "/run/holon/uids"

// uids returns the user ids for containers of root.
func (c *confinement) uids() (uidpool.Pool, error) {
	pool := uidpool.Pool{Dir: uidDir, First: uidpool.DefaultFirst, Count: uidpool.DefaultCount}
	var err error
	if c.UIDs != "" {
		pool.First, pool.Count, err = uidpool.Parse(c.UIDs)
	}
	return pool, err
}

// looser ends the opening line of a run whose container is confined less than by default.
func looser(cfg *runner.Config) string {
	var ways []string
	if cfg.Network != "" && cfg.Network != engine.NetworkNone {
		ways = append(ways, "network "+visible.OneLine(cfg.Network, 60))
	}
	if cfg.User != nil && cfg.User.UID == 0 {
		ways = append(ways, "root in its container")
	}
	if len(cfg.Accept) > 0 {
		ways = append(ways, "weaker "+strings.Join(cfg.Accept, ", ")+" accepted")
	}
	if len(ways) == 0 {
		return ""
	}
	return "; looser than by default: " + strings.Join(ways, ", ")
}
