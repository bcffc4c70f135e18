package main

import (
	"fmt"
	"os"

	"holon/internal/visible"
	"holon/runner/settings"
)

// maxMCPConfig bounds what is read of a list of MCP servers to see whether it can be read.
const maxMCPConfig = 1 << 20

// checkMCPConfig refuses a path that is not a file, and a file that is neither YAML nor JSON, before anything is made.
// agentd checks what the file says.
func checkMCPConfig(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return usage("--mcp-config", fmt.Sprintf("%q is not a file", visible.OneLine(path, 200)),
			"name one with the MCP servers of the run")
	}
	if info.Size() > maxMCPConfig {
		return nil
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = settings.CheckSyntax(data)
	}
	if err != nil {
		return usage("--mcp-config", visible.Name(path)+" cannot be read: "+err.Error(),
			"write servers: with a name and command:, url: or socket: for each (docs/reference/mcp.md)")
	}
	return nil
}
