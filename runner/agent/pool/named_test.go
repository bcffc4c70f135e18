package pool

import (
	"testing"

	"holon/responses/turns"
)

// What a turn tried is told by the host's names, and the timeline of the record stays as it was.
func TestTriedModelsHaveTheHostsNames(t *testing.T) {
	turn := Turn{Model: "scripted//home/ann/s.yaml"}
	turn.Fallbacks = []string{"p/m"}
	of := turns.ProviderTimeline{RequestedModelRef: "scripted//holon/host/scenario.yaml", WinningModelRef: "p/m",
		Attempts: []turns.ProviderAttempt{{ModelRef: "scripted//holon/host/scenario.yaml"}, {ModelRef: "p/m"}}}
	got := tried(turn, of)
	switch {
	case got.RequestedModelRef != turn.Model, got.ActiveModelRef != "", got.WinningModelRef != "p/m",
		got.Attempts[0].ModelRef != turn.Model, got.Attempts[1].ModelRef != "p/m":
		t.Errorf("the timeline is %+v, want %s and p/m", got, turn.Model)
	case of.Attempts[0].ModelRef == turn.Model:
		t.Error("the timeline of the record was changed")
	}
}
