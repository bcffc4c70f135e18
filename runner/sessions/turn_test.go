package sessions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/runner"
	"holon/state"
	"holon/test/expect"
)

// The record of a session names each turn that may go on, with several at a time also some that are over; the token of
// each is a secret as long as it goes on.
func TestAsk(t *testing.T) {
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	for name, c := range map[string]struct {
		atOnce bool
		want   []string
	}{"several at a time": {true, []string{"turn_1", "turn_2", "turn_3"}}, "one at a time": {false, []string{"turn_3"}}} {
		m := &Manager{Home: home, Secrets: new(redact.Set), AtOnce: c.atOnce}
		key := OfConversation(state.NewConversationID())
		expect.NoError(t, os.MkdirAll(m.Dir(key), 0o700))
		s := newSession(m, key, &Record{Held: runner.Held{ID: "c", Dir: m.SessionDir(key), Sockets: "/s"}, Made: &Made{}})
		expect.NoError(t, s.Save())
		var asked []runner.Turn
		for _, id := range []string{"turn_1", "turn_2", "turn_3"} {
			turn := runner.NewTurn(id, "")
			expect.NoError(t, s.ask(&turn))
			if asked = append(asked, turn); id == "turn_1" {
				s.over[id] = true
			}
		}
		r, err := m.Record(key)
		expect.NoError(t, err)
		var got []string
		for i, turn := range asked {
			if r.grant(turn.ID()) == turn.Grant {
				got = append(got, turn.ID())
			}
			if secret := m.Secrets.Text(turn.Token.Reveal()) != turn.Token.Reveal(); secret != (i > 0) {
				t.Errorf("%s: the token of turn %d is a secret: %t", name, i+1, secret)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the record has %q, want %q", name, got, c.want)
		}
		s.forgetTokens()
		if token := asked[2].Token.Reveal(); m.Secrets.Text(token) != token {
			t.Errorf("%s: the token outlives the session", name)
		}
	}
}

// The file of turns stays small, names what goes on, and is read up to the line that a kill cut off.
func TestTurnLines(t *testing.T) {
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	m := &Manager{Home: home, Secrets: new(redact.Set), AtOnce: true}
	key := OfConversation(state.NewConversationID())
	expect.NoError(t, os.MkdirAll(m.Dir(key), 0o700))
	s := newSession(m, key, &Record{Held: runner.Held{ID: "c", Dir: m.SessionDir(key), Sockets: "/s"}, Made: &Made{}})
	expect.NoError(t, s.Save())
	path := filepath.Join(m.Dir(key), turnsFile)
	named := func() (ids []string) {
		r, err := m.Record(key)
		expect.NoError(t, err)
		for _, a := range r.underWay() {
			ids = append(ids, a.TurnID)
		}
		return ids
	}
	for n := range 3*maxTurnLines + 1 {
		turn := runner.NewTurn(fmt.Sprint("turn_", n), "")
		expect.NoError(t, s.ask(&turn))
		s.over[turn.ID()] = n > 0 // the first one goes on
		if ids := named(); len(ids) > maxTurnLines || ids[len(ids)-1] != turn.ID() || !slices.Contains(ids, "turn_0") {
			t.Fatalf("after %s the file has %q", turn.ID(), ids)
		}
	}
	ids := named()
	text, err := os.ReadFile(path)
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(path, append(text, `{"turn_id":"turn_cut","gra`...), durable.Private))
	expect.Equal(t, "turns", fmt.Sprint(named()), fmt.Sprint(ids))

	s.lines = 1
	expect.NoError(t, os.Remove(path))
	turn := runner.NewTurn("turn_lost", "")
	if err := s.ask(&turn); err == nil {
		t.Error("a turn that is not recorded was to be asked for")
	}
	expect.NoError(t, s.ask(&turn)) // the file is made anew
	expect.Equal(t, "newest", named()[len(named())-1], "turn_lost")
}
