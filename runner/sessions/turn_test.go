package sessions

import (
	"os"
	"slices"
	"testing"

	"holon/internal/redact"
	"holon/runner"
	"holon/state"
	"holon/test/expect"
)

// The record of a session names each turn that may go on, and the token of each is a secret as long.
func TestAsk(t *testing.T) {
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	for name, c := range map[string]struct {
		atOnce bool
		want   []string
	}{"several at a time": {true, []string{"turn_2", "turn_3"}}, "one at a time": {false, []string{"turn_3"}}} {
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
