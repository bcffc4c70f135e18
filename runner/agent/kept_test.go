package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"holon/responses/turns"
	"holon/state/ledger"
	"holon/test/expect"
)

// A conversation whose end is gone, as with a container that was removed before it was copied, goes on from what is there.
func TestConversationWithoutItsEnd(t *testing.T) {
	t.Parallel()
	l := newLab(t, `rounds: [{text: "done"}]`)
	l.start()
	for _, text := range []string{"one", "two"} {
		l.untilStatus(l.prompt(text, "", ""), ledger.Processed)
	}
	before := l.turns()
	l.end()
	expect.NoError(t, os.Remove(filepath.Join(l.home.AgentDir("main"), ".holon", "session", "state", turns.ResponsesDir,
		before[1].ResponseID+".ndjson")))
	l.start()
	defer l.end()
	l.untilStatus(l.prompt("three", "", ""), ledger.Processed)
	all := l.turns()
	expect.Equal(t, "what the third turn continues", all[len(all)-1].Previous, before[0].ResponseID)
}
