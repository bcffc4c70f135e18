// Package mcp makes tools of MCP servers for the turn loop: servers that agentd
// starts in the container, servers over HTTP, and the host's on host.sock.
//
//	config ─▶ server (one goroutine each: connect, list, watch, connect again)
//	             │                                          ▲
//	             ▼ what it offers, checked                  │ calls
//	turn  ◀── Offer: tools under their names, facts ── tool.Run
//
// The invariant: no server can stop a turn. Messages of a server are bounded before
// they are decoded, each of its tools is checked, a call ends with its timeout or
// its turn, and a turn's list of tools never changes. A call is made once. Only a
// call to the host, which identifies calls by their ids, is repeated when the
// connection broke and the call may or may not have been made.
//
// Sessions, messages and the HTTP transport are the official SDK's. Reconnecting, bounds
// on what a server sends, and the check of its tools are ours, since the SDK has none:
// its client ends with its connection, and its streams hold messages of any size.
//
// Servers may be unavailable: a turn waits briefly for those that are still
// connecting, and records which are not connected.
package mcp

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"holon/agentd/process"
	"holon/responses/turns"
)

// hostName is the name of the host's server in notes and in /health.
const hostName = "host"

// Bounds in time.
const (
	defaultConnectTimeout = 30 * time.Second
	defaultCallTimeout    = 5 * time.Minute
	hostCallTimeout       = 6 * time.Minute  // of the host, whose tools have bounds of their own
	firstWait             = 10 * time.Second // of a turn, for servers that are connecting for the first time
)

// starter starts programs; *process.Supervisor is one.
type starter interface {
	Start(c process.Command) (*process.Process, error)
}

// Options configure a Manager.
type Options struct {
	Config     Config
	HostSocket string // of the host's server; "" where there is none
	Starter    starter
	Environ    []string // of the servers that are started, complete
	Dir        string   // their default directory
	LogDir     string   // for their logs; "" keeps only the last lines
	Version    string   // of this program, sent to servers
	Log        *slog.Logger
}

// Manager keeps the connections. It is safe for concurrent use.
type Manager struct {
	options Options
	log     *slog.Logger
	servers []*server // the host first, then by name

	ctx     context.Context // of every connection, which outlives turns
	stop    context.CancelFunc
	workers sync.WaitGroup
}

// Open begins to connect to every server and returns at once. Close ends it.
func Open(o Options) *Manager {
	m := &Manager{options: o, log: o.Log}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if o.LogDir != "" && len(o.Config.Servers) > 0 {
		if err := os.MkdirAll(o.LogDir, 0o770); err != nil {
			m.log.Warn("logs of MCP servers are not kept", "err", err)
			m.options.LogDir = ""
		}
	}
	if o.HostSocket != "" {
		m.servers = append(m.servers, m.newServer(hostName,
			Server{Socket: o.HostSocket, CallTimeout: Duration(hostCallTimeout)}, dialSocket(o.HostSocket), true))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Config.Servers)) {
		cfg := o.Config.Servers[name]
		m.servers = append(m.servers, m.newServer(name, cfg, m.dialer(name, cfg), false))
	}
	for _, s := range m.servers {
		m.workers.Go(func() { s.keep(m.ctx) })
	}
	return m
}

func (m *Manager) dialer(name string, cfg Server) dialer {
	switch {
	case cfg.Command != "":
		return m.dialProcess(name, cfg)
	case cfg.Socket != "":
		return dialSocket(cfg.Socket)
	}
	return m.dialHTTP(cfg)
}

// Close ends every connection and every server that was started, and waits.
func (m *Manager) Close() error {
	m.stop()
	m.workers.Wait()
	return nil
}

// Health returns the state of each server without calling it.
func (m *Manager) Health() []turns.MCPServer {
	list := make([]turns.MCPServer, len(m.servers))
	for i, s := range m.servers {
		list[i] = s.health()
	}
	return list
}

// settle waits, for at most firstWait, until every server has answered or failed
// once. It wakes servers that gave up.
func settle(ctx context.Context, servers []*server) {
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	for _, s := range servers {
		s.wake()
		s.awaitSettled(ctx)
	}
}
