package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/runner/agent/prompt"
	"holon/state/ledger"
	"holon/test/expect"
)

// sent is the prompt of each turn of main, the oldest first.
func (l *lab) sent() (prompts []prompt.Prompt) {
	l.t.Helper()
	err := l.store.View(l.t.Context(), func(v ledger.View) error {
		list, err := v.Turns("main", 0)
		for _, t := range list {
			recorded, ok, failed := v.Prompt(t.AttemptID)
			if failed != nil || !ok {
				return fmt.Errorf("the prompt of turn %d is there: %v (%w)", t.Index, ok, failed)
			}
			var p prompt.Prompt
			if err := json.Unmarshal(recorded.Prompt, &p); err != nil {
				return err
			}
			prompts = append(prompts, p)
		}
		return err
	})
	expect.NoError(l.t, err)
	return prompts
}

// shown are the first words of the blocks of a prompt that tell of memory.
func shown(p prompt.Prompt) string {
	var blocks []string
	for _, b := range p.ContextBlocks {
		first, _, _ := strings.Cut(b.Text, "\n")
		for _, kind := range []string{"[memory] What changed", "[memory] Your working memory", "[episodes]", "[curated memory] agent_home/memory/self.md",
			"[earlier]"} {
			if strings.HasPrefix(first, kind) {
				blocks = append(blocks, kind)
			}
		}
	}
	return strings.Join(blocks, " ")
}

// What a turn left is in the next prompt, once; a file that the operator changed is in the next one, too. A conversation
// that is larger than its budget begins anew from memory.
func TestMemoryInPrompts(t *testing.T) {
	t.Parallel()
	l := newLab(t, `
rounds:
  - {cases: [{when: {user: {contains: build it}}, calls: [{tool: ExecCommand, arguments: {cmd: "echo make test"}}]}, {text: here}]}
  - {text: "It is built."}
`)
	l.budget = 5_000
	l.start()
	defer l.end()
	file := filepath.Join(l.home.AgentDir("main"), "memory", "self.md")
	expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	expect.NoError(t, os.WriteFile(file, []byte("I build."), 0o600))
	long := strings.Repeat("x ", 2_000)
	for _, text := range []string{"build it", "and", "then", long, long, long, long, long, long, long, long} {
		if text == "then" {
			expect.NoError(t, os.WriteFile(file, []byte("I build well."), 0o600))
		}
		l.untilStatus(l.prompt(text, "", ""), ledger.Processed)
	}
	prompts, compactions := l.sent(), l.ofType(turns.ContextCompacted)
	for i, want := range []string{"[curated memory] agent_home/memory/self.md", "[memory] What changed",
		"[memory] What changed [curated memory] agent_home/memory/self.md", ""} {
		expect.Equal(t, fmt.Sprintf("what turn %d is shown", i+1), shown(prompts[i]), want)
	}
	for i, turn := range l.turns()[1:] {
		p := prompts[i+1]
		expect.Equal(t, "the key of the cache", p.Cache.PromptCacheKey, prompts[0].Cache.PromptCacheKey)
		if turn.Previous == "" {
			expect.Equal(t, "what begins a conversation anew", shown(p),
				"[memory] Your working memory [curated memory] agent_home/memory/self.md [earlier]")
			expect.Equal(t, "compactions before it", p.Cache.CompressionEpoch, 1)
		}
	}
	if !strings.Contains(prompts[1].Prompt(), "\n- recent_decisions: \"It is built.\"") {
		t.Errorf("the second prompt does not have the lines of the change:\n%s", prompts[1].Prompt())
	}
	if len(compactions) != 2 {
		t.Errorf("the conversation was renewed %d times, want 2", len(compactions))
	}
}
