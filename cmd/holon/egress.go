package main

import (
	"log/slog"
	"strings"

	"holon/runner/egress"
	"holon/runner/engine"
	"holon/runner/settings"
)

// checkHosts refuses a list with a wrong entry, and any list where the network is open anyway.
func (c *confinement) checkHosts(engineName, network string) error {
	if len(c.AllowHosts) == 0 {
		return nil
	}
	if engineName == settings.EngineLocal || network != engine.NetworkNone {
		return usage("--allow-host", "the agent could reach every host without it",
			"use it with docker and --network none, or leave it out")
	}
	_, err := c.proxy(nil)
	return err
}

// proxy returns the way out that a person has opened, nil if none.
func (c *confinement) proxy(log *slog.Logger) (*egress.Proxy, error) {
	if len(c.AllowHosts) == 0 {
		return nil, nil
	}
	list := make([]string, len(c.AllowHosts))
	for i, host := range c.AllowHosts {
		list[i] = strings.TrimSpace(host) // people write lists with spaces
	}
	return egress.New(egress.Options{Allow: list, Log: log})
}
