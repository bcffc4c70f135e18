package landing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holon/internal/folder"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// killedApply stages an apply and carries out the first steps of it, as one that is killed then. It returns the number
// of all steps.
func killedApply(t *testing.T, o ApplyOptions, steps int) (all int) {
	t.Helper()
	ctx := t.Context()
	unlock, err := lockRun(ctx, o.RunDir)
	expect.NoError(t, err)
	defer unlock()
	scratch, err := os.MkdirTemp(o.RunDir, scratchPrefix)
	expect.NoError(t, err)
	m, err := newMerge(ctx, o.Dir, scratch, o)
	expect.NoError(t, err)
	expect.NoError(t, m.readPatch(ctx, o.Patch))
	root, err := folder.Open(m.top)
	expect.NoError(t, err)
	defer root.Close()
	expect.NoError(t, m.look(root))
	expect.NoError(t, m.fillIndex(ctx))
	before, err := m.entries(ctx, m.index)
	expect.NoError(t, err)
	expect.NoError(t, m.mergeIndex(ctx))
	after, err := m.entries(ctx, m.index)
	expect.NoError(t, err)
	result, err := m.compare(before, after)
	expect.NoError(t, err)
	_, r, err := m.stage(ctx, root, result)
	expect.NoError(t, err)
	defer r.close()
	list := r.steps(m, result)
	for _, step := range list[:min(steps, len(list))] {
		expect.NoError(t, step())
	}
	return len(list)
}

// undoAll undoes what was killed below a directory of runs, once.
func undoAll(t *testing.T, runs string, dryRun bool) killed {
	t.Helper()
	killed, err := UndoKilled(t.Context(), []string{filepath.Join(runs, "*")}, dryRun)
	expect.NoError(t, err)
	if len(killed) != 1 {
		t.Fatalf("%d were killed, want 1: %+v", len(killed), killed)
	}
	return killed[0]
}

// filesOf is the fingerprint of a tree without the times of directories, which change with what is in them.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)^(".*" d[-rwx]{9}) \d+ $`).ReplaceAllString(gittest.Fingerprint(t, dir), "$1")
}

// leftIn lists what temporary names are left in the tree and the run's directory.
func leftIn(t *testing.T, dirs ...string) (left []string) {
	t.Helper()
	for _, dir := range dirs {
		for _, pattern := range []string{".holon-apply-*", ".apply-*", ".checkout-*", ApplyFile} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			expect.NoError(t, err)
			left = append(left, found...)
		}
	}
	return left
}

// An apply that is killed after any of its steps is undone: the files are as before it, and it can be done again.
func TestUserApplyKilled(t *testing.T) {
	t.Parallel()
	base := map[string]string{"a.txt": "1\n2\n", "d/e/deep": "x\n", "d/f": "f\n", "gone": "g\n", "l": "-> a.txt",
		"becomes/file": "x\n", "becomesdir": "y\n", "script": "#!/bin/sh\n"}
	const change = "echo 3 >>a.txt; rm -r d; rm gone; ln -sfn script l; rm -r becomes; echo f >becomes; " +
		"rm becomesdir; mkdir becomesdir; echo z >becomesdir/z; mkdir -p n/m; echo n >n/m/n; chmod -x script"
	repo := gittest.NewRepo(t, base)
	gittest.Run(t, repo, "chmod", "711", "d/e")
	patch, objects := patchFor(t, workspace.Options{Dir: repo}, change)
	want := filesOf(t, repo)
	runs := t.TempDir()
	o := ApplyOptions{Dir: repo, Patch: patch, Objects: objects, RunDir: filepath.Join(runs, "run_1")}
	expect.NoError(t, os.Mkdir(o.RunDir, 0o700))
	for steps, all := 0, 1; steps <= all; steps++ {
		all = killedApply(t, o, steps)
		middle := filesOf(t, repo)
		undoAll(t, runs, true)
		gittest.WantUntouched(t, middle, filesOf(t, repo))
		k := undoAll(t, runs, false)
		expect.NoError(t, k.Err)
		expect.Equal(t, "run", filepath.Base(k.Dir), "run_1")
		gittest.WantUntouched(t, want, filesOf(t, repo))
		if left := leftIn(t, repo, o.RunDir); len(left) > 0 {
			t.Fatalf("after step %d of %d: left %v", steps, all, left)
		}
	}
	_, err := Apply(t.Context(), o)
	expect.NoError(t, err)
	if left := leftIn(t, repo, o.RunDir); len(left) > 0 {
		t.Fatalf("an apply left %v", left)
	}
	expect.Equal(t, "a.txt", gittest.Contents(t, repo)["a.txt"], "1\n2\n3\n")
}

