package pool_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/oneshot"
	"holon/runner/pool"
	"holon/test/expect"
)

// An agent's conversation goes on when its container goes, and the container stays as long as nothing becomes of it.
// holon gc, which knows nothing of agents, takes nothing from them.
func TestConversation(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", counting)
	k := l.pool()
	c := &conversation{lab: l, pool: k, agent: l.agent("ada")}

	if r := c.say("one"); r.Fresh == "" {
		t.Error("the first turn had a container already")
	}
	first := l.only()
	if r := c.say("two"); r.Fresh != "" || l.only().Handle != first.Handle {
		t.Errorf("the second turn got another container: %s", r.Fresh)
	}

	expect.NoError(t, l.engine.(engine.Pauser).Pause(t.Context(), first.Handle))
	if r := c.say("three"); r.Fresh != "" || l.only().Handle != first.Handle {
		t.Errorf("a container that somebody else paused was not resumed: %s", r.Fresh)
	}

	l.clock.pass(time.Minute)
	l.sweep(k)
	if now := l.only(); now.Handle != first.Handle || now.Status != engine.StatusPaused {
		t.Errorf("after a minute: %+v", now)
	}
	l.collect()
	if r := c.say("four"); r.Fresh != "" || l.only().Handle != first.Handle {
		t.Errorf("a paused container was not resumed: %s", r.Fresh)
	}

	l.clock.pass(time.Minute)
	l.sweep(k)
	l.clock.pass(15 * time.Minute)
	l.sweep(k)
	if list := l.containers(); len(list) != 0 {
		t.Errorf("after a quarter of an hour there is %v", list)
	}
	c.say("five")

	expect.NoError(t, l.engine.Remove(t.Context(), l.only().Handle))
	if r := c.say("six"); r.Fresh == "" {
		t.Error("a container that was removed took a turn")
	}

	before := l.only()
	c.image = imageToo
	if r := c.say("seven"); !strings.Contains(r.Fresh, "image") || l.only().Handle == before.Handle {
		t.Errorf("another image did not need another container: %q", r.Fresh)
	}
	expect.NoError(t, k.Stop(t.Context(), c.agent))
	if list := l.containers(); len(list) != 0 {
		t.Errorf("after Stop there is %v", list)
	}
	c.say("eight")
}

func (l *lab) sweep(k *pool.Pool) {
	l.t.Helper()
	if err := k.Sweep(l.t.Context()); err != nil {
		l.t.Errorf("Sweep: %v", err)
	}
}

// collect collects by force what runs have left, of which there is nothing.
func (l *lab) collect() {
	l.t.Helper()
	gc := &oneshot.Collector{Force: true, Now: l.clock.Now().Add(24 * time.Hour), Recovery: oneshot.Recovery{
		Home: l.home, Log: slog.New(slog.DiscardHandler),
		Engines: func(name string) (engine.Engine, error) {
			if name != l.engine.Name() {
				return nil, nil
			}
			return l.engine, nil
		},
	}}
	if found, err := gc.Collect(l.t.Context()); err != nil || len(found) != 0 {
		l.t.Errorf("found %+v, %v", found, err)
	}
}

// Another user for containers takes over what the one before wrote.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	l := newLab(t, "docker", `
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: "mkdir -m 700 d && echo secret > d/f && chmod 600 d/f && ln -s `+
		`/etc/passwd d/link"}}]
      - {expect: {exit_status: 0}, text: one}
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: "cat d/f && id -u"}}]
      - {expect: {exit_status: 0, contains: ["secret", "54321"]}, text: two}
`)
	first := pool.New(l.options())
	c := &conversation{lab: l, pool: first, agent: l.agent("ada")}
	c.say("one")
	expect.NoError(t, first.Leave(t.Context()))
	trees := filepath.Join(l.home.AgentPrivateDir("ada"), "workspaces")
	given := filepath.Join(trees, "api", ".holon", "f")
	expect.NoError(t, os.MkdirAll(filepath.Dir(given), 0o700))
	expect.NoError(t, os.WriteFile(given, nil, 0o600))
	c.pool = l.pool(func(o *pool.Options) {
		plain := o.Configure
		o.Configure = func(ctx context.Context, t pool.Turn) (runner.Config, io.Closer, error) {
			cfg, access, err := plain(ctx, t)
			cfg.User = &engine.User{UID: 54321, GID: 54321}
			return cfg, access, err
		}
	})
	if r := c.say("two"); !strings.Contains(r.Fresh, "user") {
		t.Errorf("the container stayed: %q", r.Fresh)
	}
	for path, want := range map[string]uint32{"/etc/passwd": 0, trees: 0, given: 54321} { // no link was followed
		info, err := os.Stat(path)
		expect.NoError(t, err)
		expect.Equal(t, "owner of "+path, info.Sys().(*syscall.Stat_t).Uid, want)
	}
}

// A container that does not answer when it is to be held still is given up, and
// the next turn gets another.
func TestSweepOfTheSilent(t *testing.T) {
	t.Parallel()
	l := newLab(t, "docker", counting)
	k := l.pool()
	c := &conversation{lab: l, pool: k, agent: l.agent("ada")}
	c.say("one")
	if text, err := exec.CommandContext(t.Context(), "docker", "kill", "--signal", "STOP",
		l.only().Handle.ID).CombinedOutput(); err != nil {
		t.Fatalf("stop agentd: %v\n%s", err, text)
	}
	for shown := ""; !strings.HasPrefix(shown, "T"); time.Sleep(time.Millisecond) { // until then it may answer
		text, err := exec.CommandContext(t.Context(), "docker", "top", l.only().Handle.ID, "-o", "stat,pid").Output()
		expect.NoError(t, err)
		_, shown, _ = strings.Cut(string(text), "\n")
	}
	l.clock.pass(time.Minute)
	l.sweep(k)
	if list := l.containers(); len(list) != 0 {
		t.Errorf("after the sweep there is %v", list)
	}
	if r := c.say("two"); r.Fresh == "" {
		t.Error("a container that did not answer took a turn")
	}
}
