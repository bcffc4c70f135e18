package agentd_test

import (
	"os"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/test/conform"
	"holon/test/expect"
)

// All cases of package conform, at once, and over TCP those of the official suite. Package clients runs them against
// the program itself.
func TestConformance(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) {
		c.Server.Listen, c.Turns.Concurrency, c.Turns.QueueLimit = "127.0.0.1:0", 16, 1000
	})
	scenario, err := os.ReadFile("../test/clients/testdata/conformance.yaml")
	expect.NoError(t, err)
	target := conform.Target{BaseURL: "http://agentd/v1", Socket: h.cfg.Server.Socket,
		Model: h.scenario("conformance", string(scenario))}
	allPass(t, target, conform.Cases())
	target.BaseURL, target.Socket = "http://"+h.tcp, ""
	official := 0
	for official < len(conform.Cases()) && conform.Cases()[official].Kind == conform.Official {
		official++
	}
	allPass(t, target, conform.Cases()[:official])
}

func allPass(t *testing.T, target conform.Target, cases []conform.Case) {
	t.Helper()
	suite := conform.New(target)
	defer suite.Close()
	for _, r := range suite.All(t.Context(), cases) {
		if r.Err != nil {
			t.Errorf("%s, %s: %s: %v", target.BaseURL, r.Case.ID, r.Case.About, r.Err)
		}
	}
}
