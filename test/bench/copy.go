package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holon/runner/workspace"
	"holon/test/load"
)

// measureWorkingCopy is P15: a working copy for a turn and the diff of what the
// turn did, with all that comes before and after. The floor keeps one tree and
// resets it with git.
func measureWorkingCopy(ctx context.Context, r *rig) (rows []row) {
	sizes := []int{100, 5000}
	if !r.opts.quick {
		sizes = append(sizes, 50_000)
	}
	for _, files := range sizes {
		repo := r.newRepository(ctx, files)
		kept := repo.addTree(ctx)
		samples := min(max(1, 5000/files), r.samples(20, 3))
		got := compare(ctx, plan{rounds: r.opts.rounds, samples: samples, block: 1},
			subject{"recycled tree", func(ctx context.Context) []float64 {
				reset := timed(func() { recycle(ctx, kept) })
				repo.change(kept)
				return []float64{ms(reset + timed(func() { diff(ctx, kept) }))}
			}},
			subject{"working copy", func(ctx context.Context) []float64 {
				var tree *workspace.Tree
				opened := timed(func() { tree = load.Must(load.Must(workspace.Open(ctx, repo.workspace())).Acquire(ctx)) })
				err := load.Guard(func() { repo.change(tree.Dir()) })
				return []float64{ms(opened + timed(func() { repo.finish(ctx, tree, err) }))}
			}})
		rows = append(rows, versus("P15", fmt.Sprintf("copy ready, diffed, given back: %d files", files),
			"git reset, clean, add, diff", unitMS, got[1][0], got[0][0]).ratioGoal(1.3))
	}
	return rows
}

// repository is a git repository to make working copies of.
type repository struct {
	dir   string
	cache string // of package workspace
	files int
}

// newRepository makes a repository of small files, fifty in a directory, all of
// them committed.
func (r *rig) newRepository(ctx context.Context, files int) *repository {
	base := r.newDir()
	repo := &repository{dir: filepath.Join(base, "repo"), cache: filepath.Join(base, "cache"), files: files}
	for i := range files {
		path := filepath.Join(repo.dir, repo.file(i))
		if i%50 == 0 {
			load.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		}
		text := fmt.Sprintf("package e%d\n\n// Number is that of the file.\nconst Number%d = %d\n", i/50%50, i, i)
		load.Check(os.WriteFile(path, []byte(strings.Repeat(text, 4)), 0o644))
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "gc.auto", "0"}, {"add", "-A"},
		{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "files"},
	} {
		git(ctx, repo.dir, args...)
	}
	// Git has to read a file that is as young as its index to see whether it
	// changed. Real repositories are older.
	load.Check(load.Pause(ctx, 1100*time.Millisecond))
	git(ctx, repo.dir, "update-index", "-q", "--refresh")
	return repo
}

func (p *repository) file(i int) string {
	return fmt.Sprintf("d%d/e%d/file%d.go", i/2500, i/50%50, i)
}

// workspace is what `holon run` would ask for in the repository.
func (p *repository) workspace() workspace.Options {
	return workspace.Options{Dir: p.dir, IncludeDirty: true, CacheDir: p.cache,
		ContainerObjects: "/holon/objects"}
}

// change does to a copy what a small turn does: ten edits, two new files.
func (p *repository) change(tree string) {
	for k := range 10 {
		file := load.Must(os.OpenFile(filepath.Join(tree, p.file(k*(p.files/10))), os.O_APPEND|os.O_WRONLY, 0))
		_, err := file.WriteString("// changed\n")
		load.Check(errors.Join(err, file.Close()))
	}
	for _, name := range []string{"new1.txt", "d0/new2.txt"} {
		load.Check(os.WriteFile(filepath.Join(tree, name), []byte("new\n"), 0o644))
	}
}

const changes = 12 // what change makes

// finish diffs a tree and gives it back, which it does also after an error.
func (p *repository) finish(ctx context.Context, tree *workspace.Tree, err error) {
	if err == nil {
		var diff *workspace.Diff
		diff, err = tree.Diff(ctx, workspace.DiffOptions{Patch: filepath.Join(p.cache, "bench.patch")})
		if err == nil && len(diff.Files) != changes {
			err = fmt.Errorf("the diff has %d files instead of %d", len(diff.Files), changes)
		}
	}
	load.Check(errors.Join(err, tree.Release(context.WithoutCancel(ctx))))
}

// addTree makes a linked worktree that the floor can recycle.
func (p *repository) addTree(ctx context.Context) string {
	tree := filepath.Join(filepath.Dir(p.dir), "tree")
	git(ctx, p.dir, "worktree", "add", "-q", "--detach", tree, "HEAD")
	return tree
}

// recycle brings a tree of the floor back to the base.
func recycle(ctx context.Context, tree string) {
	git(ctx, tree, "reset", "-q", "--hard", "HEAD")
	git(ctx, tree, "clean", "-q", "-fdx")
}

func diff(ctx context.Context, tree string) {
	git(ctx, tree, "add", "-A")
	git(ctx, tree, "diff", "--cached", "--binary", "HEAD")
}

func git(ctx context.Context, dir string, args ...string) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		load.Failf("git %s: %w: %.500s", args[0], err, out)
	}
}
