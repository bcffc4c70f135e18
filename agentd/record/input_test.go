package record

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/responses/turns"
)

// said is a turn in which the user says two things, of which the model is told
// one.
func said(t *testing.T, turn *Turn) (told, waiting turns.Input) {
	t.Helper()
	told, waiting = turns.NewInput{ID: "in_1", Text: "the other one"}.Input(),
		turns.NewInput{ID: "in_2", Text: "wait"}.Input()
	must(t, turn.Input(told, nil), turn.Input(waiting, nil))
	told.Inserted, told.Round = true, 2
	item := &responses.Message{ID: responses.PrefixInterjected + "1", Status: responses.ItemCompleted,
		Role: responses.RoleUser, Content: []responses.Part{responses.InputText("the other one")}}
	must(t, turn.Input(told, item))
	return told, waiting
}

func interjected(items []responses.Item) (n int) {
	for _, item := range items {
		if responses.IsInterjected(item) {
			n++
		}
	}
	return n
}

// A message of the user during a turn is in its record at once, and at its end.
// In the conversation it stands where the model got it.
func TestSaid(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, scope := begin(t, s, dir, `{"input":"hi"}`)
	told, waiting := said(t, turn)
	want := []turns.Input{told, waiting}
	running, err := ReadRecord(turn.Dir)
	if err != nil || running.Status != responses.StatusInProgress || cmp.Diff(want, running.Inputs) != "" {
		t.Errorf("while the turn runs the record is %+v, %v", running, err)
	}
	play(t, turn, em, scope)
	must(t, turn.Commit(em.Response(), turns.Totals{Rounds: 2}, scope.Event(turns.TurnCompleted, turns.Completed{})),
		turn.Close())
	ended, err := ReadRecord(turn.Dir)
	if err != nil || ended.Status != responses.StatusCompleted || cmp.Diff(want, ended.Inputs) != "" {
		t.Errorf("the record is %+v, %v", ended, err)
	}
	for range 2 { // from memory, and from disk
		items, _, err := s.Chain("resp_1")
		switch {
		case err != nil:
			t.Errorf("unexpected error: %v", err)
		case len(items) != 7:
			t.Errorf("len(items) = %d (%+v), want 7", len(items), items)
		case !responses.IsInterjected(items[1]):
			t.Error("responses.IsInterjected(items[1]) = false, want true")
		case interjected(items) != 1:
			t.Errorf("interjected(items) = %d, want 1", interjected(items))
		}
		s.cache = newConversations(maxCached)
	}
	if stored, err := s.Load("resp_1"); err != nil || len(stored.Input) != 1 {
		t.Errorf("the request's input is %+v, %v", stored, err)
	}
}

// Wherever a crash cuts the trajectory, the settled record says of exactly those
// messages that they were told which are in the conversation.
func TestSaidAtEveryCut(t *testing.T) {
	base := t.TempDir()
	s := newStore(t, base)
	turn, _, _ := begin(t, s, base, `{"input":"hi"}`)
	said(t, turn)
	path := s.openPath("resp_1")
	whole, err := os.ReadFile(path)
	must(t, err)
	record, err := os.ReadFile(filepath.Join(turn.Dir, turns.RecordFile))
	must(t, err)
	must(t, turn.trajectory.Close(), turn.Close())
	seen := make(map[int]bool)
	for at := 0; at <= len(whole); at++ {
		if at < len(whole) && whole[at] != '\n' && (at == 0 || whole[at-1] != '\n') && at%97 != 0 {
			continue // line ends, line beginnings, and some places within
		}
		must(t, os.WriteFile(path, whole[:at], 0o600),
			os.WriteFile(filepath.Join(turn.Dir, turns.RecordFile), record, 0o600))
		_ = os.Remove(s.donePath("resp_1"))
		s.cache = newConversations(maxCached)
		settled, err := settleAll(s)
		must(t, err)
		if len(settled) == 0 {
			continue // not even the header was there
		}
		rec, err := ReadRecord(turn.Dir)
		must(t, err)
		items, _, err := s.Chain("resp_1")
		must(t, err)
		n := 0
		for _, in := range rec.Inputs {
			if in.Inserted {
				n++
			}
		}
		if n != interjected(items) || rec.Status != responses.StatusFailed {
			t.Errorf("cut at %d: %d messages are said to be told and %d are in the conversation; %s", at, n,
				interjected(items), rec.Status)
		}
		seen[2*len(rec.Inputs)+n] = true
	}
	for _, state := range []int{0, 2, 4, 5} { // none, one, both, one of them told
		if !seen[state] {
			t.Errorf("no cut led to the state %d", state)
		}
	}
	if bytes.Count(whole, []byte(`"said"`)) != 3 {
		t.Errorf("the trajectory is\n%s", whole)
	}
}
