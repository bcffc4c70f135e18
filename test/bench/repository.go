package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holon/runner/workspace"
)

// repository is a git repository to make working copies of.
type repository struct {
	rig   *rig
	dir   string
	cache string // of package workspace
	files int
}

// newRepository makes a repository of small files, fifty in a directory, all of
// them committed.
func (r *rig) newRepository(ctx context.Context, files int) (*repository, error) {
	base, err := r.newDir()
	if err != nil {
		return nil, err
	}
	repo := &repository{rig: r, dir: filepath.Join(base, "repo"), cache: filepath.Join(base, "cache"), files: files}
	for i := range files {
		if err := repo.writeFile(i); err != nil {
			return nil, fmt.Errorf("make a repository: %w", err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "gc.auto", "0"}, {"add", "-A"},
		{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "files"},
	} {
		if err := git(ctx, repo.dir, args...); err != nil {
			return nil, err
		}
	}
	// Git has to read a file that is as young as its index to see whether it
	// changed. Real repositories are older.
	if err := pause(ctx, 1100*time.Millisecond); err != nil {
		return nil, err
	}
	return repo, git(ctx, repo.dir, "update-index", "-q", "--refresh")
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// file is the path of file i below the top.
func (p *repository) file(i int) string {
	return fmt.Sprintf("d%d/e%d/file%d.go", i/2500, i/50%50, i)
}

func (p *repository) writeFile(i int) error {
	path := filepath.Join(p.dir, p.file(i))
	if i%50 == 0 {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("package e%d\n\n// Number is that of the file.\nconst Number%d = %d\n", i/50%50, i, i)
	return os.WriteFile(path, []byte(strings.Repeat(text, 4)), 0o644)
}

// workspace is what `holon run` would ask for in the repository.
func (p *repository) workspace() workspace.Options {
	return workspace.Options{Dir: p.dir, IncludeDirty: true, CacheDir: p.cache, Name: "bench",
		ContainerObjects: "/holon/objects"}
}

// change does to a copy what a small turn does: ten edits, two new files.
func (p *repository) change(tree string) error {
	for k := range 10 {
		file, err := os.OpenFile(filepath.Join(tree, p.file(k*(p.files/10))), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = file.WriteString("// changed\n")
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"new1.txt", "d0/new2.txt"} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte("new\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const changes = 12 // what change makes

// addTree makes a linked worktree that the floor can recycle.
func (p *repository) addTree(ctx context.Context) (string, error) {
	p.rig.next++
	tree := filepath.Join(filepath.Dir(p.dir), fmt.Sprint("tree", p.rig.next))
	return tree, git(ctx, p.dir, "worktree", "add", "-q", "--detach", tree, "HEAD")
}

func (p *repository) removeTree(ctx context.Context, tree string) error {
	return git(ctx, p.dir, "worktree", "remove", "--force", tree)
}

// recycle brings a tree of the floor back to the base.
func recycle(ctx context.Context, tree string) error {
	if err := git(ctx, tree, "reset", "-q", "--hard", "HEAD"); err != nil {
		return err
	}
	return git(ctx, tree, "clean", "-q", "-fdx")
}

// diff is git's own way to say what changed.
func diff(ctx context.Context, tree string) error {
	if err := git(ctx, tree, "add", "-A"); err != nil {
		return err
	}
	return git(ctx, tree, "diff", "--cached", "--binary", "HEAD")
}

// git runs git in dir. Its output is read and dropped.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %.500s", args[0], err, out.Bytes())
	}
	return nil
}
