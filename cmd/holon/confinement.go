package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/egress"
	"holon/runner/engine"
	"holon/runner/settings"
	"holon/runner/uidpool"
)

// confinementFlags defines the flags of a confinement.
func confinementFlags(f *pflag.FlagSet) {
	f.StringArray("allow-host", nil, "`HOST` that the agent may reach over HTTP and HTTPS, or *.DOMAIN for those "+
		"below one (default none)")
	f.String("user", "", "`UID:GID` of the container (default yours; each container of root has one of its own)")
	f.String("link", engine.LinkAuto,
		"`how` the container is reached: auto, mounts or stream (files are copied, sockets go "+
			"through the engine)")
	f.String("runtime", "", "`name` of what runs containers in the engine, such as runsc (default the engine's)")
	f.StringSlice("accept-weaker", nil,
		"`axes` of the isolation that the engine may enforce less strictly than asked for")
}

// userOf returns the user of the container, nil for the default.
func userOf(s *settings.Settings) (*engine.User, error) {
	if s.User == "" {
		return nil, nil
	}
	uid, gid, ok := strings.Cut(s.User, ":")
	var ids [2]int
	for i, text := range []string{uid, gid} {
		// To the kernel the last number means that the id is not set.
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || !ok || n >= 1<<32-1 {
			return nil, usage("--user", fmt.Sprintf("%q is not UID:GID", visible.OneLine(s.User, 60)),
				"write two numbers, for example 1000:1000")
		}
		ids[i] = int(n)
	}
	return &engine.User{UID: ids[0], GID: ids[1]}, nil
}

// checkHosts refuses a list with a wrong entry, and any list where the network is open anyway.
func checkHosts(s *settings.Settings) error {
	open := s.Engine == settings.EngineLocal || s.Network != engine.NetworkNone
	if len(s.AllowHosts) > 0 && open {
		return usage("--allow-host", "the agent could reach every host without it",
			"use it with docker and --network none, or leave it out")
	}
	_, err := proxyOf(s, nil)
	return err
}

// proxyOf returns the way out that a person has opened, nil if none.
func proxyOf(s *settings.Settings, log *slog.Logger) (*egress.Proxy, error) {
	private := s.PrivateHosts
	if s.Engine == settings.EngineLocal || s.Network != engine.NetworkNone { // where they are reached without it
		private = nil
	}
	if len(s.AllowHosts)+len(private) == 0 {
		return nil, nil
	}
	list := make([]string, len(s.AllowHosts))
	for i, host := range s.AllowHosts {
		list[i] = strings.TrimSpace(host) // people write lists with spaces
	}
	return egress.New(egress.Options{Allow: list, Private: private, Log: log})
}

// uidDir keeps which user ids are in use, for every state home of the machine. It
// is lost with a reboot, as the containers are.
const uidDir = "/run/holon/uids"

// confinementOf is what is set of the confinement of containers. It refuses what no engine could be asked for.
func confinementOf(s *settings.Settings) (c runner.Confinement, err error) {
	for flag, value := range map[string]string{"--user": s.User, "--runtime": s.ContainerRuntime} {
		if value != "" && s.Engine == settings.EngineLocal {
			return c, usage(flag, "the local engine runs everything as you", "leave "+flag+" out, or use --engine docker")
		}
	}
	for _, name := range s.AcceptWeaker {
		if !slices.Contains(runner.AxisNames(), name) {
			return c, usage("--accept-weaker", fmt.Sprintf("there is no axis %q", visible.OneLine(name, 60)),
				"choose of "+strings.Join(runner.AxisNames(), ", "))
		}
	}
	c = runner.Confinement{Network: s.Network, NanoCPUs: int64(s.CPUs * 1e9), Runtime: s.ContainerRuntime,
		Accept: s.AcceptWeaker,
		UIDs:   uidpool.Pool{Dir: uidDir, First: uidpool.DefaultFirst, Count: uidpool.DefaultCount}}
	if c.Memory, err = s.Memory.Bytes(); err != nil {
		return c, err
	}
	if s.ContainerUIDs != "" {
		if c.UIDs.First, c.UIDs.Count, err = uidpool.Parse(s.ContainerUIDs); err != nil {
			return c, err
		}
	}
	c.User, err = userOf(s)
	return c, err
}

// confine puts what is set of the confinement into a session.
func confine(s *settings.Settings, cfg *runner.Config) (err error) {
	if cfg.Confinement, err = confinementOf(s); err == nil {
		cfg.Egress, err = proxyOf(s, cfg.Log)
	}
	return err
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
