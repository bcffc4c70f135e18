package sessions

import (
	"testing"

	"holon/test/expect"
)

// The models of a turn have the host's names: its container plays a scenario from a file of its own.
func TestModelsHaveTheHostsNames(t *testing.T) {
	models := []string{"scripted//home/ann/s.yaml", "p/m", "scripted/other"}
	for ref, want := range map[string]string{"scripted//holon/host/scenario.yaml": models[0], "p/m": "p/m",
		"scripted/other": "scripted/other", "": ""} {
		expect.Equal(t, "the name of "+ref, named(models, ref), want)
	}
}
