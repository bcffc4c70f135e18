package trees

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// two has two workspaces with a change of the agent main in each.
func two(t *testing.T) (l *lab, dirs []string) {
	l = newLab(t)
	for _, name := range []string{"one", "two"} {
		dir := repo(t, name, map[string]string{"f": "1\n", "g": "1\n"})
		tree, _ := l.attach(dir)
		gittest.Write(t, tree, map[string]string{"f": "agent\n", "g": "agent\n", "new/h": "agent\n"})
		dirs = append(dirs, dir)
	}
	return l, dirs
}

// killApply calls Apply, which is cut off as by a kill, and starts anew.
func (l *lab) killApply() {
	l.Helper()
	func() {
		defer func() { _ = recover() }()
		_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
		l.Fatalf("it was not cut off: %v", err)
	}()
	l.Trees = New(l.opts)
	expect.NoError(l, l.Recover(l.ctx, ledger.Alone{}.Held))
}

// noneLeft fails where a workspace or the agent's own part has files of an apply.
func (l *lab) noneLeft(dirs []string) {
	l.Helper()
	for _, pattern := range []string{dirs[0] + "/.holon-*", dirs[1] + "/.holon-*",
		l.changesDir("main") + "/*/apply.json"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			l.Errorf("left: %v", found)
		}
	}
}

// An apply that is killed before all is written is undone in every workspace, and what the user changed since stays.
func TestApplyKilled(t *testing.T) {
	t.Parallel()
	for cutAt := range 3 {
		l, dirs := two(t)
		l.interrupt = func(landed int) {
			if landed == cutAt {
				panic("killed")
			}
		}
		l.killApply()
		for _, dir := range dirs {
			l.has(dir, "f", "1\n")
			l.has(dir, "new/h", "")
		}
		l.noneLeft(dirs)
		expect.Equal(t, "still to be applied", len(l.changed()), 6)
		_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
		expect.NoError(t, err)
		l.has(dirs[1], "new/h", "agent\n")
		l.noneLeft(dirs)
	}
	l, dirs := two(t)
	l.interrupt = func(landed int) {
		if landed == 1 {
			gittest.Write(t, dirs[0], map[string]string{"f": "mine\n"})
			panic("killed")
		}
	}
	l.killApply() // which logs what it cannot undo
	l.has(dirs[0], "f", "mine\n")
	l.has(dirs[0], "g", "1\n")
	_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	refused(t, "apply", err, "changed_meanwhile", "path")
	stages, _ := filepath.Glob(dirs[0] + "/.holon-*")
	expect.NoError(t, os.RemoveAll(stages[0]))
	gittest.Write(t, dirs[0], map[string]string{"f": "1\n"})
	_, err = l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	expect.NoError(t, err)
	l.noneLeft(dirs)
}

// counted counts what is said of applies, and fails the first after left.
type counted struct {
	*scheduler.Scheduler
	said *[]string
	left int
}

func (c counted) TreeChanged(ctx context.Context, change scheduler.TreeChange) error {
	if len(*c.said) == c.left {
		return errors.New("cut off")
	}
	*c.said = append(*c.said, change.Tree)
	return c.Scheduler.TreeChanged(ctx, change)
}

// An apply that is killed when all is written is finished at the next start: each copy goes on from it, which is said
// once.
func TestApplyKilledLate(t *testing.T) {
	t.Parallel()
	for left := range 2 {
		l, dirs := two(t)
		opts := l.opts
		var said []string
		l.Trees.opts.Steps = counted{l.steps, &said, left}
		opts.Steps = counted{l.steps, &said, 9}
		if _, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me"); err == nil {
			t.Fatal("it was not cut off")
		}
		l.Trees = New(opts)
		expect.NoError(t, l.Recover(l.ctx, ledger.Alone{}.Held))
		expect.Equal(t, "announcements", len(said), 2)
		expect.Equal(t, "changed after it", len(l.changed()), 0)
		for _, dir := range dirs {
			l.has(dir, "new/h", "agent\n")
		}
		l.noneLeft(dirs)
	}
}

