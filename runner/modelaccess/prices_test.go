package modelaccess

import (
	"testing"

	"holon/internal/providers"
	"holon/runner/settings"
	"holon/test/expect"
)

// The table can be read and names models of providers that are built in. What is set takes its place.
func TestListPrices(t *testing.T) {
	list, err := parsePrices(listPrices)
	expect.NoError(t, err)
	for ref, p := range list.models {
		name, _, _ := providers.SplitRef(ref)
		if _, known := providers.Find(name); !known || *p.Output < *p.Input ||
			p.CachedInput != nil && *p.CachedInput > *p.Input {
			t.Errorf("%s: the provider or the price is wrong", ref)
		}
	}
	s := settings.Default()
	host := &Host{Settings: &s}
	for ref, want := range map[string]string{"openai/gpt-5": "1.25", "openai/gpt-5-2025-08-07": "1.25",
		"anthropic/claude-opus-4-5-20251101": "5", "mistral/mistral-large-latest": "0.5", "anthropic/claude-opus-4": "",
		"anthropic/claude-opus-4-99": "", "openai/gpt-5-pro": "", "ollama/gpt-5": "", "openai/gpt-5-latest-20250101": ""} {
		got := ""
		if p := host.Price(ref); p != nil {
			got = p.Input.String()
			expect.Equal(t, ref+" is marked", p.ListOf, list.asOf)
		}
		expect.Equal(t, ref, got, want)
	}
	s.ListPrices = false
	expect.Equal(t, "without list prices", host.Price("openai/gpt-5") == nil, true)
	for _, wrong := range []string{"", "# 2026-01-01\nopenai/m 1 2", "# 2026-01-01\nopenai/m 1 - - -",
		"# 2026-01-01\nopenai/m 1 -2 - -", "openai/m 1 2 - -", "# 2026-01-01\nopenai/m 1 2 - -\nopenai/m 1 2 - -"} {
		if _, err := parsePrices(wrong); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}
