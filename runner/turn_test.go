package runner

import "testing"

// What turns ask of the host waits until the last of those that go on is rejoined, also where another begins before.
func TestAwait(t *testing.T) {
	s := new(Session)
	if !s.complete("turn_new", false) {
		t.Error("a session without turns that go on waits for some")
	}
	s.Await([]string{"turn_1", "turn_2"})
	for _, step := range []struct {
		turn           string
		rejoined, want bool
	}{{"turn_2", true, false}, {"turn_1", false, false}, {"turn_3", false, false}, {"turn_2", true, false},
		{"turn_1", true, true}, {"turn_4", false, true}} {
		if got := s.complete(step.turn, step.rejoined); got != step.want {
			t.Errorf("%+v: complete is %t", step, got)
		}
	}
}
