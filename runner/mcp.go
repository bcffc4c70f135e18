package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"holon/runner/hosttools"
)

// NotesFile holds what the agent noted with the host's tools, in the run's own
// directory. It is the host's: no container sees it.
const NotesFile = "notes.ndjson"

// openHostTools serves the host's tools to the container's agentd, whatever engine
// runs it.
func (s *Session) openHostTools(ctx context.Context) (err error) {
	record := s.cfg.NotesRecord
	switch {
	case s.cfg.AgentHome != "": // notes are of a run, whose results they are put with
		record = ""
	case record == "":
		record = filepath.Join(s.cfg.Dir, NotesFile)
	}
	s.hostTools, err = hosttools.Serve(ctx, hosttools.Options{
		Socket: s.hostSocket(toolSocket), Notes: record, Secrets: s.cfg.Secrets, Tools: s.cfg.HostTools, Peer: s.served,
		Version: s.cfg.Version, Log: s.cfg.Log,
	})
	return err
}

// mcpConfigPath is where the container finds the user's list of MCP servers.
const mcpConfigPath = "/holon/mcp.yaml"

// placeMCPConfig copies the list of MCP servers to where the container's user
// can read it. agentd checks what is in it.
func (s *Session) placeMCPConfig() error {
	if s.cfg.MCPConfig == "" {
		return nil
	}
	s.mcpConfig = filepath.Join(s.cfg.Dir, "mcp.yaml")
	if err := copyReadable(s.cfg.MCPConfig, s.mcpConfig); err != nil {
		return &Error{Code: CodeUsage, Param: "--mcp-config",
			Message: fmt.Sprintf("%.200q cannot be given to the container: %v", s.cfg.MCPConfig, err),
			Hint:    "name a readable file"}
	}
	return nil
}

// closeHostTools ends the calls that are being made; no more are taken.
func (s *Session) closeHostTools() error {
	if s.hostTools == nil {
		return nil
	}
	return s.hostTools.Close()
}

// collectNotes puts what the agent noted into the manifest. Notes that can't be
// read are a warning: the run has its results all the same.
func (r *oneShot) collectNotes() {
	var err error
	if r.session != nil {
		err = r.session.closeHostTools() // the container is gone, or about to go
	}
	notes, readErr := hosttools.ReadNotes(r.Session.NotesRecord)
	if errors.Is(readErr, fs.ErrNotExist) {
		readErr = nil // the run did not come so far
	}
	r.manifest.Notes = notes
	if err = errors.Join(err, readErr); err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			OneLine("the agent's notes may be incomplete: "+err.Error(), 300))
	}
}

// summarizeNotes is the part of the summary with the agent's notes.
func (r *oneShot) summarizeNotes(b *bytes.Buffer) {
	for i, note := range r.manifest.Notes {
		if i == 0 {
			fmt.Fprint(b, "\n## Notes of the agent\n")
		}
		fmt.Fprintf(b, "\n%s\n\n%s\n", proseSpan(note.Kind), fence(note.Text))
	}
}
