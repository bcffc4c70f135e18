package daemon_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"holon/runner/daemon"
	"holon/test/expect"
)

// A supervisor sees that the process is ready, works, does not work any more, and stops.
func TestSupervisor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(home(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	expect.NoError(t, err)
	defer conn.Close()
	next := func() string {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // it fails with the read
		text := make([]byte, 100)
		n, err := conn.Read(text)
		expect.NoError(t, err)
		return string(text[:n])
	}
	env := map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "15000"}
	s := daemon.SupervisorOf(func(name string) string { return env[name] })
	ctx, cancel := context.WithCancel(t.Context())
	broken := make(chan struct{})
	looks, done := 0, make(chan error, 1)
	go func() { // ends with ctx, and is waited for below
		done <- s.Watch(ctx, func(context.Context) error {
			if looks++; looks <= 2 {
				return nil
			}
			if looks == 4 {
				close(broken)
			}
			return errors.New("the ledger is gone")
		})
	}()
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		expect.Equal(t, "state", next(), want)
	}
	<-broken
	cancel()
	expect.Equal(t, "state after it was broken", next(), "STOPPING=1")
	expect.NoError(t, <-done)
}

func TestSupervisorOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pid, usec string
		want      time.Duration
	}{{"", "2000000", 2 * time.Second}, {"1x", "2000000", 0}, {"", "", 0}, {"", "-1", 0},
		{strconv.Itoa(os.Getpid()), "1000", time.Millisecond}} {
		env := map[string]string{"WATCHDOG_PID": c.pid, "WATCHDOG_USEC": c.usec}
		s := daemon.SupervisorOf(func(name string) string { return env[name] })
		expect.Equal(t, c.pid+" "+c.usec, s.Watchdog, c.want)
		expect.NoError(t, s.Watch(t.Context(), nil)) // there is none to report to
	}
}