// Where a file cannot be written, no workspace has anything of the change.
func TestApplyUnwritable(t *testing.T) {
	t.Parallel()
	l, dirs := two(t)
	l.interrupt = func(landed int) {
		if landed == 1 { // where a directory belongs
			expect.NoError(t, os.WriteFile(filepath.Join(dirs[1], "new"), nil, 0o600))
		}
	}
	_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	if err == nil {
		t.Fatal("applied")
	}
	for _, dir := range dirs {
		l.has(dir, "f", "1\n")
	}
	l.noneLeft(dirs)
}

// What cannot be taken is said and stays reported; a directory that is gone, or another in its place, is skipped among
// all and refused by its name, and what was changed in it can still be seen.
func TestApplyWithoutDirectory(t *testing.T) {
	t.Parallel()
	l, dirs := two(t)
	expect.NoError(t, unix.Mkfifo(filepath.Join(l.Dir("main"), "one", "pipe"), 0o600))
	expect.NoError(t, os.Rename(dirs[1], dirs[1]+".away"))
	for _, what := range []string{"gone", "another"} {
		if what == "another" {
			gittest.Run(t, filepath.Dir(dirs[1]), "cp", "-a", dirs[1]+".away", dirs[1])
		}
		all, err := l.Diff(l.ctx, "main", "")
		expect.NoError(t, err)
		expect.Equal(t, what+": skipped", [2]bool{all[0].Skipped != "", all[1].Skipped != ""}, [2]bool{false, true})
		its, err := l.Diff(l.ctx, "main", "two")
		expect.NoError(t, err)
		expect.Equal(t, what+": its changes", len(its[0].Changes.Files), 3)
		done, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
		expect.NoError(t, err)
		expect.Equal(t, what+": skipped by apply", done[len(done)-1].Skipped != "", true)
		expect.Equal(t, what+": left out", done[0].Warnings[0].Path, "pipe")
		l.has(dirs[0], "f", "agent\n")
		_, err = l.Apply(l.ctx, "main", view.WorkspaceApply{WorkspaceID: "two"}, "me")
		refused(t, what, err, map[string]state.Code{"gone": git.CodeNotADirectory, "another": git.CodeBrokenRepository}[what],
			"path")
	}
	l.has(dirs[1], "f", "1\n")
	expect.NoError(t, os.RemoveAll(dirs[1]))
	expect.NoError(t, os.Rename(dirs[1]+".away", dirs[1]))
	_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	expect.NoError(t, err)
	l.has(dirs[1], "f", "agent\n")
	again, err := l.Diff(l.ctx, "main", "one")
	expect.NoError(t, err)
	expect.Equal(t, "left out after the apply", again[0].Changes.Warnings[0].Path, "pipe")
}

// While an apply moves files, nobody copies them.
func TestApplyHasTheFilesAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tree, w := l.attach(repo(t, "app", map[string]string{"f": "f\n"}))
	gittest.Write(t, tree, map[string]string{"f": "changed\n"})
	taken := 0
	l.interrupt = func(int) {
		ctx, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
		defer cancel()
		if unlock, err := l.lockFiles(ctx, false, w.Anchor); err == nil {
			unlock()
			taken++
		}
	}
	_, err := l.Apply(l.ctx, "main", view.WorkspaceApply{}, "me")
	expect.NoError(t, err)
	expect.Equal(t, "times that the files could be taken", taken, 0)
	unlock, err := l.lockFiles(l.ctx, true, w.Anchor)
	expect.NoError(t, err)
	defer unlock()
	for what, do := range map[string]func(context.Context) error{
		"a copy": func(ctx context.Context) error {
			_, err := l.make(ctx, w, ledger.Tree{AgentID: "main", Name: "another", WorkspaceID: w.ID})
			return err
		},
		"a sync": func(ctx context.Context) error {
			_, err := l.syncFiles(ctx, opened{target: target{workspace: w}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
		defer cancel()
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s does not wait for the files: %v", what, err)
		}
	}
}
