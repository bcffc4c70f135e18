package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"holon/internal/visible"
	"holon/runner/agent/scheduler"
)

// runCommand gives a notification to the command of the settings, on its standard input. What it prints is not read,
// and it ends with all that it started.
func (d *Deliverer) runCommand(ctx context.Context, body []byte) error {
	if len(d.Command) == 0 {
		return errors.New("the settings have no command any more")
	}
	cmd := exec.CommandContext(ctx, d.Command[0], d.Command[1:]...)
	cmd.Stdin, cmd.Env = bytes.NewReader(body), harmless(d.Environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run the command: %w", err)
	}
	return nil
}

// harmless are the variables of a process that the command gets: where things are, and never a key.
func harmless(environ []string) []string {
	names := []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
		"XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(names, name)
	})
}

// maxBubble bounds the text of a notification on the desktop, in bytes.
const maxBubble = 1000

// showOnDesktop shows a notification by the service of the desktop (org.freedesktop.Notifications).
func (d *Deliverer) showOnDesktop(ctx context.Context, sub scheduler.Submission) error {
	if d.Bus == "" {
		return errors.New("this host has no session bus")
	}
	conn, err := dbus.Connect(d.Bus, dbus.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("connect to the session bus: %w", err)
	}
	defer conn.Close()
	n := sub.Notification
	text := html.EscapeString(visible.Text(d.Known.Text(n.Message))) // some services take markup
	if len(text) > maxBubble {
		text = strings.ToValidUTF8(text[:maxBubble], "") + "…"
	}
	call := conn.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications").CallWithContext(ctx,
		"org.freedesktop.Notifications.Notify", 0, "holon", uint32(0), "", "holon: "+sender(n), text, []string{},
		map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(1)), "category": dbus.MakeVariant("im.received")}, int32(-1))
	if call.Err != nil {
		return fmt.Errorf("show the notification: %w", call.Err)
	}
	return nil
}
