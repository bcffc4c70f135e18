package console

import (
	"fmt"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/state"
)

// plot is a bar chart, which a template draws as SVG. The same numbers stand in the table below it.
type plot struct {
	Title, Most string
	Parts       []string // what the parts of a bar are, from below
	Bars        []bar
	Width       int
}

// bar is a turn in a plot: its parts stand on one another.
type bar struct {
	X, Width int
	Parts    []part
	Label    string // what a pointer is shown
}

type part struct {
	Name      string
	Y, Height int
}

// Sizes of a plot, in units of its view box.
const (
	plotHeight = 120
	barWidth   = 10
	barGap     = 3
	minBars    = 30 // for which there is room at least
)

// plotsOf are the plots over turns, the oldest first: how long each took and waited, what it took, and how it ended.
// That of the cost is left out where nothing has a price.
func plotsOf(turns []view.TurnLatency, of map[string]taken) []plot {
	took := newPlot("Time of turns", "ms", turns, []string{"queued", "took"}, nil, func(t view.TurnLatency) []int64 {
		return []int64{t.QueueWaitMS, t.TurnMS}
	})
	used := newPlot("Tokens of turns", "tokens", turns, []string{"in", "out"}, of, func(t view.TurnLatency) []int64 {
		return []int64{of[t.TurnID].in, of[t.TurnID].out}
	})
	cost := newPlot("Cost of turns", unitCost, turns, []string{"cost"}, of, func(t view.TurnLatency) []int64 {
		return []int64{of[t.TurnID].cost}
	})
	calls := newPlot("Model rounds and tool calls", "", turns, []string{"rounds", "calls"}, nil,
		func(t view.TurnLatency) []int64 { return []int64{int64(t.ModelRounds), int64(t.ToolCalls)} })
	ended := newPlot("Outcomes", "", turns, []string{"completed", "failed", "aborted"}, nil,
		func(t view.TurnLatency) []int64 {
			switch {
			case t.FailureCode != "":
				return []int64{0, 1, 0}
			case t.Kind == "aborted":
				return []int64{0, 0, 1}
			}
			return []int64{1, 0, 0}
		})
	if cost.Most == "" {
		return []plot{took, used, calls, ended}
	}
	return []plot{took, used, cost, calls, ended}
}

// newPlot makes a plot of the values of turns. taken says which of them are estimates; nil: none.
func newPlot(title, unit string, turns []view.TurnLatency, parts []string, taken map[string]taken,
	of func(view.TurnLatency) []int64) plot {
	p := plot{Title: title, Parts: parts, Width: max(minBars, len(turns)) * (barWidth + barGap)}
	most := int64(1)
	for _, t := range turns {
		var sum int64
		for _, v := range of(t) {
			sum += max(v, 0)
		}
		most = max(most, sum)
	}
	if most > 1 {
		p.Most = fmt.Sprintf("%d %s", most, unit)
		if unit == unitCost {
			p.Most = state.Amount(most).String()
		}
	}
	for i, t := range turns {
		b := bar{X: i * (barWidth + barGap), Width: barWidth,
			Label: fmt.Sprintf("turn %d: %s", t.TurnIndex, visible.OneLine(string(t.Kind)+" "+t.FailureCode, 80))}
		top := plotHeight
		for at, v := range of(t) {
			height := int(max(v, 0) * plotHeight / most)
			top -= height
			b.Parts = append(b.Parts, part{parts[at], top, height})
			b.Label += ", " + parts[at] + " " + amount(v, unit, taken[t.TurnID])
		}
		p.Bars = append(p.Bars, b)
	}
	return p
}

// unitCost is that of amounts of money.
const unitCost = "micros"

// amount writes a number of a turn with its unit.
func amount(n int64, unit string, of taken) string {
	if unit == unitCost {
		return state.Spent{Cost: state.Amount(n), Estimated: of.mark != "", Unpriced: of.unpriced}.Short()
	}
	return fmt.Sprintf("%s%d %s", of.mark, n, unit)
}
