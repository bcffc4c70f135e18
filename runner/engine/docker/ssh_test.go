package docker

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/engine"
	"holon/test/enginetest"
	"holon/test/expect"
)

func TestSSHArguments(t *testing.T) {
	const options = "-o ConnectTimeout=30 -T "
	for host, want := range map[string]string{
		"ssh://far":           options + "-- far docker system dial-stdio",
		"ssh://me@far:2222":   options + "-l me -p 2222 -- far docker system dial-stdio",
		"ssh://[::1]/":        options + "-- ::1 docker system dial-stdio",
		"ssh://-oProxy=x/a'b": options + `-- -oProxy=x docker --host 'unix:///a'\''b' system dial-stdio`,
	} {
		u, err := url.Parse(host)
		expect.NoError(t, err)
		expect.Equal(t, host, strings.Join(sshArguments(u), " "), want)
	}
	for _, host := range []string{"ssh://", "ssh://me:secret@far", "ssh://far?x", "ssh://far#x"} {
		_, err := New(host, "")
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%s) = %v", host, err)
		}
	}
}

// sshHosts puts an ssh first in PATH that has settings of the test's own: the host "engine" is an sshd for this user,
// "bare" has no Docker, "closed" refuses the key, "strange" has an unknown key, nothing listens on "away".
func sshHosts(t *testing.T) {
	t.Helper()
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		t.Skip("there is no sshd")
	}
	if os.Geteuid() == 0 {
		expect.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // sshd of root wants it, as its service makes it
	}
	ssh, err := exec.LookPath("ssh")
	expect.NoError(t, err)
	dir, err := os.MkdirTemp("", "holon-ssh-")
	expect.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, format string, args ...any) string {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o700))
		return path
	}
	key := func(name string) string {
		path := filepath.Join(dir, name)
		expect.NoError(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).Run())
		public, err := os.ReadFile(path + ".pub")
		expect.NoError(t, err)
		return string(public)
	}
	server, mine, bare := key("server"), key("mine"), key("bare")
	key("closed")
	path := os.Getenv("PATH")
	write("known", "holon %s", server)
	write("accepted", "environment=\"PATH=%s\" %scommand=\"/nonexistent/docker\" %s", path, mine, bare)
	write("sshd.conf", "HostKey %[1]s/server\nAuthorizedKeysFile %[1]s/accepted\nStrictModes no\nUsePAM no\n"+
		"PermitUserEnvironment yes\nPermitRootLogin yes\n", dir)
	config := write("ssh.conf", `Host away
  HostName 127.0.0.1
  Port 1
Host strange
  HostKeyAlias other
Host *
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking yes
  HostKeyAlias holon
  UserKnownHostsFile %[1]s/known
Host bare closed
  IdentityFile %[1]s/%%n
Host engine strange
  IdentityFile %[1]s/mine
Host engine bare closed strange
  ProxyCommand %[2]s -i -e -f %[1]s/sshd.conf 2>/dev/null
`, dir, sshd)
	write("ssh", "#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, config)
	t.Setenv("PATH", dir+":"+path)
}

// What does not answer over ssh is an error with a code and what to do.
func TestSSHErrors(t *testing.T) {
	sshHosts(t)
	for host, want := range map[string][2]string{
		"away":    {"Connection refused", "check the name, the port and the network"},
		"closed":  {"Permission denied (", "load a key"},
		"strange": {"Host key verification failed", "accept the host's key"},
		"bare":    {"/nonexistent/docker", "install Docker there"},
	} {
		e, err := New("ssh://"+host, "")
		expect.NoError(t, err)
		_, err = e.Check(t.Context())
		refused(t, host, err, want[0], want[1])
		expect.NoError(t, e.Close())
	}
	t.Setenv("PATH", t.TempDir())
	e, err := New("ssh://engine", "")
	expect.NoError(t, err)
	_, err = e.Check(t.Context())
	refused(t, "without ssh", err, `"ssh"`, "install the OpenSSH client")
}

func refused(t *testing.T, what string, err error, text, hint string) {
	t.Helper()
	typed, ok := err.(*engine.Error)
	if !ok || typed.Code != engine.CodeUnreachable || typed.Param != "engine" {
		t.Errorf("%s: %#v, want %s", what, err, engine.CodeUnreachable)
		return
	}
	expect.Contains(t, what, typed.Error(), text)
	expect.Contains(t, what+": the remedy", typed.Hint, hint)
}

// TestSSHSuite is the suite of an engine that is reached by ssh.
func TestSSHSuite(t *testing.T) {
	local := connect(t)
	sshHosts(t)
	remote := func(t *testing.T) engine.Engine {
		e, err := New("ssh://engine"+local.socketPath(), "")
		expect.NoError(t, err)
		t.Cleanup(func() { expect.NoError(t, e.Close()) })
		return e
	}
	streams, err := remote(t).(*Engine).Streams(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "it is reached by a stream", streams, true)
	if testing.Short() {
		return
	}
	enginetest.Run(t, enginetest.Rig{New: remote, Image: suiteImage(t, local), Program: "/probe", Contains: true,
		Streams: true})
}
