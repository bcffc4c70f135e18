package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/internal/procfs"
	"holon/responses"
	"holon/test/expect"
)

// As the first process of a container, agentd reaps every process that is re-parented to it, ends hidden processes of a
// command with the command, and ends all processes when it gets a signal, including those that ignore theirs.
func TestInit(t *testing.T) {
	t.Parallel()
	unshare := []string{"env", "HOLON_GRACE=100ms", "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no pid namespace can be made here: %v: %s", err, out)
	}
	commands := map[syscall.Signal]string{
		syscall.SIGTERM: `trap "" TERM HUP INT; (setsid sh -c "while :; do sleep 1; done" &); touch ran; while :; ` +
			`do sleep 1; done`,
		syscall.SIGINT: `touch ran; sleep 300`,
		syscall.SIGHUP: `(setsid sleep 300 &); touch ran; sleep 300`,
	}
	for sig, command := range commands {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) {
				t.Skip("the signal is ignored here (nohup does that), and so it is in agentd")
			}
			dir := playing(t, `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: '(env -i setsid sh -c "sleep 300" >/dev/null 2>&1 &); `+
				`for i in 1 2 3 4; do (setsid sleep 0.0$i &); done; echo left'}}]
      - text: Done.
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: '`+command+`'}}]
      - text: Never said.
`)
			cmd, c := startServer(t, dir, unshare...)
			children := childrenOf(t, cmd.Process.Pid)
			if len(children) != 1 {
				t.Fatalf("the program in the namespace is one of %v", children)
			}
			agentd := children[0]
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", agentd))
			if err != nil || !strings.Contains(string(status), fmt.Sprintf("NSpid:\t%d\t1\n", agentd)) {
				t.Fatalf("agentd is not the first process: %v\n%s", err, status)
			}
			first, err := c.Create(t.Context(), request("go"))
			if err != nil || first.OutputText() != "Done." {
				t.Fatalf("%+v, %v", first, err)
			}
			if left := childrenOf(t, agentd); len(left) > 0 {
				t.Errorf("%d processes are left of a command", len(left))
			}
			// Processes that agentd did not start are reaped, too: an orphan of an `exec` into
			// the container, which is seen first and then allowed to end.
			stay := filepath.Join(dir, "stay")
			expect.NoError(t, os.WriteFile(stay, nil, 0o600))
			script := "(while [ -e " + stay + " ]; do sleep 0.01; done >/dev/null 2>&1 &)"
			if out, err := exec.Command("nsenter", "-t", strconv.Itoa(agentd), "-p", "sh", "-c",
				script).CombinedOutput(); err != nil {
				t.Fatalf("nsenter: %v: %s", err, out)
			}
			if got := childrenOf(t, agentd); len(got) != 1 {
				t.Errorf("the children are %v, and should be the stranger", got)
			}
			expect.NoError(t, os.Remove(stay))
			await(t, "a stranger is reaped", func() bool { return len(childrenOf(t, agentd)) == 0 })

			ended := make(chan error, 1)
			go func() {
				next := request("go on")
				next.PreviousResponseID = first.ID
				resp, err := c.Create(t.Context(), next)
				if err == nil && resp.Status == responses.StatusCompleted {
					err = errors.New("it was completed")
				} else {
					err = nil // the answer may not get through the end of the server
				}
				ended <- err
			}()
			await(t, "the command runs", func() bool {
				_, err := os.Stat(filepath.Join(dir, "ran"))
				return err == nil
			})
			expect.NoError(t, syscall.Kill(agentd, sig))
			overdue := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			if err := cmd.Wait(); err != nil {
				t.Errorf("the end: %v", err)
			}
			overdue.Stop()
			expect.NoError(t, <-ended)
			if _, err := os.Lstat(filepath.Join(dir, "s")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket: %v", err)
			}
		})
	}
}

// childrenOf lists the children of a process, dead ones included.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	for _, st := range procfs.All() {
		if st.Parent == pid {
			children = append(children, st.PID)
		}
	}
	return children
}
