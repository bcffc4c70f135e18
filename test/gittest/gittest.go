// Package gittest makes git repositories and trees of files for tests, and tells what was written to them.
package gittest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"holon/test/expect"
	"holon/test/memory"
)

// Run executes a program in dir with an isolated git configuration.
func Run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v in %s: %v\n%s%s", args, dir, err, out, stderr.Bytes())
	}
	return string(out)
}

// Write creates files, and links where the content starts with "-> ".
func Write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		os.Remove(path)
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else if script := strings.HasPrefix(content, "#!"); script {
			err = os.WriteFile(path, []byte(content), 0o755)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		expect.NoError(t, err)
	}
}

func NewRepo(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "repo")
	FillRepo(t, dir, files)
	return dir
}

// FillRepo makes the repository dir, in place of what is there, as NewRepo does. Git makes a repository only once per
// test binary; the others are copies, so their commits have the same id.
func FillRepo(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	expect.NoError(t, os.RemoveAll(dir))
	key := fmt.Sprint(files) // in the order of the names
	if repo, ok := made.Load(key); ok {
		expect.NoError(t, os.CopyFS(dir, repo.(fstest.MapFS)))
		return
	}
	expect.NoError(t, os.Mkdir(dir, 0o755))
	Run(t, dir, "git", "init", "-q", "-b", "main")
	hooks := filepath.Join(dir, ".git/hooks") // samples
	expect.NoError(t, errors.Join(os.RemoveAll(hooks), os.Mkdir(hooks, 0o755)))
	if len(files) > 0 {
		Write(t, dir, files)
		Run(t, dir, "git", "add", "-A")
		Run(t, dir, "git", "commit", "-qm", "base")
	}
	repo := fstest.MapFS{}
	walk(t, dir, func(name string, info fs.FileInfo, content []byte) {
		repo[name] = &fstest.MapFile{Mode: info.Mode(), Data: content}
	})
	made.Store(key, repo)
}

// made holds each repository that git made, by its files.
var made sync.Map

// walk calls f with dir and everything below: a file with its content, a link with its target.
func walk(t testing.TB, dir string, f func(name string, info fs.FileInfo, content []byte)) {
	t.Helper()
	expect.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, infoErr := d.Info()
		var content []byte
		switch d.Type() {
		case 0:
			content, err = os.ReadFile(path)
		case fs.ModeSymlink:
			var target string
			target, err = os.Readlink(path)
			content = []byte(target)
		}
		name, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, infoErr, relErr); err == nil {
			f(name, info, content)
		}
		return err
	}))
}

// Isolate keeps the machine's git configuration out of all tests of a binary, whose TestMain calls it. What they make
// lies in memory where it can: on a disk, git waits at every commit for what no test needs to survive.
func Isolate() {
	memory.Use()
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
		"XDG_CONFIG_HOME": os.DevNull} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
}

// DiskDir is t.TempDir on a disk, for tests whose subject is what file systems can do.
func DiskDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "holon-test-")
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// Fingerprint lists every path of dir with type, mode, content and times, so
// that two equal ones mean that nothing was written. Times of git objects don't
// count: git renews them when it would write an object that it finds borrowed.
func Fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	objects := regexp.MustCompile(`/\.git/(modules/.*/)?objects/`)
	walk(t, dir, func(name string, info fs.FileInfo, content []byte) {
		path, sum, time := strings.TrimSuffix("/"+name, "/."), "", info.ModTime().UnixNano()
		if objects.MatchString(dir+path) && info.Mode().IsRegular() {
			time = 0
		}
		if !info.IsDir() {
			sum = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		fmt.Fprintf(&b, "%q %v %d %s\n", path, info.Mode(), time, sum)
	})
	return b.String()
}

// WantUntouched compares fingerprints and shows the lines that differ.
func WantUntouched(t testing.TB, before, after string) {
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

func AddWorktree(t testing.TB, repo string) string {
	linked := filepath.Join(filepath.Dir(repo), "linked")
	Run(t, repo, "git", "worktree", "add", "-q", "-b", "side", linked)
	return linked
}

// Contents maps every file of dir outside .git to its mode and content.
func Contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	walk(t, dir, func(name string, info fs.FileInfo, content []byte) {
		switch mode := info.Mode(); {
		case slices.Contains(strings.Split(name, "/"), ".git"):
		case mode.Type() == fs.ModeSymlink:
			found[name] = "-> " + string(content)
		case mode.IsRegular() && mode&0o100 != 0:
			found[name+"*"] = string(content)
		case mode.IsRegular():
			found[name] = string(content)
		}
	})
	return found
}
