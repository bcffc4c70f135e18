package config_test

import (
	"errors"
	"strings"
	"testing"

	"holon/agentd/config"
)

// Impossible bounds of output files are reported all at once, each with a remedy;
// zero is a bound.
func TestBoundsOfLogsAreChecked(t *testing.T) {
	c := config.Default()
	c.Commands.TurnLogBytes, c.Commands.LogBytes = 0, 0
	if err := c.Validate(); err != nil {
		t.Errorf("zero is refused: %v", err)
	}
	c.Commands.StreamBytes, c.Commands.TurnLogBytes, c.Commands.LogBytes = 0, -1, -1
	problems, ok := errors.AsType[config.Problems](c.Validate())
	if !ok || len(problems) != 3 {
		t.Fatalf("Validate returns %v, want three problems", problems)
	}
	for i, setting := range []string{"--stream-log-bytes", "--turn-log-bytes", "--log-bytes"} {
		p := problems[i]
		if p.Setting != setting {
			t.Errorf("problem %d is about %s, want %s", i, p.Setting, setting)
		}
		if p.What == "" {
			t.Errorf("the problem of %s does not say what is wrong", setting)
		}
		if want := "no output in files"; !strings.Contains(p.Remedy, want) {
			t.Errorf("the remedy of %s is %q, want one that contains %q", setting, p.Remedy, want)
		}
	}
}
