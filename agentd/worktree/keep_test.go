package worktree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/test/expect"
)

// A start removes what a crash left, after its change was kept, and not the trees of a process that runs.
func TestRecover(t *testing.T) {
	root := t.TempDir()
	run(t, root, origin)
	held := made(t, root, root, responses.IsolationCopy)
	for _, id := range []string{"turn_foreign", "turn_left", "turn_partial"} {
		tree, err := Make(t.Context(), Options{Root: root, Origin: root, SessionID: id + "_s", TurnID: id, Kind: responses.IsolationCopy})
		expect.NoError(t, err)
		run(t, tree.WorkDir(), "echo x > new; chmod 0 d")
		tree.close() // as a kill does
	}
	run(t, root, "mv .agentd-turns/turn_partial_s/base .agentd-turns/turn_partial_s/new")
	var kept []string
	err := Recover(root, func(id string, tree *Tree) bool {
		if id == "turn_foreign" {
			return false
		}
		text, _ := patch(t, tree)
		kept = append(kept, id+" "+fmt.Sprint(strings.Count(text, "diff --git")))
		return true
	})
	expect.NoError(t, err)
	if diff := cmp.Diff([]string{"turn_left 1"}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	expect.Equal(t, "left are", run(t, root, "ls .agentd-turns"), "sess_1\nturn_foreign_s\n")
	if got := content(t, held.WorkDir()); len(got) == 0 {
		t.Error("the tree of a running process is empty")
	}
	run(t, root, "chmod -R u+rwx .agentd-turns/turn_foreign_s; rm -rf .agentd-turns/turn_foreign_s")
}

// A link in the place of our directories is removed, not followed.
func TestPlantedLinks(t *testing.T) {
	for _, planted := range []string{".agentd-turns", ".agentd-turns/sess_1"} {
		root, outside := t.TempDir(), t.TempDir()
		run(t, root, "mkdir -p .agentd-turns; rm -rf "+planted+"; ln -s "+outside+" "+planted+"; echo x > f")
		tree := made(t, root, root, responses.IsolationCopy)
		if got := content(t, tree.WorkDir()); got["f"] != "100644 x\n" {
			t.Errorf("%s: the tree has %v, want f", planted, got)
		}
		expect.Equal(t, fmt.Sprintf("%s: outside are", planted), run(t, outside, "ls -A"), "")
	}
}

// The turns of a session have the same path one after the other, and not at the same time.
func TestPathOfASession(t *testing.T) {
	root := t.TempDir()
	wantPath := func(turn, want string) *Tree {
		t.Helper()
		tree, err := Make(t.Context(), Options{Root: root, Origin: root, SessionID: "sess_1", TurnID: turn,
			Kind: responses.IsolationCopy})
		expect.NoError(t, err)
		expect.Equal(t, turn+": works in", strings.TrimPrefix(tree.WorkDir(), root), want)
		return tree
	}
	running := wantPath("turn_1", "/.agentd-turns/sess_1/tree")
	waiting := wantPath("turn_2", "/.agentd-turns/turn_2/tree")
	expect.NoError(t, errors.Join(running.Remove(), waiting.Remove()))
	expect.NoError(t, wantPath("turn_3", "/.agentd-turns/sess_1/tree").Remove())
}

// A tree waits for the turn that continues the response, also over a restart, and no longer than for sixteen others.
func TestKeep(t *testing.T) {
	for _, kind := range []string{responses.IsolationCopy, responses.IsolationWorktree} {
		t.Run(kind, func(t *testing.T) {
			root := t.TempDir()
			run(t, root, "git init -q -b main; echo 1 > f; git add f; git commit -qm 1")
			turn := func(session, continues, want, script string) *Tree {
				t.Helper()
				tree, err := Make(t.Context(), Options{Root: root, Origin: root, SessionID: session, TurnID: "turn", Kind: kind,
					Continues: continues})
				expect.NoError(t, err)
				if got := run(t, tree.WorkDir(), "cat f"); got != want {
					t.Errorf("the turn that continues %q finds %q, want %q", continues, got, want)
				}
				run(t, tree.WorkDir(), script)
				return tree
			}
			done := func(err error) {
				t.Helper()
				expect.NoError(t, err)
			}
			done(turn("s", "", "1\n", "echo 2 > f; git checkout -qb side; git commit -qam 2").Keep("resp_1"))
			done(Recover(root, func(string, *Tree) bool { t.Error("a kept tree is taken for that of a turn"); return true }))
			done(turn("s", "resp_1", "2\n", "true").Release()) // as if it had been cancelled before it ran
			tree := turn("s", "resp_1", "2\n", "echo 3 > f")
			if text, _ := patch(t, tree); !strings.Contains(text, "-2\n+3\n") {
				t.Errorf("the patch is\n%s\nwant what the second turn changed", text)
			}
			done(tree.Keep("resp_2"))
			done(turn("s", "resp_1", "1\n", "echo 4 > f").Keep("resp_fork")) // which another turn has gone on with
			done(turn("s", "resp_2", "3\n", "echo 5 > f").Keep("resp_4"))    // the branch before the fork
			done(turn("s", "resp_fork", "4\n", "rm -rf ../tree").Keep("resp_3"))
			done(turn("s", "resp_4", "5\n", "true").Keep("resp_4"))
			done(turn("s", "resp_3", "1\n", "true").Keep("resp_3")) // for one without its tree
			for i := range maxKept {
				done(turn("s", "", "1\n", "true").Keep(fmt.Sprint("other", i)))
			}
			done(turn("s", "resp_3", "1\n", "true").Remove()) // a new one
			if got := run(t, root, "ls -A .agentd-turns | wc -l; ls .agentd-turns"); got != fmt.Sprintln(maxKept) {
				t.Errorf("there are %q trees, want %d that are kept", got, maxKept)
			}
			done(turn("s", "other0", "1\n", "true").Remove())
		})
	}
}
