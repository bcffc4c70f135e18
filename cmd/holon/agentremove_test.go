package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// At a terminal a person sees what an agent loses that is removed, and anything but yes leaves it there.
func TestRemovalIsAsked(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - text: Done.\n")
	startDaemon(t, dir, command)
	succeed(t, command("agent", "create", "helper"))
	for _, c := range []struct {
		answer, end string
		fails       bool
	}{{"\n", "it was not removed", true}, {"no\n", "it was not removed", true}, {"y\n", "removed", false}} {
		shown, err := atTerminal(t, command("agent", "remove", "helper"), "remove it? [y/N]", c.answer)
		if (err != nil) != c.fails || !strings.Contains(shown, "triggers") || !strings.Contains(shown, c.end) {
			t.Errorf("the answer %q: %v\n%s", c.answer, err, shown)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "home", "agents", "helper")); err != nil {
		t.Errorf("the home of the agent: %v", err)
	}
}
