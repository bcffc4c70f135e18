package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/programs"
)

// As the unit of systemd starts it, holon serve reports that it is ready, that it works, and that it stops.
func TestServeIsSupervised(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hs") // the path of a socket is short
	expect.NoError(t, err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	expect.NoError(t, err)
	defer conn.Close()
	await := func(want string) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // it fails with the read
		for text := make([]byte, 100); ; {
			n, err := conn.Read(text)
			expect.NoError(t, err)
			if string(text[:n]) == want {
				return
			}
		}
	}
	serve := exec.CommandContext(t.Context(), programs.Must("holon"), "serve", "--engine", "local", "--model", "scripted/demo")
	serve.Env = append(os.Environ(), "HOLON_HOME="+filepath.Join(dir, "home"), "HOLON_AGENTD="+programs.Must("agentd"),
		"NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=300000")
	expect.NoError(t, serve.Start())
	await("READY=1")
	await("WATCHDOG=1")
	expect.NoError(t, serve.Process.Signal(syscall.SIGTERM))
	await("STOPPING=1")
	if err := serve.Wait(); err != nil {
		t.Logf("it ended by the signal: %v", err)
	}
}
