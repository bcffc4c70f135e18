package check

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"holon/state"
)

var treeLaws = []law{
	{"an agent works in a tree that it does not have", `SELECT l.agent_id, l.data ->> '$.active_workspace.tree'
		FROM agent_states l LEFT JOIN trees t ON t.agent_id = l.agent_id AND t.status = 'active'
			AND t.name = l.data ->> '$.active_workspace.tree' AND t.data ->> '$.held' IS NOT NULL
			AND t.data ->> '$.workspace_id' = l.data ->> '$.active_workspace.workspace_id'
		WHERE l.data ->> '$.active_workspace' IS NOT NULL AND t.name IS NULL`},
	{"an agent works in a workspace that it has not attached", `SELECT l.agent_id FROM agent_states l
		WHERE l.data ->> '$.active_workspace' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM json_each(l.data, '$.workspaces') w
			WHERE w.value ->> '$.workspace_id' = l.data ->> '$.active_workspace.workspace_id')`},
	{"a tree is of no workspace", `SELECT t.agent_id, t.name FROM trees t
		LEFT JOIN workspaces w ON w.id = t.data ->> '$.workspace_id' WHERE w.id IS NULL`},
	{"a tree that was entered was not left", `SELECT agent_id, entered - left, working FROM (SELECT l.agent_id,
			(SELECT count(*) FROM events e WHERE e.agent_id = l.agent_id AND e.class = 'holon.worktree.entered') AS entered,
			(SELECT count(*) FROM events e WHERE e.agent_id = l.agent_id AND e.class = 'holon.worktree.exited') AS left,
			l.data ->> '$.active_workspace' IS NOT NULL AS working FROM agent_states l)
		WHERE entered - left <> working`},
	{"a child goes on whose task has ended", `SELECT c.id, t.id FROM agents c JOIN tasks t
			ON t.id = c.data ->> '$.delegated_from_task_id' AND t.agent_id = c.data ->> '$.parent_agent_id'
		WHERE t.open = 0 AND c.data ->> '$.archived_at' IS NULL`},
	{"a child has no task", `SELECT c.id FROM agents c LEFT JOIN tasks t ON t.id = c.data ->> '$.delegated_from_task_id'
		WHERE c.data ->> '$.ownership' = 'parent_supervised' AND t.id IS NULL`},
}

// Agents lists all agents, children included.
func (l *Ledger) Agents(ctx context.Context) (ids []string, err error) {
	return ids, l.each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM agents ORDER BY id`)
}

// kept is a tree, of which a patch can stay when it is removed.
type kept struct {
	agent, name, status, task string
}

func (k kept) id() string { return k.agent + "/" + k.name }

// stays reports whether the directory has to be there: that of a task stays with its change.
func (k kept) stays() bool { return k.status == "active" || k.status == "retained" && k.task != "" }

func (l *Ledger) trees(ctx context.Context) (all []kept, err error) {
	return all, l.each(ctx, func(rows *sql.Rows) error {
		var k kept
		err := rows.Scan(&k.agent, &k.name, &k.status, &k.task)
		all = append(all, k)
		return err
	}, `SELECT agent_id, name, status, task_id FROM trees ORDER BY agent_id, name`)
}

// Held checks that trees are where the ledger has them, and nowhere else, and that each has one claim in the cache.
func (l *Ledger) Held(ctx context.Context, home state.Home) error {
	trees, err := l.trees(ctx)
	agents, err2 := l.Agents(ctx)
	claimed, err3 := claims(home.CacheDir())
	if err = errors.Join(err, err2, err3); err != nil {
		return err
	}
	there := make(map[string]int)
	for _, agent := range agents {
		found, err := os.ReadDir(filepath.Join(home.AgentPrivateDir(agent), "workspaces"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range found {
			if e.Name() != "agent_home" {
				there[agent+"/"+e.Name()]++
			}
		}
	}
	var errs []error
	for _, k := range trees {
		if k.stays() && there[k.id()] == 0 {
			errs = append(errs, fmt.Errorf("the tree %s is %s and not there", k.id(), k.status))
		}
	}
	for id := range there {
		if !slices.ContainsFunc(trees, func(k kept) bool { return k.id() == id && k.status != "removed" }) {
			errs = append(errs, fmt.Errorf("the tree %s is there, and the ledger has none", id))
		}
	}
	if !maps.Equal(there, claimed) {
		errs = append(errs, fmt.Errorf("there are the trees %v, and these are claimed: %v", there, claimed))
	}
	return errors.Join(errs...)
}

// Patches are the directories with the changes of trees that were given up.
func (l *Ledger) Patches(ctx context.Context, home state.Home) (dirs []string, err error) {
	trees, err := l.trees(ctx)
	for _, k := range trees {
		if k.status != "active" {
			dirs = append(dirs, filepath.Join(home.AgentPrivateDir(k.agent), "changes", k.name))
		}
	}
	return dirs, err
}

// claims counts those of each tree on slots of a cache.
func claims(cache string) (map[string]int, error) {
	found := make(map[string]int)
	paths, err := filepath.Glob(filepath.Join(cache, "trees/*/*/claim"))
	for _, path := range paths {
		data, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		found[strings.TrimPrefix(string(data), "agent/")]++
	}
	return found, err
}

// written is a line that a command of an agent wrote, as it is in a file or in a patch.
var written = regexp.MustCompile(`(?m)^\+?(turn_\S+ \d+\.\d+)\r?$`)

// Kept checks that every line of those that commands wrote is in a file of one of the directories, or of a branch of a
// repository, and in none of them twice. A name that skip has is passed over.
func Kept(ctx context.Context, lines map[string]bool, repositories, directories []string, skip ...string) error {
	found := make(map[string]bool)
	for _, dir := range slices.Concat(repositories, directories) {
		here := make(map[string]string)
		err := walk(dir, func(path string, d fs.DirEntry) error {
			if path != dir && slices.Contains(skip, d.Name()) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if !d.Type().IsRegular() {
				return nil
			}
			data, err := os.ReadFile(path)
			for _, m := range written.FindAllSubmatch(data, -1) {
				line := string(m[1])
				if other, twice := here[line]; twice && err == nil {
					err = fmt.Errorf("%q is twice in %s: in %s and %s", line, dir, other, path)
				}
				here[line], found[line] = path, true
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	lost := missing(lines, found)
	for _, dir := range repositories {
		if len(lost) == 0 {
			return nil
		}
		if err := inBranches(ctx, dir, found); err != nil {
			return err
		}
		lost = missing(lines, found)
	}
	if len(lost) > 0 {
		return fmt.Errorf("what commands wrote is nowhere: %q", lost[:min(len(lost), 8)])
	}
	return nil
}

func missing(lines, found map[string]bool) (lost []string) {
	for line := range lines {
		if !found[line] {
			lost = append(lost, line)
		}
	}
	slices.Sort(lost)
	return lost
}

// inBranches adds the lines that the history of a repository has.
func inBranches(ctx context.Context, dir string, found map[string]bool) error {
	cmd := exec.CommandContext(ctx, "git", "log", "--all", "-p", "--format=")
	cmd.Dir = dir
	out, err := cmd.Output()
	for _, m := range written.FindAllSubmatch(out, -1) {
		found[string(bytes.TrimSpace(m[1]))] = true
	}
	return err
}
