package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// Each law of trees and children is broken once, and found.
func TestTreeLawsAreFound(t *testing.T) {
	t.Parallel()
	const child = `INSERT INTO agents (id, archived, data) VALUES ('a.b', 0, json('{"ownership":"parent_supervised",` +
		`"parent_agent_id":"a","delegated_from_task_id":"task_1"}'))`
	const active = `UPDATE agent_states SET data = json_set(data, '$.active_workspace',
		json('{"workspace_id":"ws_1","tree":"app"}'))`
	const tree = `INSERT INTO trees (agent_id, name, status, task_id, data) VALUES ('a', 'app', 'active', '', '{}')`
	findPlanted(t, func(l *Ledger) error { return l.Lawful(t.Context()) }, []planted{
		{active, "an agent works in a tree that it does not have"},
		{active, "an agent works in a workspace that it has not attached"},
		{active, "a tree that was entered was not left"},
		{tree, "a tree is of no workspace"},
		{child, "a child has no task"},
		{child + `; INSERT INTO tasks (agent_id, id, created_at, open, data) VALUES ('a', 'task_1', 0, 0, '{}')`,
			"a child goes on whose task has ended"},
	})
	findPlanted(t, func(l *Ledger) error { return l.Quiet(t.Context()) }, []planted{{tree, "a tree is being made"}})
}

// A tree that only the ledger, the disk or the cache has is found.
func TestHeld(t *testing.T) {
	t.Parallel()
	home, err := state.MakeHome(t.TempDir(), "")
	expect.NoError(t, err)
	const tree = `INSERT INTO trees (agent_id, name, status, task_id, data) VALUES ('a', 'app', 'active', '', '{}')`
	findPlanted(t, func(l *Ledger) error { return l.Held(t.Context(), home) }, []planted{
		{tree, "the tree a/app is active and not there"}})
	write(t, filepath.Join(home.AgentPrivateDir("a"), "workspaces/app/file"), "")
	findPlanted(t, func(l *Ledger) error { return l.Held(t.Context(), home) }, []planted{
		{tree, "and these are claimed: map[]"}, {`UPDATE agents SET archived = 0`, "the ledger has none"}})
	write(t, filepath.Join(home.CacheDir(), "trees/x/0/claim"), "agent/a/app")
	findPlanted(t, func(l *Ledger) error { return l.Held(t.Context(), home) }, []planted{{tree, ""}})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// A line that is lost, or twice in one place, is found; one in a patch or a branch is there.
func TestKept(t *testing.T) {
	t.Parallel()
	dir, repo := t.TempDir(), t.TempDir()
	write(t, filepath.Join(repo, "f"), "turn_a 1.1\n")
	for _, args := range []string{"init -q", "add .", "-c user.name=u -c user.email=u@localhost commit -qm x", "rm -q f"} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	write(t, filepath.Join(dir, "x/change.patch"), "+turn_b 1.1\n")
	kept := func(lines ...string) error {
		all := map[string]bool{}
		for _, line := range lines {
			all[line] = true
		}
		return Kept(t.Context(), all, []string{repo}, []string{dir}, ".git")
	}
	expect.NoError(t, kept("turn_a 1.1", "turn_b 1.1"))
	if err := kept("turn_c 1.1"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a lost line: %v", err)
	}
	write(t, filepath.Join(dir, "y"), "turn_b 1.1\n")
	if err := kept("turn_b 1.1"); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a line that is there twice: %v", err)
	}
}
