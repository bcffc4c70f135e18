package tui

import (
	"strings"
	"testing"

	"holon/runner/control/wire"
	"holon/test/expect"
)

// The conversation is what leads to the newest turn, or to the one that the session went back to.
func TestLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turns   string // "response<previous", with * where it is current
		rewound bool
		line    string
	}{
		"none":             {"", false, ""},
		"in order":         {"a< b<a c<b*", false, "a b c"},
		"gone back":        {"a< b<a* c<b", true, "a b"},
		"to the beginning": {"a< b<a", true, ""},
		"gone on":          {"a< b<a c<b d<b*", false, "a b d"},
		"interrupted":      {"a< b<a* c<b", false, "a b c"},
		"after a killed":   {"a< b<a c<b d<c*", false, "a b c d"},
		"a new one":        {"a< b<a c<*", false, "c"},
		"older ones gone":  {"b<a c<b*", false, "b c"},
	} {
		var all []wire.SessionTurn
		for _, text := range strings.Fields(c.turns) {
			text, current := strings.CutSuffix(text, "*")
			id, previous, _ := strings.Cut(text, "<")
			all = append(all, wire.SessionTurn{ResponseID: id, PreviousResponseID: previous, Current: current})
		}
		var got []string
		for _, turn := range line(all, c.rewound) {
			got = append(got, turn.ResponseID)
		}
		expect.Equal(t, name, strings.Join(got, " "), c.line)
	}
}

// Turns that the session went back from stay in the list, marked, so that it can go back to them too.
func TestRewindItems(t *testing.T) {
	t.Parallel()
	a, b, c := wire.SessionTurn{ResponseID: "a"}, wire.SessionTurn{ResponseID: "b"}, wire.SessionTurn{ResponseID: "c"}
	var got []string
	for _, it := range rewindItems([]wire.SessionTurn{a, b, c}, []wire.SessionTurn{a, c}) {
		got = append(got, it.Cells[0]+it.ID)
	}
	expect.Equal(t, "turns", strings.Join(got, " "), "0 1a leftb 2c")
}
