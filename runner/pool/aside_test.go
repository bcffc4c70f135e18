package pool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"testing"

	"holon/responses"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/pool"
	"holon/state"
	"holon/test/expect"
)

// Where agentd and its commands are one user, a command can damage the state that agentd keeps of the agent in any way.
// The agent's next turn is made: of what cannot be used nothing is lost, but it is set aside.
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
			k := l.pool(l.oneUser)
			first, err := k.Turn(t.Context(), turnOf("ada", responses.NewID(responses.PrefixTurn), "spoil"), nil, new(lines))
			expect.NoError(t, err)
			previous := first.ResponseID
			var second runner.End
			for range 4 { // two may fail, and one can say that the conversation is gone
				next := pool.Turn{AgentID: "ada", Turn: continuing(previous, "and now")}
				if second, err = k.Turn(t.Context(), next, nil, new(lines)); err == nil &&
					second.Status == responses.StatusCompleted {
					break
				} else if err == nil {
					continue
				}
				if !state.IsCode(err, responses.CodePreviousNotFound) {
					t.Fatalf("the next turn is not begun: %v", err)
				}
				previous = ""
			}
			if err != nil || second.Status != responses.StatusCompleted {
				t.Errorf("the next turn is %s %+v, %v, want completed", second.Status, second.Failure, err)
			}
		})
	}
}

// oneUser makes containers in which agentd and its commands are one user.
func (l *lab) oneUser(o *pool.Options) {
	plain := o.Configure
	o.Configure = func(ctx context.Context, t pool.Turn) (runner.Config, io.Closer, error) {
		cfg, access, err := plain(ctx, t)
		cfg.User, cfg.Accept = &engine.User{UID: os.Geteuid(), GID: os.Getegid()}, []string{"user", "privilege_separation"}
		return cfg, access, err
	}
}

// What was stored of a conversation goes into the next container as it was seen. Where commands could write it, and
// what is there is not what was seen, the conversation begins anew and the operator is told.
func TestForgedResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge func(dir, response string) error
		aside bool
	}{
		"none": {func(string, string) error { return nil }, false},
		"a change": {func(dir, response string) error {
			path := filepath.Join(dir, response+".ndjson")
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(data, []byte("done"), []byte("none"), 1), 0o600))
		}, true},
		"another one": {func(dir, response string) error {
			return os.Link(filepath.Join(dir, response+".ndjson"), filepath.Join(dir, "resp_other.ndjson"))
		}, false},
		"a link": {func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.Symlink(dir+"-moved", dir))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", "turns:\n  - rounds: [{text: done}]\n  - rounds: [{text: after}]\n")
			l.agent("ada")
			told := 0
			k := l.pool(l.oneUser, func(o *pool.Options) { o.SetAside = func(string, string) { told++ } })
			next := turnOf("ada", responses.NewID(responses.PrefixTurn), "one")
			first, err := k.Turn(t.Context(), next, nil, new(lines))
			expect.NoError(t, err)
			expect.NoError(t, k.Stop(t.Context(), "ada"))
			stored := filepath.Join(l.home.AgentPrivateDir("ada"), "session/state/responses")
			expect.NoError(t, c.forge(stored, first.ResponseID))
			next.Turn = continuing(first.ResponseID, "one")
			second, err := k.Turn(t.Context(), next, nil, new(lines))
			if !c.aside {
				expect.NoError(t, err)
				expect.Equal(t, "what it said", second.Answer, "after")
				expect.Equal(t, "times that the operator was told", told, 0)
				return
			}
			if !state.IsCode(err, responses.CodePreviousNotFound) {
				t.Errorf("the next turn: %+v, %v, want %s", second, err, responses.CodePreviousNotFound)
			}
			expect.Equal(t, "times that the operator was told", told, 1)
		})
	}
}
