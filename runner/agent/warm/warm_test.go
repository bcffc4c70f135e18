package warm_test

import (
	"strings"
	"testing"

	"holon/runner/agent/warm"
	"holon/runner/engine"
)

// An agent's conversation goes on whatever becomes of its container, and the
// container stays as long as nothing becomes of it.
func TestConversation(t *testing.T) {
	l := newLab(t, "docker", counting)
	k := l.keeper()
	c := &conversation{lab: l, keeper: k, agent: l.agent("ada")}

	if r := c.say("one"); r.Fresh == "" {
		t.Error("the first turn had a container already")
	}
	first := l.only()
	if r := c.say("two"); r.Fresh != "" || l.only().Handle != first.Handle {
		t.Errorf("the second turn got another container: %s", r.Fresh)
	}

	l.clock.pass(warm.DefaultIdlePause)
	l.sweep(k)
	if now := l.only(); now.Handle != first.Handle || now.Status != engine.StatusPaused {
		t.Errorf("after a minute: %+v", now)
	}
	if r := c.say("three"); r.Fresh != "" || l.only().Handle != first.Handle {
		t.Errorf("a paused container was not resumed: %s", r.Fresh)
	}

	l.clock.pass(warm.DefaultIdlePause)
	l.sweep(k)
	l.clock.pass(warm.DefaultIdleStop)
	l.sweep(k)
	if list := l.containers(); len(list) != 0 {
		t.Errorf("after a quarter of an hour there is %v", list)
	}
	c.say("four")

	if err := l.engine.Remove(t.Context(), l.only().Handle); err != nil {
		t.Fatal(err)
	}
	if r := c.say("five"); r.Fresh == "" {
		t.Error("a container that was removed took a turn")
	}

	before := l.only()
	c.image = imageToo
	if r := c.say("six"); !strings.Contains(r.Fresh, "image") || l.only().Handle == before.Handle {
		t.Errorf("another image did not need another container: %q", r.Fresh)
	}
	if err := k.Stop(t.Context(), c.agent); err != nil {
		t.Fatal(err)
	}
	if list := l.containers(); len(list) != 0 {
		t.Errorf("after Stop there is %v", list)
	}
	c.say("seven")
}

func (l *lab) sweep(k *warm.Keeper) {
	l.t.Helper()
	if err := k.Sweep(l.t.Context()); err != nil {
		l.t.Errorf("Sweep: %v", err)
	}
}
