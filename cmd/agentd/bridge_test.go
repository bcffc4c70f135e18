package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/programs"
)

// Commands of the bridge's own user can neither trace it nor reach its memory and streams: the kernel gives its
// directory of /proc to root.
func TestBridgeHides(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "bridge") // which the user can enter
	expect.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "agentd")
	expect.NoError(t, errors.Join(os.Chmod(dir, 0o755), programs.Copy("agentd", program)))
	cmd := exec.CommandContext(t.Context(), program, "bridge")
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	stdin, err := cmd.StdinPipe()
	expect.NoError(t, err)
	expect.NoError(t, cmd.Start())
	memory := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/mem"
	hidden := false
	for end := time.Now().Add(time.Minute); !hidden && time.Now().Before(end); time.Sleep(time.Millisecond) {
		info, err := os.Stat(memory)
		expect.NoError(t, err)
		hidden = info.Sys().(*syscall.Stat_t).Uid == 0
	}
	expect.Equal(t, "it is hidden", hidden, true)
	expect.NoError(t, stdin.Close())
	expect.NoError(t, cmd.Wait())
}
