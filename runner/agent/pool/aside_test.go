package pool_test

import (
	"fmt"

	"testing"

	"holon/responses"
	"holon/runner"
	"holon/runner/agent/pool"
	"holon/state"
	"holon/test/expect"
)

// A command can damage the state that agentd keeps of the agent in any way: the agent's next turn
// is made: of what cannot be used nothing is lost, but it is set aside.
func TestSpoiledState(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"journal is a pipe":     "rm -rf /holon/state/journal; mkfifo /holon/state/journal",
		"responses are pipes":   "for f in $(find /holon/state/responses -type f); do rm $f; mkfifo $f; done",
		"turns are a link":      "rm -rf /holon/output/turns; ln -s /etc /holon/output/turns",
		"turns are a pipe":      "rm -rf /holon/output/turns; mkfifo /holon/output/turns",
		"state is closed":       "chmod 0 /holon/state",
		"everything is removed": "rm -rf /holon/state/*",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", fmt.Sprintf(`
turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: %q}}]
      - text: done
  - rounds: [{text: after}]
`, "test -e /holon/workspaces/agent_home/spoiled || { touch /holon/workspaces/agent_home/spoiled; "+spoil+
				"; }")) // once: another container plays it anew
			l.agent("ada")
			k := l.pool()
			first, err := k.Turn(t.Context(), pool.Turn{AgentID: "ada",
				Turn: runner.Turn{ID: responses.NewID(responses.PrefixTurn), Prompt: "spoil"}}, nil, new(lines))
			expect.NoError(t, err)
			next := pool.Turn{AgentID: "ada", Turn: runner.Turn{Prompt: "and now",
				PreviousResponseID: first.ResponseID}}
			var second pool.Result
			for range 4 { // two may fail, and one can say that the conversation is gone
				next.ID = responses.NewID(responses.PrefixTurn)
				if second, err = k.Turn(t.Context(), next, nil, new(lines)); err == nil &&
					second.Status == responses.StatusCompleted {
					break
				} else if err == nil {
					continue
				}
				if !state.IsCode(err, responses.CodePreviousNotFound) {
					t.Fatalf("the next turn is not begun: %v", err)
				}
				next.PreviousResponseID = ""
			}
			if err != nil || second.Status != responses.StatusCompleted {
				t.Errorf("the next turn is %s %+v, %v, want completed", second.Status, second.Failure, err)
			}
		})
	}
}
