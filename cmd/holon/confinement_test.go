package main

import (
	"strings"
	"testing"

	"holon/runner"
	"holon/runner/engine"
)

// A run whose container is confined less than by default says so, and no other does.
func TestLooserIsAnnounced(t *testing.T) {
	for want, c := range map[string]runner.Confinement{
		"":                              {Network: engine.NetworkNone},
		"network bridge":                {Network: "bridge"},
		"weaker user, mounts accepted":  {Accept: []string{"user", "mounts"}},
		"root in its container":         {User: &engine.User{}},
		"network x, weaker user accept": {Network: "x", Accept: []string{"user"}},
	} {
		got := looser(&runner.Config{Confinement: c})
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("of %+v it says %q, want %q in it", c, got, want)
		}
	}
}
