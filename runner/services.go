package runner

import (
	"context"
	"fmt"
	"path/filepath"

	"holon/runner/hosttools"
)

// NotesFile holds what the agent noted with the host's tools, in the run's own
// directory. It is the host's: no container sees it.
const NotesFile = "notes.ndjson"

// openHostTools serves the host's tools to the container's agentd, with every engine.
func (s *Session) openHostTools(ctx context.Context) (err error) {
	s.hostTools, err = hosttools.Serve(ctx, hosttools.Options{
		Socket: s.seam.service(toolSocket), Notes: s.cfg.NotesRecord, Secrets: s.cfg.Secrets, Tools: s.syncedTools(),
		Inside:  s.inside,
		Barrier: s.barrier, Version: s.cfg.Version, Log: s.cfg.Log,
	})
	return err
}

// configPath is where the container finds mcpConfig, the user's list of MCP servers.
const (
	configPath = "/holon/config"
	mcpConfig  = "mcp.yaml"
)

// placeMCPConfig copies the list of MCP servers to where the container's user
// can read it. agentd checks what is in it.
func (s *Session) placeMCPConfig() error {
	if s.cfg.MCPConfig == "" {
		return nil
	}
	s.mcpConfig = filepath.Join(s.cfg.Dir, "config", mcpConfig)
	if err := s.seam.put(s.cfg.MCPConfig, s.mcpConfig); err != nil {
		return &Error{Code: CodeUsage, Param: "--mcp-config",
			Message: fmt.Sprintf("%.200q cannot be given to the container: %v", s.cfg.MCPConfig, err),
			Hint:    "name a readable file"}
	}
	return nil
}

// CloseHostTools ends the calls that are being made; no more are taken.
func (s *Session) CloseHostTools() error {
	if s.hostTools == nil {
		return nil
	}
	return s.hostTools.Close()
}

// EgressFile is the host's own record of what a container was let out to, in the
// run's own directory (docs/guides/egress.md).
const EgressFile = "egress.ndjson"

// openEgress serves the proxy of the container, if it is to have one.
func (s *Session) openEgress(ctx context.Context) (err error) {
	if s.cfg.Egress == nil {
		return nil
	}
	s.egress, err = s.cfg.Egress.Serve(ctx, s.seam.service(egressSocket), s.cfg.EgressRecord, s.cfg.OnEgress)
	return err
}

// CloseEgress cuts what is still connected and completes the record of it.
func (s *Session) CloseEgress() error {
	if s.egress == nil {
		return nil
	}
	return s.egress.Close()
}
