package conversation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holon/responses/client"
	"holon/runner/workspace"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/test/expect"
	"holon/test/gittest"
)

// The change of a session goes to the operator's files once, also when more comes, and stays after the end.
func TestChange(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo, Name: "mine"})
	diff, err := x.Diff(t.Context())
	if err != nil || len(diff.Files) != 0 {
		t.Fatalf("before the first turn: %v", err)
	}
	l.turn(x)
	before := gittest.Contents(t, l.repo)
	diff, err = x.Diff(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "files", len(diff.Files), 2)
	expect.Equal(t, "the operator's", gittest.Contents(t, l.repo)["file.txt"], before["file.txt"])
	made, err := x.Checkout(t.Context(), Checkout{}, "ann")
	expect.NoError(t, err)
	expect.Contains(t, "branch", gittest.Run(t, l.repo, "git", "branch", "--list", made.Branch), "mine")
	for _, files := range []int{2, 0} {
		done, err := x.Apply(t.Context(), false, nil, "ann")
		expect.NoError(t, err)
		expect.Equal(t, "written", len(done.Written), files)
	}
	l.open() // the tree, and what it goes on from, is found again
	x, err = l.Find("ann", "mine")
	expect.NoError(t, err)
	l.turn(x)
	for range 2 {
		m, err := x.Close(t.Context(), "ann")
		expect.NoError(t, err)
		expect.Equal(t, "changed", len(m.Workspace.Changes.Files), 1)
		expect.Equal(t, "turn", m.Turn.ResponseID, x.Info().ResponseIDs[1])
	}
	_, err = x.Turn(t.Context(), "turn_late", "", "go on", l.post(x, "turn_late"))
	expect.Equal(t, "a turn", code(err), string(CodeClosed))
	expect.NoError(t, x.Do(t.Context(), func(ctx context.Context, agent *client.Client) error { // what was said stays
		_, err := agent.GetResponse(ctx, x.Info().ResponseIDs[1])
		return err
	}))
	done, err := x.Apply(t.Context(), false, nil, "ann")
	expect.NoError(t, err)
	expect.Equal(t, "applied", gittest.Contents(t, l.repo)["file.txt"], "agent\nmore\n")
	expect.Equal(t, "written", len(done.Written), 1)
}

// What is at fault in a request for a branch is named, whatever the tree's package calls it.
func TestRefusedCheckout(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo})
	l.turn(x)
	for branch, want := range map[string]string{"-x": "invalid_value", "a b": "invalid_value", "master": "branch_exists"} {
		gittest.Run(t, l.repo, "git", "branch", "-M", "master")
		_, err := x.Checkout(t.Context(), Checkout{Branch: branch}, "ann")
		e, _ := errors.AsType[*state.Error](err)
		if e == nil || string(e.Code) != want || e.Param != "branch" || e.Hint == "" {
			t.Errorf("%q: %v, want %s of branch", branch, err, want)
		}
	}
}

// No tree is made of files that any part of holon writes to, and no change is written while they are copied.
func TestFilesOfOneCaller(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	changed, fresh := l.start(Ask{Workspace: l.repo}), l.start(Ask{Workspace: l.repo})
	l.turn(changed)
	for write, do := range map[bool]func(context.Context) error{
		true: func(ctx context.Context) error {
			_, err := fresh.tree(ctx)
			return err
		},
		false: func(ctx context.Context) error {
			_, err := changed.Apply(ctx, false, nil, "ann")
			return err
		},
	} {
		unlock, err := workspace.LockFiles(t.Context(), l.home.CacheDir(), write, filepath.Join(l.repo, "."))
		expect.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with write %t: %v", write, err)
		}
		cancel()
		unlock()
		expect.NoError(t, do(t.Context()))
	}
}

// A session without a workspace has a tree of its own, which no directory gets.
func TestEmpty(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	gittest.Run(t, l.dir, "git", "init", "-q") // a repository around the home is not the session's
	x := l.start(Ask{})
	held, err := x.tree(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, "a"), []byte("a\n"), 0o600))
	_, err = x.Apply(t.Context(), false, nil, "ann")
	expect.Equal(t, "apply", code(err), string(CodeNothing))
	m, err := x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Equal(t, "files", len(m.Workspace.Changes.Files), 1)
	gone := func(x *Session) {
		t.Helper()
		if _, err := os.Lstat(x.dir(treeDir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the tree: %v", err)
		}
	}
	gone(x)
	lost := l.start(Ask{})
	_, err = lost.tree(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, lost.amend(func(r *record) error {
		r.Tree = nil // as before a process was killed that had made it
		return nil
	}))
	l.open()
	gone(lost)
	expect.Equal(t, "status", x.Info().Status, StatusClosed)
}

// Files that programs execute need consent.
func TestExecuted(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo})
	held, err := x.tree(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, ".envrc"), []byte("x\n"), 0o600))
	_, err = x.Apply(t.Context(), false, nil, "ann")
	expect.Equal(t, "apply", code(err), landing.CodeExecutedFiles)
	read, err := x.Diff(t.Context())
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, ".envrc"), []byte("y\n"), 0o600))
	_, err = x.Apply(t.Context(), true, []string{read.ResultTree}, "ann")
	expect.Equal(t, "apply of what was not read", code(err), landing.CodeDiffOutdated)
	read, err = x.Diff(t.Context())
	expect.NoError(t, err)
	_, err = x.Apply(t.Context(), true, []string{read.ResultTree}, "ann")
	expect.NoError(t, err)
}

// Trees outlive containers, and turns of a session are made at once.
func TestDocker(t *testing.T) {
	t.Parallel()
	l := newDockerLab(t, write)
	x := l.start(Ask{Workspace: l.repo})
	l.turn(x)
	_, err := x.Apply(t.Context(), false, nil, "ann")
	expect.NoError(t, err)
	expect.NoError(t, l.pool.Stop(t.Context(), x.id))
	expect.Equal(t, "activity", x.Info().Activity, "stopped")
	var both sync.WaitGroup
	for _, id := range []string{"turn_1", "turn_2"} {
		post := l.post(x, id)
		both.Go(func() {
			end, err := x.Turn(t.Context(), id, "", "go on", post)
			if err != nil || end.Response == nil {
				t.Errorf("%v, %+v", err, end.Failure)
			}
		})
	}
	both.Wait()
	m, err := x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Equal(t, "changed", len(m.Workspace.Changes.Files), 1)
	expect.Equal(t, "turns", x.Info().Usage.Turns, 3)
}
