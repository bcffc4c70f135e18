package console

import (
	"testing"

	"holon/runner/agent/view"
	"holon/test/expect"
)

// What turns cost is a plot where something has a price.
func TestPlotOfCost(t *testing.T) {
	t.Parallel()
	turns := []view.TurnLatency{{TurnID: "a", TurnIndex: 1, Kind: "completed"}}
	expect.Equal(t, "plots without prices", len(plotsOf(turns, map[string]taken{"a": {in: 5, out: 1}})), 4)
	plots := plotsOf(turns, map[string]taken{"a": {in: 5, out: 1, cost: 12500}})
	expect.Equal(t, "plots with prices", len(plots), 5)
	expect.Equal(t, "the title", plots[2].Title, "Cost of turns")
	expect.Equal(t, "the bar", plots[2].Bars[0].Label, "turn 1: completed, cost 0.0125")
	expect.Equal(t, "the most", plots[2].Most, "0.0125")
}
