package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The threads that agentd keeps in reserve for a command that uses up every
// process are made before the first command, not before the first answer.
func TestThreadsComeWithTheFirstCommand(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "agentd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	scenario := "turns:\n  - rounds:\n      - calls: [{tool: ExecCommand, arguments: {cmd: 'true'}}]\n" +
		"      - text: Done.\n"
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, c := startServer(t, dir)
	threads := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
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
