package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// ignoring is a repository with ignored files of all kinds.
func ignoring(t *testing.T) string {
	t.Helper()
	dir := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n",
		".gitignore": "node_modules\n.env*\n*.o\nbuild/\n.venv\n"})
	gittest.Write(t, dir, map[string]string{
		"node_modules/one/index.js": "1", "node_modules/two/index.js": "22", "node_modules/two/.env": "k",
		"node_modules/two/.git/HEAD": "x", "sub/node_modules/three.js": "3", ".env": "KEY=1", ".env.local": "KEY=2",
		"sub/x.o": "o", "build/deep/out": "out", "build/deep/.env": "k", "build/other": "o",
	})
	expect.NoError(t, os.Chmod(filepath.Join(dir, "node_modules/one/index.js"), 0o750))
	expect.NoError(t, os.MkdirAll(filepath.Join(dir, ".venv/bin"), 0o700))
	expect.NoError(t, os.Symlink("/usr/bin/python3", filepath.Join(dir, ".venv/bin/python")))
	return dir
}

// What git ignores is listed and counted, and copied where a pattern fits it, but for secrets that it does not name.
func TestIgnored(t *testing.T) {
	t.Parallel()
	dir := ignoring(t)
	for patterns, want := range map[string]struct{ taken, leftOut string }{
		"":                   {"", "node_modules/ build/ .env .env.local .venv/ sub/node_modules/ sub/x.o"},
		"node_modules":       {"node_modules/ sub/node_modules/", "build/ .env .env.local .venv/ sub/x.o"},
		"/node_modules/,*.o": {"node_modules/ sub/x.o", "build/ .env .env.local .venv/ sub/node_modules/"},
		"*":                  {".venv/ build/ node_modules/ sub/node_modules/ sub/x.o", ".env .env.local"},
		".env,.venv":         {".env .venv/", "node_modules/ build/ .env.local sub/node_modules/ sub/x.o"},
		"build/deep":         {"build/deep/", "node_modules/ build/ .env .env.local .venv/ sub/node_modules/ sub/x.o"},
		"build/deep/.env,../a,build/none": {"build/deep/.env",
			"node_modules/ build/ .env .env.local .venv/ sub/node_modules/ sub/x.o"},
	} {
		options := Options{Dir: dir, Ignored: []string{}}
		if patterns != "" {
			options.Ignored = strings.Split(patterns, ",")
		}
		found := openSource(t, options).Info().Ignored
		expect.Equal(t, patterns+": taken", strings.Join(found.Taken, " "), want.taken)
		expect.Equal(t, patterns+": left out", strings.Join(found.LeftOut, " "), want.leftOut)
		expect.Equal(t, patterns+": counted whole", found.More, false)
	}
	if found := openSource(t, Options{Dir: dir}).Info().Ignored; found != nil {
		t.Errorf("ignored files were looked for: %v", found)
	}
	_, err := Open(t.Context(), Options{Dir: dir, CacheDir: t.TempDir(), Ignored: []string{"a[b"}})
	if e, ok := errors.AsType[*git.Error](err); !ok || e.Param != "--include-ignored" {
		t.Errorf("a bad pattern: %v", err)
	}
}

// Copies of ignored files are in the tree with their modes, links and times, and no change of them is in a diff: not
// even when the ignore rules are gone, and not when another process takes up the tree.
func TestTakeIgnored(t *testing.T) {
	t.Parallel()
	dir, cache := ignoring(t), filepath.Join(t.TempDir(), "cache")
	source := openSource(t, Options{Dir: dir, CacheDir: cache, IncludeDirty: true, Claim: "run",
		Ignored: []string{"/node_modules", ".venv", "sub/x.o"}})
	tree, err := source.Acquire(t.Context())
	expect.NoError(t, err)
	at := func(name string) string { return filepath.Join(tree.Dir(), name) }
	for name, there := range map[string]bool{"node_modules/two/index.js": true, "sub/x.o": true, ".venv/bin": true,
		"node_modules/two/.env": false, "node_modules/two/.git": false, ".env": false, "sub/node_modules": false,
		"build": false} {
		_, err := os.Lstat(at(name))
		expect.Equal(t, name, err == nil, there)
	}
	mine, err := os.Stat(filepath.Join(dir, "node_modules/one/index.js"))
	expect.NoError(t, err)
	copied, err := os.Stat(at("node_modules/one/index.js"))
	expect.NoError(t, err)
	expect.Equal(t, "mode", copied.Mode().Perm(), 0o755)
	expect.Equal(t, "time", copied.ModTime(), mine.ModTime())
	if os.SameFile(mine, copied) {
		t.Error("the file is the user's own")
	}
	link, err := os.Readlink(at(".venv/bin/python"))
	expect.NoError(t, err)
	expect.Equal(t, "link", link, "/usr/bin/python3")
	expect.Equal(t, "bytes", tree.Info().Ignored.Bytes, 4)

	gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "changed\n", "node_modules/one/index.js": "changed",
		"node_modules/new.js": "new"})
	expect.NoError(t, os.Remove(at(".gitignore")))
	expect.NoError(t, os.Remove(at("sub/x.o")))
	held := tree.Held()
	expect.NoError(t, tree.Leave())
	tree, err = Resume(t.Context(), Options{CacheDir: cache}, held)
	expect.NoError(t, err)
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "D .gitignore", "M a.txt")
	expect.NoError(t, tree.Release(t.Context()))
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/one/index.js"))
	expect.NoError(t, err)
	expect.Equal(t, "the user's file", string(text), "1")

	tree = acquire(t, Options{Dir: dir, CacheDir: cache, IncludeDirty: true, Ignored: []string{}})
	if _, err := os.Lstat(at("node_modules")); err == nil {
		t.Error("a tree has ignored files of another run")
	}
}

// More than the bound is refused, with the option that names less.
func TestTakeIgnoredBounds(t *testing.T) {
	t.Parallel()
	source := openSource(t, Options{Dir: ignoring(t), Ignored: []string{"node_modules"}, Limits: Limits{IgnoredBytes: 3}})
	_, err := source.Acquire(t.Context())
	e, ok := errors.AsType[*git.Error](err)
	if !ok || e.Code != git.CodeTooLarge || e.Param != "--include-ignored" || !strings.Contains(e.Message, "3 bytes") {
		t.Errorf("got %v", err)
	}
}
