package main

import (
	"fmt"
	"os"
	"testing"

	"holon/test/expect"
)

// The threads that agentd keeps in reserve for a command that uses up every
// process are made before the first command, not before the first answer.
func TestThreadsComeWithTheFirstCommand(t *testing.T) {
	t.Parallel()
	dir := playing(t, "turns:\n  - rounds:\n      - calls: [{tool: ExecCommand, arguments: {cmd: 'true'}}]\n"+
		"      - text: Done.\n")
	cmd, c := startServer(t, dir)
	threads := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		expect.NoError(t, err)
		return len(list)
	}
	ready := threads() // it has answered
	if resp, err := c.Create(t.Context(), request("go")); err != nil ||
		resp.OutputText() != "Done." {
		t.Fatalf("%+v, %v", resp, err)
	}
	if after := threads(); after < 32 || after-ready < 8 {
		t.Errorf("%d threads when ready and %d after a command", ready, after)
	}
}
