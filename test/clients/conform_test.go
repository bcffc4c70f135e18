package clients

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"holon/test/conform"
)

// transports are the ways to a server whose model plays a scenario. The fast tier takes one: agentd's own tests take
// both.
func (s *server) transports(fast, scenario string) map[string]conform.Target {
	model := cmp.Or(s.model, "scripted/"+scenario)
	ways := map[string]conform.Target{
		"tcp":  {BaseURL: s.tcp, Model: model},
		"unix": {BaseURL: "http://agentd/v1", Socket: s.socket, Model: model},
	}
	if testing.Short() {
		return map[string]conform.Target{fast: ways[fast]}
	}
	return ways
}

// All cases, started at once as the official suite starts its own.
func TestConformance(t *testing.T) {
	t.Parallel()
	conforms(t, serve(t, "--concurrency", "16", "--queue-limit", "1000"), "tcp")
}

func conforms(t *testing.T, s *server, fast string) {
	t.Helper()
	for name, target := range s.transports(fast, "conformance") {
		t.Run(name, func(t *testing.T) {
			suite := conform.New(target)
			defer suite.Close()
			for _, r := range suite.All(t.Context(), conform.Cases()) {
				t.Run(string(r.Case.Kind)+"/"+r.Case.ID, func(t *testing.T) {
					if r.Err != nil {
						t.Errorf("%s: %v", r.Case.About, r.Err)
					}
				})
			}
		})
	}
}

// The official cases against a server as it is started by default: one turn at
// a time, and everything else waits its turn.
func TestOfficialCasesOneAtATime(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, target := range s.transports("unix", "conformance") {
		t.Run(name, func(t *testing.T) {
			suite := conform.New(target)
			defer suite.Close()
			cases := slices.DeleteFunc(conform.Cases(), func(c conform.Case) bool { return c.Kind != conform.Official })
			if len(cases) != 19 {
				t.Errorf("%d official cases, want 19", len(cases))
			}
			for _, r := range suite.All(t.Context(), cases) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Case.ID, r.Err)
				}
			}
		})
	}
}

// Sixteen suites at once, half of them over TCP. Each waits for its answers, so
// the test ends only if every one of them does.
func TestSixteenSuitesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: a load of a thousand turns")
	}
	const suites = 16
	s := serve(t, "--concurrency", "16", "--queue-limit", "4000")
	targets := slices.Collect(maps.Values(s.transports("", "conformance")))
	var running sync.WaitGroup
	errs := make(chan error, suites*len(conform.Cases()))
	for i := range suites {
		running.Go(func() {
			suite := conform.New(targets[i%len(targets)])
			defer suite.Close()
			for _, r := range suite.All(t.Context(), conform.Cases()) {
				if r.Err != nil {
					errs <- fmt.Errorf("suite %d, %s: %w", i, r.Case.ID, r.Err)
				}
			}
		})
	}
	running.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}
