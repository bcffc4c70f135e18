package acp_test

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"holon/test/expect"
	"holon/test/gittest"
	"holon/test/programs"
)

// The built program, whose daemon it starts itself, serves an editor from the first prompt to the applied change.
func TestProgram(t *testing.T) {
	home, err := os.MkdirTemp("/var/tmp", "acp") // a container cannot have mounts below /dev/shm
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(home)) })
	dir := gittest.NewRepo(t, map[string]string{"greeting.txt": "hello\n"})
	scenario, err := filepath.Abs("testdata/turns.yaml")
	expect.NoError(t, err)
	holon := func(args ...string) *exec.Cmd {
		cmd := exec.Command(programs.Must("holon"), args...)
		cmd.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(home, "h"), "HOLON_AGENTD="+programs.Must("agentd"))
		cmd.Stderr = os.Stderr
		return cmd
	}
	cmd := holon("acp", "--engine", "local", "--model", "scripted/"+scenario, "--workspace-root", dir)
	in, err := cmd.StdinPipe()
	expect.NoError(t, err)
	out, err := cmd.StdoutPipe()
	expect.NoError(t, err)
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := holon("daemon", "logs", "--tail", "300").Output()
			t.Logf("%s", out)
		}
		expect.NoError(t, holon("daemon", "stop").Run())
	})
	e := &editor{choose: choose(sdk.PermissionOptionKindAllowOnce)}
	e.ClientSideConnection = sdk.NewClientSideConnection(e, in, out)
	e.SetLogger(slog.New(slog.DiscardHandler))
	_, err = e.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber})
	expect.NoError(t, err)
	s, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	_, err = e.prompt(t, s.SessionId, "greet the world")
	expect.NoError(t, err)
	expect.Equal(t, "the first turn", e.story(),
		"thought text execute:in_progress completed edit:in_progress completed text edit:pending completed")
	data, err := os.ReadFile(filepath.Join(dir, "greeting.txt"))
	expect.NoError(t, err)
	expect.Equal(t, "the file", string(data), "hello world\n")
	e.choose = choose(sdk.PermissionOptionKindRejectOnce)
	_, err = e.prompt(t, s.SessionId, "once more")
	expect.NoError(t, err)
	expect.Equal(t, "the second turn", e.story(),
		"text execute:in_progress completed edit:in_progress failed text edit:pending failed")
	_, err = e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: s.SessionId, Cwd: dir,
		McpServers: []sdk.McpServer{}})
	expect.NoError(t, err)
	expect.NoError(t, in.Close())
	expect.NoError(t, cmd.Wait())
}
