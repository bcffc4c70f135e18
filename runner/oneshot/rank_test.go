package oneshot

import (
	"testing"

	"holon/state"
	"holon/test/expect"
)

// Attempts that passed come first, those without a change behind them, then the smallest change. Equal ones have one
// rank and no winner, unless their results are the same.
func TestRank(t *testing.T) {
	t.Parallel()
	type a struct {
		status state.CheckStatus
		lines  int
		result string
	}
	const pass, fail, none = state.CheckPassed, state.CheckFailed, state.CheckNotRun
	for name, tc := range map[string]struct {
		attempts []a
		ranks    []int
		winner   int
		tied     int
	}{
		"smallest":         {[]a{{pass, 5, "x"}, {pass, 3, "y"}, {fail, 1, "z"}}, []int{2, 1, 3}, 2, 0},
		"tie":              {[]a{{pass, 3, "x"}, {fail, 1, "z"}, {pass, 3, "y"}}, []int{1, 3, 1}, 0, 2},
		"same result":      {[]a{{pass, 3, "x"}, {pass, 3, "x"}, {pass, 4, "y"}}, []int{1, 1, 3}, 1, 0},
		"tie of the worse": {[]a{{pass, 3, "x"}, {pass, 4, "y"}, {pass, 4, "z"}}, []int{1, 2, 2}, 1, 0},
		"nothing changed":  {[]a{{pass, 0, "b"}, {pass, 90, "x"}, {fail, 1, "y"}}, []int{2, 1, 3}, 2, 0},
		"none passed":      {[]a{{fail, 3, "x"}, {state.CheckTimeout, 2, "y"}}, []int{2, 1}, 0, 0},
		"not checked":      {[]a{{none, 1, "x"}, {pass, 3, "y"}}, []int{0, 1}, 2, 0},
		"nothing checked":  {[]a{{none, 1, "x"}, {"", 0, ""}}, []int{0, 0}, 0, 0},
		"unknown results":  {[]a{{pass, 3, ""}, {pass, 3, ""}}, []int{1, 1}, 0, 2},
	} {
		m := &state.Manifest{}
		for i, of := range tc.attempts {
			made := state.Attempt{Number: i + 1, Lines: of.lines, Files: min(of.lines, 1), Result: of.result}
			if of.status != "" {
				made.Checked = &state.Check{Status: of.status}
			}
			m.Attempts = append(m.Attempts, made)
		}
		m.Winner = rank(m.Attempts)
		expect.Equal(t, name+": the winner", m.Winner, tc.winner)
		expect.Equal(t, name+": the tied", len(Tied(m)), tc.tied)
		for i, want := range tc.ranks {
			expect.Equal(t, name+": a rank", m.Attempts[i].Rank, want)
		}
	}
}
