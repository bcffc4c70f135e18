package pod

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holon/internal/transfer"
	"holon/test/expect"
)

// TestMain is process 1 of a namespace of its own, where a test starts it as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold" {
		code, err := Hold(context.Background(), Limits{OpenFiles: 512, FileSize: 1 << 20})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// start starts process 1 of a new PID namespace, in the network namespace of the test.
func start(t *testing.T) (cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a PID namespace needs root")
	}
	cmd = exec.Command(os.Args[0], "hold")
	cmd.Env = append(os.Environ(), "KUBERNETES_PORT=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	expect.NoError(t, err)
	if err := cmd.Start(); err != nil {
		t.Skipf("no PID namespace can be made: %v", err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd, bufio.NewReader(pipe)
}

// volume is one with a program to start.
func volume(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := json.Marshal(Program{Args: args, Env: []string{"KEY=value"}})
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(dir, StartFile), data, 0o600))
	return dir
}

func TestHold(t *testing.T) {
	const never = -1
	for name, tc := range map[string]struct {
		script string
		grace  time.Duration // never: it is not stopped
		code   int
		prints string
	}{
		"exit code":   {"echo $KEY $HOLON_HELD $KUBERNETES_PORT. $(ulimit -n); exit 3", never, 3, "value 1 . 512\n"},
		"by a signal": {"echo ready; kill -KILL $$", never, 137, "ready\n"},
		"terminated":  {"trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done", time.Hour, 7, "ready\n"},
		"stubborn":    {"trap '' TERM; sleep 1000 & echo ready; while :; do sleep 1; done", 0, 137, "ready\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, out := start(t)
			dir := volume(t, "/bin/sh", "-c", tc.script)
			expect.NoError(t, Start(t.Context(), dir))
			expect.ErrorIs(t, "a second start", Start(t.Context(), dir), ErrStarted)
			line, err := out.ReadString('\n')
			expect.NoError(t, err)
			expect.Equal(t, "printed", line, tc.prints)
			if tc.grace != never {
				expect.NoError(t, Stop(t.Context(), tc.grace))
			}
			_ = cmd.Wait()
			expect.Equal(t, "exit code", cmd.ProcessState.ExitCode(), tc.code)
			expect.NoError(t, Stop(t.Context(), 0)) // of one that is gone
		})
	}
}

func TestCannotRun(t *testing.T) {
	cmd, _ := start(t)
	expect.ErrorIs(t, "start", Start(t.Context(), volume(t, "/does/not/exist")), ErrCannotRun)
	_ = cmd.Wait()
	expect.Equal(t, "exit code", cmd.ProcessState.ExitCode(), exitCannotRun)
}

// What comes into a volume comes out of it, but for sockets and pipes.
func TestFiles(t *testing.T) {
	from, dir, to := t.TempDir(), t.TempDir(), t.TempDir()
	expect.NoError(t, os.MkdirAll(filepath.Join(from, "closed", "in"), 0o755))
	expect.NoError(t, os.WriteFile(filepath.Join(from, "closed", "in", "file"), []byte("text"), 0o640))
	expect.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "link")))
	expect.NoError(t, os.Chmod(filepath.Join(from, "closed"), 0o555))
	expect.NoError(t, Prepare(dir, []string{"m-a/", "m-b"}))
	before, err := os.Stat(filepath.Join(dir, "m-b"))
	expect.NoError(t, err)

	var sent, sum, got bytes.Buffer
	tw := tar.NewWriter(&sent)
	expect.NoError(t, transfer.Pack(t.Context(), tw, from, "/files/m-a", nil, false))
	expect.NoError(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: "files/m-b", Linkname: Binary, Mode: 0o755}))
	expect.NoError(t, tw.Close())
	expect.NoError(t, Unpack(t.Context(), dir, &sent, &sum))
	expect.Equal(t, "length of the sum", sum.Len(), 65)

	after, err := os.Stat(filepath.Join(dir, "m-b"))
	expect.NoError(t, err)
	if !os.SameFile(before, after) || after.Size() == 0 {
		t.Error("a file that is mounted already was not written in place")
	}
	expect.NoError(t, syscall.Mkfifo(filepath.Join(dir, "m-a", "pipe"), 0o600))
	expect.NoError(t, Pack(t.Context(), filepath.Join(dir, "m-a"), &got))
	expect.NoError(t, transfer.Unpack(t.Context(), &got, to, transfer.Limits{}, nil))
	data, err := os.ReadFile(filepath.Join(to, "closed", "in", "file"))
	expect.NoError(t, err)
	expect.Equal(t, "file", string(data), "text")
	link, err := os.Readlink(filepath.Join(to, "link"))
	expect.NoError(t, err)
	expect.Equal(t, "link", link, "/etc/passwd")
	if _, err := os.Lstat(filepath.Join(to, "pipe")); err == nil {
		t.Error("the pipe came")
	}
	expect.NoError(t, os.Chmod(filepath.Join(from, "closed"), 0o755))
}
