package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// Supervisor is the service manager that started this process, such as systemd. It speaks the protocol of sd_notify(3):
// datagrams of text to a Unix socket. The zero value is none, and is told nothing.
type Supervisor struct {
	Socket   string        // path, or with @ an abstract one; "": none
	Watchdog time.Duration // within which it wants to know that the process works; 0: it does not
}

// SupervisorOf finds the supervisor that the environment names: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. A
// watchdog of another process, or of no number, is none.
func SupervisorOf(getenv func(string) string) Supervisor {
	s := Supervisor{Socket: getenv("NOTIFY_SOCKET")}
	pid := getenv("WATCHDOG_PID")
	if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 &&
		(pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.Watchdog = time.Duration(us) * time.Microsecond
	}
	return s
}

// Watch reports that the process is ready, then, as often as the watchdog wants it and as long as works finds nothing
// wrong, that it works, and when ctx ends, that it stops. A process that does not work is left to the supervisor, which
// starts another one.
func (s Supervisor) Watch(ctx context.Context, works func(context.Context) error) error {
	if s.Socket == "" {
		return nil
	}
	if err := s.notify("READY=1"); err != nil {
		return err
	}
	var tick <-chan time.Time // none without a watchdog
	if s.Watchdog > 0 {
		ticker := time.NewTicker(max(s.Watchdog/3, time.Millisecond))
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return s.notify("STOPPING=1")
		case <-tick:
		}
		looking, cancel := context.WithTimeout(ctx, s.Watchdog/3)
		err := works(looking)
		cancel()
		if err != nil {
			continue
		}
		if err := s.notify("WATCHDOG=1"); err != nil {
			return err
		}
	}
}

func (s Supervisor) notify(state string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.Socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("reach the service manager at NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("report %s to the service manager: %w", state, err)
	}
	return nil
}
