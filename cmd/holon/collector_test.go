package main

import (
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"holon/test/telemetrytest"
)

// cmdCollector starts a collector of OpenTelemetry for a script:
//
//	collector NAME
//
// Its address is in $NAME_URL. NAME.log has two lines for each span: its name behind those above it, and all that is in
// it; then one for each metric.
func cmdCollector(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: collector NAME")
	}
	path := ts.MkAbs(args[0] + ".log")
	ts.Check(os.WriteFile(path, nil, 0o600))
	var c *telemetrytest.Collector
	started := make(chan struct{})
	c = telemetrytest.Start(func() {
		<-started
		var log strings.Builder
		spans := c.Spans()
		for i, name := range telemetrytest.Tree(spans) {
			log.WriteString(name + "\n  " + strings.ReplaceAll(spans[i].String(), "\n", " ") + "\n")
		}
		for _, name := range []string{"gen_ai.client.token.usage", "gen_ai.client.operation.duration", "holon.turns",
			"holon.queue.length"} {
			if m := c.Metric(name); m != nil {
				log.WriteString("metric " + strings.ReplaceAll(m.String(), "\n", " ") + "\n")
			}
		}
		_ = os.WriteFile(path, []byte(log.String()), 0o600) // the script finds out
	})
	close(started)
	ts.Defer(c.Close)
	ts.Setenv(args[0]+"_URL", c.URL)
}
