package openresponses_test

import (
	"testing"

	"holon/test/conform"
)

// The suite that agentd passes, with a session for each conversation.
func TestConformance(t *testing.T) {
	t.Parallel()
	d := open(t, "conformance.yaml")
	suite := conform.New(conform.Target{BaseURL: d.url + "/v1", Model: "scripted/conformance", Token: "ann"})
	defer suite.Close()
	for _, c := range conform.Cases() {
		t.Run(string(c.Kind)+"/"+c.ID, func(t *testing.T) {
			for _, r := range suite.All(t.Context(), []conform.Case{c}) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Case.About, r.Err)
				}
			}
		})
	}
}