// What the user wrote after an apply was killed stays, and so does the former content; all else is undone.
func TestUserApplyKilledAndEdited(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "1\n", "b.txt": "1\n", "c.txt": "1\n"})
	patch, objects := patchFor(t, workspace.Options{Dir: repo},
		"echo 2 >>a.txt; echo 2 >>b.txt; rm c.txt; echo n >new")
	runs := t.TempDir()
	o := ApplyOptions{Dir: repo, Patch: patch, Objects: objects, RunDir: filepath.Join(runs, "run_1")}
	expect.NoError(t, os.Mkdir(o.RunDir, 0o700))
	killedApply(t, o, 100)
	gittest.Write(t, repo, map[string]string{"a.txt": "mine\n", "new": "mine\n"})
	k := undoAll(t, runs, false)
	wantCode(t, k.Err, codeChangedMeanwhile)
	for name, content := range map[string]string{"a.txt": "mine\n", "b.txt": "1\n", "c.txt": "1\n", "new": "mine\n"} {
		expect.Equal(t, name, gittest.Contents(t, repo)[name], content)
	}
	former, _ := filepath.Glob(filepath.Join(k.What, "old", "*")) // the pattern is right
	if len(former) != 1 {
		t.Fatalf("the stage has %v, want the former a.txt", former)
	}
	text, err := os.ReadFile(former[0])
	expect.NoError(t, err)
	expect.Equal(t, "the former a.txt", string(text), "1\n")
	gittest.Run(t, repo, "rm", "a.txt") // then it can be moved back
	expect.NoError(t, undoAll(t, runs, false).Err)
	expect.Equal(t, "a.txt", gittest.Contents(t, repo)["a.txt"], "1\n")
}

// An apply that goes on is left alone, and so is a directory of the repository with the name of a stage.
func TestUserApplyNotKilled(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "1\n", ".holon-apply-1/old/0": "x\n",
		".holon-apply-1/apply.json": `{"aside":["LmdpdC9ob29rcy9wcmUtY29tbWl0"]}`})
	patch, objects := patchFor(t, workspace.Options{Dir: repo}, "echo 2 >>a.txt")
	runs := t.TempDir()
	o := ApplyOptions{Dir: repo, Patch: patch, Objects: objects, RunDir: filepath.Join(runs, "run_1")}
	expect.NoError(t, os.Mkdir(o.RunDir, 0o700))
	killedApply(t, o, 1)
	before := gittest.Fingerprint(t, repo)
	unlock, err := lockRun(context.Background(), o.RunDir) // of the apply that goes on
	expect.NoError(t, err)
	killed, err := UndoKilled(t.Context(), []string{filepath.Join(runs, "*")}, false)
	unlock()
	if err != nil || len(killed) > 0 {
		t.Fatalf("%+v, %v", killed, err)
	}
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
	expect.NoError(t, undoAll(t, runs, false).Err)
	expect.Equal(t, "a file like a former one", gittest.Contents(t, repo)[".holon-apply-1/old/0"], "x\n")
	if git.Exists(filepath.Join(repo, ".git", "hooks", "pre-commit")) {
		t.Fatal("a file of the repository was taken for a journal")
	}
}

// A journal of another form undoes nothing.
func TestJournalRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `{}`, `{"top":"rel","stage":".holon-apply-1"}`, `{"top":"/tmp","stage":"x"}`,
		`{"top":"/tmp","stage":".holon-apply-1/../../x"}`} {
		runs := t.TempDir()
		gittest.Write(t, runs, map[string]string{"run_1/" + ApplyFile: text})
		k := undoAll(t, runs, false)
		if k.Err == nil || !strings.Contains(k.Err.Error(), ApplyFile) || errors.Is(k.Err, os.ErrNotExist) {
			t.Errorf("%s: %v", text, fmt.Sprint(k.Err))
		}
	}
}

// The journal stays as long as the stage cannot be removed, so that the next attempt removes both.
func TestJournalOutlivesStage(t *testing.T) {
	t.Parallel()
	runs, parent := t.TempDir(), t.TempDir()
	top, away := filepath.Join(parent, "top"), filepath.Join(parent, "away")
	gittest.Write(t, parent, map[string]string{"away/.holon-apply-1/new/a": "a\n", "top": "no directory\n"})
	gittest.Write(t, runs, map[string]string{"run_1/" + ApplyFile: fmt.Sprintf(`{"top":%q,"stage":".holon-apply-1"}`, top)})
	if k := undoAll(t, runs, false); k.Err == nil {
		t.Fatal("a stage that could not be removed is no error")
	}
	expect.NoError(t, os.Remove(top))
	expect.NoError(t, os.Rename(away, top))
	expect.NoError(t, undoAll(t, runs, false).Err)
	if left := leftIn(t, top, filepath.Join(runs, "run_1")); len(left) > 0 {
		t.Fatalf("left %v", left)
	}
}
