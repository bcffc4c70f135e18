package memory

import (
	"encoding/json"
	"fmt"
	"strings"

	"holon/internal/pattern"
	"holon/responses/turns"
	"holon/runner/activity"
	"holon/state/ledger"
)

// Calls are what the calls of tools of a turn did, by their events: files that they edited, commands, and how those
// commands ended that check something.
type Calls struct{ Files, Commands, Checks []string }

// checks is what a command that checks something names.
var checks = pattern.Lazy(`(?i)\b(test|tests|check|verify|lint|vet|build|pytest|typecheck)\b`)

// Apply adds an event of the turn. What is wrong with a payload is left out.
func (c *Calls) Apply(e ledger.Event) {
	if e.Class != turns.ToolResult && e.Class != turns.ToolFailed {
		return
	}
	var p struct {
		Call  string          `json:"call"`
		Files []activity.File `json:"files"`
		Exit  *int            `json:"exit_code"`
	}
	if json.Unmarshal(e.Data, &p) != nil {
		return
	}
	for _, f := range p.Files {
		c.Files = join(c.Files, []string{f.Path}, maxFiles)
	}
	cmd, ok := strings.CutPrefix(p.Call, "$ ")
	if !ok {
		return
	}
	c.Commands = join(c.Commands, []string{cmd}, maxCommands)
	if p.Exit != nil && checks().MatchString(cmd) {
		c.Checks = join(c.Checks, []string{fmt.Sprintf("exit %d: %s", *p.Exit, cmd)}, maxCommands)
	}
}
