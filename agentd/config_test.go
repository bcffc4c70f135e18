package agentd_test

import (
	"errors"
	"strings"
	"testing"

	"holon/agentd"
)

// Bounds of the files with output that make no sense are named, all at once and
// each with a remedy; none at all is a bound.
func TestBoundsOfLogsAreChecked(t *testing.T) {
	c := agentd.DefaultConfig()
	c.TurnLogBytes, c.LogBytes = 0, 0
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.StreamBytes, c.TurnLogBytes, c.LogBytes = 0, -1, -1
	problems, ok := errors.AsType[agentd.Problems](c.Validate())
	if !ok || len(problems) != 3 {
		t.Fatalf("%v", problems)
	}
	for i, setting := range []string{"--stream-log-bytes", "--turn-log-bytes", "--log-bytes"} {
		if p := problems[i]; p.Setting != setting || p.What == "" || !strings.Contains(p.Remedy, "no output in files") {
			t.Errorf("%+v, want one of %s", p, setting)
		}
	}
}
