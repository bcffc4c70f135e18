package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holon/test/gittest"
)

// BenchmarkAcquireDiff measures what a turn pays for its working tree on a
// recycled slot: acquire, a small change, diff, release. In the same run and on
// the same repository it measures the two ways to do it with git alone: the
// floor (reset and clean of a tree that stays, add and diff) and a linked
// worktree made and removed each time. Compare the metrics of one run.
func BenchmarkAcquireDiff(b *testing.B) {
	for _, files := range []int{100, 5000, 50000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			dir := b.TempDir()
			repo := filepath.Join(dir, "repo")
			makeRepo(b, repo, files)
			time.Sleep(1100 * time.Millisecond) // so that no index entry is racily clean
			gittest.Run(b, repo, "git", "status", "--porcelain")
			b.Run("holon", func(b *testing.B) { benchTree(b, repo, filepath.Join(dir, "cache"), files) })
			b.Run("recycle", func(b *testing.B) { benchRecycle(b, repo, filepath.Join(dir, "recycled"), files) })
			b.Run("worktree", func(b *testing.B) { benchWorktree(b, repo, filepath.Join(dir, "added"), files) })
		})
	}
}

// laps accumulates the time of named steps and reports them per round.
type laps map[string]time.Duration

func (l laps) time(name string, do func()) {
	started := time.Now()
	do()
	l[name] += time.Since(started)
}

func (l laps) report(b *testing.B) {
	for name, sum := range l {
		b.ReportMetric(float64(sum.Microseconds())/1000/float64(b.N), name+"-ms")
	}
}

// changeFiles edits ten files and adds two, as a small turn would.
func changeFiles(b *testing.B, dir string, files int) {
	for k := range 10 {
		i := k * (files / 10)
		path := filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d.go", i/2500, i/50%50+i/2500*50, i))
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := file.WriteString("changed\n"); err != nil {
			b.Fatal(err)
		}
		file.Close()
	}
	gittest.Write(b, dir, map[string]string{"new1.txt": "new\n", "d0/new2.txt": "new\n"})
}

func benchTree(b *testing.B, repo, cache string, files int) {
	ctx, spent := b.Context(), laps{}
	options := Options{Dir: repo, CacheDir: cache, Name: "bench", IncludeDirty: true}
	patch := filepath.Join(b.TempDir(), "patch")
	for round := -1; round < b.N; round++ { // the first fills the slot
		if round == 0 {
			b.ResetTimer()
			spent = laps{}
		}
		var source *Source
		var tree *Tree
		var diff *Diff
		var err error
		spent.time("open", func() { source, err = Open(ctx, options) })
		if err != nil {
			b.Fatal(err)
		}
		spent.time("acquire", func() { tree, err = source.Acquire(ctx) })
		if err != nil {
			b.Fatal(err)
		}
		changeFiles(b, tree.Dir(), files)
		spent.time("diff", func() { diff, err = tree.Diff(ctx, DiffOptions{Patch: patch}) })
		if err != nil || len(diff.Files) != 12 {
			b.Fatalf("%d changes, %v", len(diff.Files), err)
		}
		spent.time("release", func() { err = tree.Release(ctx) })
		if err != nil {
			b.Fatal(err)
		}
	}
	spent.report(b)
}

func benchRecycle(b *testing.B, repo, tree string, files int) {
	spent := laps{}
	gittest.Run(b, repo, "git", "worktree", "add", "-q", "--force", "--detach", tree, "HEAD")
	for round := -1; round < b.N; round++ {
		if round == 0 {
			b.ResetTimer()
			spent = laps{}
		}
		spent.time("acquire", func() {
			gittest.Run(b, tree, "git", "reset", "-q", "--hard", "HEAD")
			gittest.Run(b, tree, "git", "clean", "-q", "-fdx")
		})
		changeFiles(b, tree, files)
		spent.time("diff", func() {
			gittest.Run(b, tree, "git", "add", "-A")
			gittest.Run(b, tree, "git", "diff", "--cached", "--binary", "HEAD")
		})
	}
	spent.report(b)
	gittest.Run(b, repo, "git", "worktree", "remove", "--force", tree)
}

func benchWorktree(b *testing.B, repo, tree string, files int) {
	spent := laps{}
	for range b.N {
		spent.time("acquire", func() { gittest.Run(b, repo, "git", "worktree", "add", "-q", "--detach", tree, "HEAD") })
		changeFiles(b, tree, files)
		spent.time("diff", func() {
			gittest.Run(b, tree, "git", "add", "-A")
			gittest.Run(b, tree, "git", "diff", "--cached", "--binary", "HEAD")
		})
		spent.time("release", func() { gittest.Run(b, repo, "git", "worktree", "remove", "--force", tree) })
	}
	spent.report(b)
}

// BenchmarkTurnsInARow shows whether turns get slower: run it with -benchtime
// 200x and read the ratio of the median of the last twenty to the first twenty.
func BenchmarkTurnsInARow(b *testing.B) {
	dir := b.TempDir()
	repo := filepath.Join(dir, "repo")
	makeRepo(b, repo, 5000)
	options := Options{Dir: repo, CacheDir: filepath.Join(dir, "cache"), Name: "bench"}
	patch := filepath.Join(dir, "patch")
	var rounds []time.Duration
	for round := -1; round < b.N; round++ {
		started := time.Now()
		source, err := Open(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		tree, err := source.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		before := time.Since(started)
		changeFiles(b, tree.Dir(), 5000)
		gittest.Run(b, tree.Dir(), "sh",
			"-c", "mkdir build; for i in 1 2 3 4 5 6 7 8 9; do echo $i > build/$i; done; git "+
				"add -A; git commit -qm turn")
		started = time.Now()
		if _, err := tree.Diff(b.Context(), DiffOptions{Patch: patch}); err != nil {
			b.Fatal(err)
		}
		if err := tree.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
		if round >= 0 {
			rounds = append(rounds, before+time.Since(started))
		}
	}
	if some := min(20, len(rounds)); some > 0 {
		first, last := slices.Sorted(slices.Values(rounds[:some])),
			slices.Sorted(slices.Values(rounds[len(rounds)-some:]))
		b.ReportMetric(float64(last[some/2])/float64(first[some/2]), "last/first")
		b.ReportMetric(float64(last[some/2].Microseconds())/1000, "last-ms")
	}
}
