package deliver_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"holon/runner/agent/deliver"
	"holon/state/ledger"
	"holon/test/expect"
)

// The command of the settings gets the notification, without the keys of the process, and no more time than any other.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	got := filepath.Join(dir, "got")
	w := open(t, func(o *deliver.Options) {
		o.Command = []string{"sh", "-c", `cat > "$0"; test -z "$SECRET_KEY"`, got}
		o.Environ = append(o.Environ, "SECRET_KEY=x")
	})
	expect.NoError(t, w.BindHost(t.Context(), "main"))
	w.notify("main", "hello")
	w.round()
	d := w.only()
	expect.Equal(t, "status", d.Status+d.Failure, ledger.DeliveryAccepted)
	data, err := os.ReadFile(got)
	expect.NoError(t, err)
	var m deliver.Message
	expect.NoError(t, json.Unmarshal(data, &m))
	expect.Equal(t, "delivery", m.Data.DeliveryIntentID, d.ID)
	expect.NoError(t, w.BindHost(t.Context(), "other")) // another default agent: it stays where it is
	w.Command = nil                                     // the next start has other settings
	expect.NoError(t, w.BindHost(t.Context(), "main"))
	w.notify("main", "again")
	expect.Equal(t, "deliveries", len(w.deliveries("main")), 1)
}

func TestCommandThatFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"fails": {"exit 3", "exit status 3"}, "hangs": {"sleep 600 & sleep 600", "did not answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, func(o *deliver.Options) {
				o.Command, o.Timeout = []string{"sh", "-c", c.script}, 300*time.Millisecond
			})
			expect.NoError(t, w.BindHost(t.Context(), "main"))
			w.notify("main", "hello")
			w.round()
			expect.Contains(t, "failure", w.only().Failure, c.want)
		})
	}
}

// desktop is a service of notifications on a bus.
type desktop struct{ shown chan [2]string }

func (d desktop) Notify(_ string, _ uint32, _, title, body string, _ []string, _ map[string]dbus.Variant, _ int32) (
	uint32, *dbus.Error) {
	d.shown <- [2]string{title, body}
	return 1, nil
}

// The desktop shows a notification as text, whatever markup is in it.
func TestDesktop(t *testing.T) {
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("there is no dbus-daemon")
	}
	bus := exec.Command(program, "--session", "--nofork", "--print-address")
	out, err := bus.StdoutPipe()
	expect.NoError(t, err)
	expect.NoError(t, bus.Start())
	t.Cleanup(func() { _ = bus.Process.Kill(); _ = bus.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	expect.NoError(t, err)
	address := strings.TrimSpace(line)
	conn, err := dbus.Connect(address)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	d := desktop{make(chan [2]string, 1)}
	expect.NoError(t, conn.Export(d, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"))
	_, err = conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue)
	expect.NoError(t, err)

	w := open(t, func(o *deliver.Options) { o.Bus = address })
	expect.NoError(t, w.BindHost(t.Context(), "main"))
	w.notify("main", "<b>look</b>\x1b[31m here")
	w.round()
	expect.Equal(t, "status", w.only().Status+w.only().Failure, ledger.DeliveryAccepted)
	shown := <-d.shown
	expect.Equal(t, "title", shown[0], "holon: main")
	if !strings.HasPrefix(shown[1], "&lt;b&gt;look") || strings.ContainsRune(shown[1], 0x1b) {
		t.Errorf("the body is %q", shown[1])
	}
}
