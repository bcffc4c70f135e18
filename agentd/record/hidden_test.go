package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// What a tool told the model in confidence is in the conversation, and in nothing that others read, also of a later
// turn and of a later process.
func TestHiddenStaysWithTheModel(t *testing.T) {
	const secret = "whsec-0123456789abcdef"
	dir := t.TempDir()
	s := newStore(t, dir)
	h := handing{t, s, dir}
	say := func(n, previous string, hide bool) {
		turn, em, scope := h.begin(n, previous, `"go"`)
		if hide {
			must(t, turn.Hide([]string{secret}))
		}
		must(t, turn.Event(scope.ToolStarted("tc_"+n, turns.Begun{ToolName: "f", Arguments: secret})),
			turn.Event(scope.ToolResult("tc_"+n, turns.Result{ToolName: "f", Preview: "it is " + secret})),
			em.Text("It is "+secret+"."), em.EndItem(), turn.Add(em.Response().Output[0]))
		h.commit(turn, em, scope)
		for _, name := range []string{turns.EventsFile, turns.RuntimeFile, turns.RecordFile} {
			data, err := os.ReadFile(filepath.Join(dir, n, name))
			must(t, err)
			if strings.Contains(string(data), secret) {
				t.Errorf("%s of turn %s has the secret:\n%s", name, n, data)
			}
		}
		stored, err := h.store.Load("resp_" + n)
		must(t, err)
		expect.Equal(t, "the stored response", stored.Response.OutputText(), "It is [redacted].")
		items, _, err := h.store.Chain("resp_" + n)
		must(t, err)
		if m, ok := items[len(items)-1].(*responses.Message); !ok || !strings.Contains(m.Text(), secret) {
			t.Errorf("the conversation ends with %+v, want what the model said", items[len(items)-1])
		}
	}
	say("1", "", true)
	say("2", "resp_1", false)
	must(t, s.Close())
	h.store = newStore(t, dir)
	say("3", "resp_2", false)
}
