package load

import (
	"path/filepath"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/torture/check"
)

// newLedger makes a ledger of three messages, of which the first is worked off by
// the turn.
func newLedger(t *testing.T) (path string, ids map[string]string, turn string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.sqlite")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	expect.NoError(t, err)
	m := scheduler.New(store, scheduler.Options{Owner: "boot_1"})
	if _, err := m.Create(t.Context(), scheduler.NewAgent{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	ids = make(map[string]string)
	for _, key := range []string{"one:k1", "one:k2", "two:k2"} {
		a, err := m.Admit(t.Context(), ledger.Message{AgentID: "a", Key: key, Kind: ledger.KindOperatorPrompt,
			Origin: ledger.Origin{Kind: ledger.OriginOperator},
			Body:   ledger.Body{Type: "text", Text: "go"}, Surface: ledger.SurfaceCLIPrompt,
			AdmissionContext: ledger.LocalProcess})
		expect.NoError(t, err)
		ids[key] = a.MessageID
	}
	c, _, err := m.Claim(t.Context(), "a")
	if err == nil {
		_, err = m.Settle(t.Context(), c.Attempt.ID, scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted}})
	}
	expect.NoError(t, err)
	expect.NoError(t, store.Close())
	return path, ids, c.Attempt.TurnID
}

// A letter that is lost, there twice, there although it was refused, or whose
// command did not run, is found.
func TestDelivered(t *testing.T) {
	path, ids, turn := newLedger(t)
	led, err := check.OpenLedger(path)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = led.Close() })
	ran := map[string]bool{turn + " 1.1": true}
	for name, tc := range map[string]struct {
		letter Letter
		ran    map[string]bool
		ok     bool
	}{
		"there":                  {Letter{Key: "k1", ID: ids["one:k1"], Acked: true, Tries: 1}, ran, true},
		"another":                {Letter{Key: "k1", ID: "msg_other", Acked: true, Tries: 1}, ran, false},
		"nothing ran":            {Letter{Key: "k1", ID: ids["one:k1"], Acked: true, Tries: 1}, nil, false},
		"nothing was to run":     {Letter{Key: "k1", ID: ids["one:k1"], Acked: true, Tries: 1, Word: Quick}, nil, true},
		"lost":                   {Letter{Key: "k3", ID: "msg_1", Acked: true, Tries: 1}, ran, false},
		"twice":                  {Letter{Key: "k2", ID: ids["one:k2"], Acked: true, Tries: 2}, ran, false},
		"refused":                {Letter{Key: "k3", Refused: "agent_stopped", Tries: 1}, ran, true},
		"refused and there":      {Letter{Key: "k1", Refused: "agent_stopped", Tries: 1}, ran, false},
		"unknown, then refused":  {Letter{Key: "k1", Refused: "agent_stopped", Tries: 2}, ran, true},
		"refused and twice":      {Letter{Key: "k2", Refused: "agent_stopped", Tries: 2}, ran, false},
		"a wake has no identity": {Letter{Key: "k3", Way: Wake, Acked: true}, ran, true},
	} {
		tc.letter.Agent = "a"
		if tc.letter.Way == "" {
			tc.letter.Way = Prompt
		}
		if err := tc.letter.delivered(t.Context(), led, tc.ran); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (&Server{Home: filepath.Dir(path)}).Woken(t.Context(), map[string]int{"a": 1}) == nil {
		t.Error("a wake is known that never was")
	}
}
