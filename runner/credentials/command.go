package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"holon/internal/duration"
	"holon/internal/pattern"
	"holon/runner/gateway"
	"holon/state"
)

const (
	commandTime   = 30 * time.Second
	commandOutput = 64 << 10
	commandErrors = 4 << 10
	// leeway is how long before its expiry a key stops being used: requests take time.
	leeway = 30 * time.Second
)

// command is a key that a program gives.
type command struct {
	provider string
	argv     []string
	environ  []string
	now      func() time.Time
	timeout  time.Duration

	turn    chan struct{} // holds one token: its holder may run the program
	key     gateway.Secret
	expires time.Time // zero: never
}

func newCommand(provider string, argv, environ []string) *command {
	c := &command{provider: provider, argv: argv, environ: harmless(environ), now: time.Now, timeout: commandTime,
		turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// Key returns the key, running the program where there is none, or none that
// will last.
func (c *command) Key(ctx context.Context) (gateway.Secret, error) {
	return c.get(ctx, func() bool {
		return !c.key.IsZero() && (c.expires.IsZero() || c.now().Add(leeway).Before(c.expires))
	})
}

// Renew runs the program again, unless somebody did since refused was given out.
func (c *command) Renew(ctx context.Context, refused gateway.Secret) (gateway.Secret, error) {
	return c.get(ctx, func() bool { return !c.key.IsZero() && c.key.Reveal() != refused.Reveal() })
}

func (c *command) get(ctx context.Context, good func() bool) (gateway.Secret, error) {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return gateway.Secret{}, ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	if good() {
		return c.key, nil
	}
	key, expires, err := c.run(ctx)
	if err != nil {
		return gateway.Secret{}, err
	}
	c.key, c.expires = key, expires
	return key, nil
}

// run runs the program once.
func (c *command) run(ctx context.Context) (key gateway.Secret, expires time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, complaints := &firstBytes{max: commandOutput, stop: cancel}, &firstBytes{max: commandErrors}
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.environ, out, complaints
	// Its children must end with it and must not hold its output open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	said := withoutPrinted(complaints.buf.String(), out.buf.String())
	switch {
	case out.full:
		return key, expires, c.failed(fmt.Sprintf("printed more than %d KiB", commandOutput>>10),
			"let it print the key alone", said)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return key, expires, c.failed(fmt.Sprintf("took longer than %s", duration.Text(c.timeout)),
			"it must not wait for a person", said)
	case ctx.Err() != nil:
		return key, expires, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return key, expires, c.failed("cannot be found", "name it by its absolute path", "")
	case err != nil:
		return key, expires, c.failed(exitText(err), "run it by hand", said)
	}
	return c.parse(out.buf.Bytes())
}

func exitText(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "ended with " + exit.String()
	}
	return "cannot be run"
}

// parse reads what the program printed: the key as one line, or
// {"api_key": "…", "expires_at": "2026-01-02T15:04:05Z"}.
func (c *command) parse(out []byte) (key gateway.Secret, expires time.Time, err error) {
	out = bytes.TrimSpace(out)
	text := string(out)
	if bytes.HasPrefix(out, []byte("{")) {
		var v struct {
			APIKey    string    `json:"api_key"`
			ExpiresAt time.Time `json:"expires_at"`
		}
		if json.Unmarshal(out, &v) != nil || v.APIKey == "" { // the cause could show the key
			return key, expires, c.failed("printed JSON without an api_key, or with a wrong expires_at",
				`let it print {"api_key": "…", "expires_at": "2026-01-02T15:04:05Z"}`, "")
		}
		text, expires = v.APIKey, v.ExpiresAt
		if !expires.IsZero() && !c.now().Before(expires) {
			return key, expires, c.failed("gave a key that has expired", "let it get a new one", "")
		}
	}
	key = gateway.NewSecret(text)
	if err := Check(key); err != nil {
		e, _ := errors.AsType[*state.Error](err)
		return gateway.Secret{}, expires, c.failed("gave a key that "+e.Message, "let it print the key as one line", "")
	}
	return key, expires, nil
}

func (c *command) failed(what, remedy, said string) error {
	message := fmt.Sprintf("%.100q %s", filepath.Base(c.argv[0]), what)
	if said != "" {
		message += ": " + said
	}
	return &state.Error{Code: CodeCommandFailed, Param: "providers." + c.provider + ".credential.command",
		Message: message, Hint: remedy}
}

// firstBytes keeps the first max bytes, and stops the program at more where it can.
type firstBytes struct {
	buf  bytes.Buffer // not embedded: its ReadFrom knows no bound
	max  int
	stop func() // may be nil
	full bool
}

func (b *firstBytes) Write(p []byte) (int, error) {
	if room := b.max - b.buf.Len(); len(p) > room {
		b.full = true
		b.buf.Write(p[:room])
		if b.stop != nil {
			b.stop()
		}
		return len(p), nil
	}
	return b.buf.Write(p)
}

// likeKey is what could be a key in a complaint.
var likeKey = pattern.Lazy(`[A-Za-z0-9+_=-]{20,}`)

// withoutPrinted makes a program's complaint one line without what could be a key: any
// longer word that it printed as its result, and what looks like one.
func withoutPrinted(complaint, printed string) string {
	for _, word := range strings.FieldsFunc(printed, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }) {
		if len(word) >= 6 {
			complaint = strings.ReplaceAll(complaint, word, "[redacted]")
		}
	}
	complaint = likeKey().ReplaceAllStringFunc(complaint, func(word string) string {
		if strings.ContainsAny(word, "0123456789") {
			return "[redacted]"
		}
		return word
	})
	complaint = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(complaint, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(complaint) > 300 {
		complaint = strings.ToValidUTF8(complaint[:300], "") + "…"
	}
	return complaint
}

// harmless returns the variables that a program gets: where things are, and how
// password managers find their agents. Never a key.
func harmless(environ []string) (list []string) {
	names := []string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
		"SSH_AUTH_SOCK", "GNUPGHOME", "GPG_TTY", "PASSWORD_STORE_DIR",
	}
	for _, kv := range environ {
		if name, _, ok := strings.Cut(kv, "="); ok && slices.Contains(names, name) {
			list = append(list, kv)
		}
	}
	return list
}
