package runner

import (
	"errors"
	"testing"

	"holon/runner/engine"
)

// A container is looked for in the engine that has it and in no other, where it would seem to be gone.
func TestSameEngine(t *testing.T) {
	handle := &engine.Handle{ID: "c"}
	for name, c := range map[string]struct {
		held Held
		ok   bool
	}{
		"of this engine":             {Held{Engine: "docker", Handle: handle}, true},
		"of another one":             {Held{Engine: "podman", Handle: handle}, false},
		"not made yet":               {Held{Engine: "podman"}, true},
		"ended with its holon":       {Held{Engine: "local", Handle: handle}, true},
		"of the local one's records": {Held{Engine: "local"}, true},
	} {
		if err := sameEngine("docker", c.held); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrOtherEngine) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
