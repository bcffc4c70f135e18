package oneshot

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"holon/state"
)

// rank ranks the attempts that were checked: those that passed before those that did not, those that changed something
// before those that did not, then by the lines that they changed, the fewest first. Equal ones have the same rank. It
// returns the number of the best, 0 if none passed or several are the best whose results differ.
func rank(attempts []state.Attempt) (winner int) {
	checked := make([]*state.Attempt, 0, len(attempts))
	for i := range attempts {
		if a := &attempts[i]; a.Checked != nil && a.Checked.Status != state.CheckNotRun {
			checked = append(checked, a)
		}
	}
	slices.SortStableFunc(checked, compareAttempts)
	for i, a := range checked {
		a.Rank = i + 1
		if i > 0 && compareAttempts(checked[i-1], a) == 0 {
			a.Rank = checked[i-1].Rank
		}
	}
	winners := best(attempts)
	if len(winners) == 0 || len(winners) > 1 && differ(winners) {
		return 0
	}
	return winners[0].Number
}

func compareAttempts(a, b *state.Attempt) int {
	return cmp.Or(isTrue(!passed(a))-isTrue(!passed(b)), isTrue(a.Files == 0)-isTrue(b.Files == 0),
		cmp.Compare(a.Lines, b.Lines))
}

func isTrue(b bool) int {
	if b {
		return 1
	}
	return 0
}

func passed(a *state.Attempt) bool { return a.Checked != nil && a.Checked.Status == state.CheckPassed }

// best are the attempts of rank 1, if they passed.
func best(attempts []state.Attempt) (list []*state.Attempt) {
	for i := range attempts {
		if a := &attempts[i]; a.Rank == 1 && passed(a) {
			list = append(list, a)
		}
	}
	return list
}

// differ reports whether the results of attempts are not all the same.
func differ(attempts []*state.Attempt) bool {
	return slices.ContainsFunc(attempts, func(a *state.Attempt) bool {
		return a.Result == "" || a.Result != attempts[0].Result
	})
}

// Tied are the numbers of the attempts between which a run has no winner, none if that is not the reason.
func Tied(m *state.Manifest) (numbers []int) {
	if list := best(m.Attempts); m.Winner == 0 {
		for _, a := range list {
			numbers = append(numbers, a.Number)
		}
	}
	return numbers
}

// summary is summary.md of the whole.
func (g *group) summary() []byte {
	m := g.manifest
	var b bytes.Buffer
	title := m.RunID
	if m.Name != "" {
		title = nameSpan(m.Name)
	}
	fmt.Fprintf(&b, "# Run %s: %s\n\n## Task\n\n%s\n", title, m.Outcome, fence(g.prompt))
	if m.Error != nil {
		fmt.Fprintf(&b, "\n## Error\n\n%s (%s)\n", proseSpan(m.Error.Message), proseSpan(m.Error.Code))
	}
	fmt.Fprint(&b, "\n## Attempts\n\n| rank | attempt | check | files | lines | model |\n|---|---|---|---|---|---|\n")
	for _, a := range Ranked(m.Attempts) {
		fmt.Fprintf(&b, "| %s | %d | %s | %d | %d | %s |\n", RankText(a), a.Number, CheckText(a), a.Files, a.Lines,
			proseSpan(a.Model))
	}
	switch tied := Tied(m); {
	case m.Winner > 0:
		fmt.Fprintf(&b, "\nApply the best, attempt %d, with `holon apply %s`.\n", m.Winner, m.RunID)
	case len(tied) > 0:
		fmt.Fprintf(&b, "\nAttempts %v are equal. Apply one with `holon apply --attempt N %s`.\n", tied, m.RunID)
	}
	return b.Bytes()
}

// Ranked are attempts in the order of their ranks, those without one last.
func Ranked(attempts []state.Attempt) []state.Attempt {
	list := slices.Clone(attempts)
	slices.SortStableFunc(list, func(a, b state.Attempt) int {
		return cmp.Or(isTrue(a.Rank == 0)-isTrue(b.Rank == 0), cmp.Compare(a.Rank, b.Rank))
	})
	return list
}

// RankText is the rank of an attempt, "-" if it has none.
func RankText(a state.Attempt) string {
	if a.Rank == 0 {
		return "-"
	}
	return fmt.Sprint(a.Rank)
}

// CheckText says in a word or two how the check of an attempt ended, or why there was none.
func CheckText(a state.Attempt) string {
	switch c := a.Checked; {
	case a.Error != nil && a.Error.Code == codeSuperseded:
		return codeSuperseded
	case c == nil || c.Status == state.CheckNotRun && a.Outcome != "":
		return "not run: " + string(cmp.Or(a.Outcome, "killed"))
	case c.Status == state.CheckFailed && c.ExitCode != nil:
		return fmt.Sprintf("failed (%d)", *c.ExitCode)
	default:
		return string(c.Status)
	}
}
