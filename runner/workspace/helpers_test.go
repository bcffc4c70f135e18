package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run executes a program in dir with an isolated git configuration.
func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v in %s: %v\n%s%s", args, dir, err, out, stderr.Bytes())
	}
	return string(out)
}

// write creates files, and links where the content starts with "-> ".
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else if script := strings.HasPrefix(content, "#!"); script {
			err = os.WriteFile(path, []byte(content), 0o755)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// newRepo makes a repository with one commit of the files.
func newRepo(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "git", "init", "-q", "-b", "main")
	if len(files) > 0 {
		write(t, dir, files)
		run(t, dir, "git", "add", "-A")
		run(t, dir, "git", "commit", "-qm", "base")
	}
	return dir
}

// isolate keeps the machine's git configuration out of a test.
func isolate(t testing.TB) {
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "xdg"))
}

func openSource(t testing.TB, options Options) *Source {
	t.Helper()
	if options.CacheDir == "" {
		options.CacheDir = filepath.Join(t.TempDir(), "cache")
	}
	options.Name = "run-test"
	source, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// acquire opens and acquires; the tree is released at the end of the test.
func acquire(t testing.TB, options Options) *Tree {
	t.Helper()
	return acquireFrom(t, openSource(t, options))
}

func acquireFrom(t testing.TB, source *Source) *Tree {
	t.Helper()
	tree, err := source.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Release(context.Background()); err != nil { // the test's context is over by now
			t.Error(err)
		}
	})
	return tree
}

// diffOf returns the diff and the patch's text.
func diffOf(t testing.TB, tree *Tree) (*Diff, string) {
	t.Helper()
	diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "diff.patch")})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := os.ReadFile(diff.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(patch)) != diff.PatchBytes {
		t.Fatalf("the patch has %d bytes, the diff says %d", len(patch), diff.PatchBytes)
	}
	return diff, string(patch)
}

// changes renders a diff's files as "A path", "R from -> path", ….
func changes(diff *Diff) []string {
	list := []string{}
	for _, f := range diff.Files {
		line := strings.ToUpper(f.Status[:1]) + " "
		if f.From != "" {
			line += f.From + " -> "
		}
		list = append(list, line+f.Path)
	}
	return list
}

func wantChanges(t testing.TB, diff *Diff, want ...string) {
	t.Helper()
	if got := changes(diff); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("changes = %q, want %q (warnings %+v)", got, want, diff.Warnings)
	}
}

func wantWarning(t testing.TB, diff *Diff, code, path string) {
	t.Helper()
	if !slices.ContainsFunc(diff.Warnings, func(w Warning) bool { return w.Code == code && w.Path == path }) {
		t.Fatalf("warnings = %+v, want %s for %q", diff.Warnings, code, path)
	}
}

// fingerprint lists every path of dir with type, mode, content and times, so
// that two equal ones mean that nothing was written. Times of git objects don't
// count: git renews them when it would write an object that it finds borrowed.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		time := info.ModTime().UnixNano()
		if strings.Contains(path, "/.git/objects/") && info.Mode().IsRegular() {
			time = 0
		}
		fmt.Fprintf(&b, "%q %v %d ", strings.TrimPrefix(path, dir), info.Mode(), time)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			b.WriteString(hex.EncodeToString(sum[:]))
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			b.WriteString(target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wantUntouched compares fingerprints and shows the lines that differ.
func wantUntouched(t testing.TB, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	old, found := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range old {
		if !slices.Contains(found, line) {
			t.Errorf("was: %s", line)
		}
	}
	for _, line := range found {
		if !slices.Contains(old, line) {
			t.Errorf("now: %s", line)
		}
	}
}

func addWorktree(t testing.TB, repo string) string {
	linked := filepath.Join(filepath.Dir(repo), "linked")
	run(t, repo, "git", "worktree", "add", "-q", "-b", "side", linked)
	return linked
}
