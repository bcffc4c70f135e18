package landing

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// structural are the keys that git would refuse with a command for a value: they say where and what a repository is, or
// are values that git gets to know. A key that is not here is planted, so that one of a later git is too.
func structural(key string) bool {
	key = strings.ToLower(key)
	return strings.HasPrefix(key, "extensions.") || strings.HasPrefix(key, "include") || slices.Contains([]string{
		"core.autocrlf", "core.bare", "core.checkroundtripencoding", "core.checkstat", "core.eol", "core.filemode",
		"core.ignorecase", "core.precomposeunicode", "core.repositoryformatversion", "core.sharedrepository",
		"core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks", "core.trustctime", "core.worktree"}, key)
}

// planted is a configuration file in which every key that git knows, and each
// driver that attributes may name, is a command that makes a file in markers.
func planted(t testing.TB, markers string) string {
	t.Helper()
	var b strings.Builder
	keys := strings.Fields(gittest.Run(t, "", "git", "help", "--config"))
	if len(keys) < 300 {
		t.Fatalf("git names only %d keys", len(keys))
	}
	keys = append(keys, "filter.x.process", "filter.x.required", "core.fsmonitor", "core.alternateRefsCommand",
		"uploadpack.packObjectsHook")
	for _, key := range keys {
		key = strings.NewReplacer("<", "", ">", "", "*", "x").Replace(key)
		for _, driver := range []string{"driver", "name", "filter"} {
			key = strings.Replace(key, "."+driver+".", ".x.", 1)
		}
		first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
		if first < 0 || structural(key) || strings.Contains(key, "_") { // the last of which git refuses as a key
			continue
		}
		fmt.Fprintf(&b, "[%s", key[:first])
		if last > first {
			fmt.Fprintf(&b, " %q", key[first+1:last])
		}
		fmt.Fprintf(&b, "]\n\t%s = \"touch '%s/%s'; cat\"\n", key[last+1:], markers, key)
	}
	return b.String()
}

// plantHooks makes every hook a command.
func plantHooks(t testing.TB, gitDir, markers string) {
	for _, hook := range []string{"post-index-change", "reference-transaction", "post-checkout", "pre-commit",
		"fsmonitor-watchman", "update", "pre-auto-gc"} {
		gittest.Write(t, gitDir, map[string]string{"hooks/" + hook: "#!/bin/sh\ntouch '" + markers + "/hook-" + hook +
			"'\n"})
	}
}

// No program runs that the configuration of the user, of a repository or of a repository within it names, not even if
// attributes select it.
func TestUserNoConfigurationExecutes(t *testing.T) {
	dir := t.TempDir()
	markers := filepath.Join(dir, "markers")
	expect.NoError(t, os.Mkdir(markers, 0o777))
	inner := gittest.NewRepo(t, map[string]string{"inner.txt": "x\n"})
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n",
		".gitattributes": "* filter=x diff=x merge=x\n"})
	for _, name := range []string{"lib", "lib2"} {
		gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, name)
	}
	gittest.Run(t, repo, "git", "commit", "-qam", "lib")
	gittest.Run(t, repo, "git", "init", "-q", "nested")
	gittest.Write(t, repo, map[string]string{"a.txt": "dirty\n", "untracked": "u\n", "nested/f": "x\n"})
	gittest.Run(t, filepath.Join(repo, "lib2"), "git", "commit", "-q", "--allow-empty", "-m", "moved")

	text := planted(t, markers)
	included := filepath.Join(dir, "included")
	gittest.Write(t, dir, map[string]string{"included": text,
		"global": text + "[include]\n\tpath = " + included + "\n"})
	for _, gitDir := range []string{".git", ".git/modules/lib", ".git/modules/lib2", "nested/.git"} {
		gitDir = filepath.Join(repo, gitDir)
		config, err := os.ReadFile(filepath.Join(gitDir, "config"))
		expect.NoError(t, err)
		gittest.Write(t, gitDir, map[string]string{"config.worktree": text, "config": string(config) + text +
			"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n[include]\n\tpath = " +
			included +
			"\n[includeIf \"gitdir:/**\"]\n\tpath = " + included + "\n"})
		plantHooks(t, gitDir, markers)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "global"))
	wantNone := func(when string) {
		t.Helper()
		if found, err := filepath.Glob(markers + "/*"); err != nil || len(found) > 0 {
			t.Fatalf("%s: run %q, %v", when, found, err)
		}
	}

	tree := acquire(t, workspace.Options{Dir: repo, IncludeDirty: true})
	wantNone("acquire")
	o := finished(t, repo, tree, func(dir string) {
		gittest.Write(t, dir, map[string]string{"a.txt": "changed\n", "b.txt": "changed\n", "new": "n\n"})
	})
	wantNone("diff")
	if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects}); err != nil {
		t.Fatal(err)
	}
	wantNone("apply")
	result := checkedOut(t, o)
	wantNone("checkout")
	gittest.Write(t, result.Path, map[string]string{"a.txt": "mine\n"})
	if _, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, Save: true, DeleteBranch: true}); err != nil {
		t.Fatal(err)
	}
	wantNone("remove")

	// The commands are ones that git does run, where it reads one of them.
	_, clean, _ := strings.Cut(text, "[filter \"x\"]\n\tclean")
	clean, _, _ = strings.Cut(clean, "[")
	gittest.Write(t, repo, map[string]string{".git/config": "[filter \"x\"]\n\tclean" + clean, "a.txt": "again\n"})
	gittest.Run(t, repo, "git", "add", "a.txt")
	if !git.Exists(filepath.Join(markers, "filter.x.clean")) {
		t.Fatal("nothing that was planted is run by git itself")
	}
}

// A directory of a clone that looks like a bare repository is a directory.
func TestUserLookAlike(t *testing.T) {
	t.Parallel()
	secrets := t.TempDir()
	marker := filepath.Join(t.TempDir(), "ran")
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "docs/api/HEAD": "ref: refs/heads/main\n",
		"docs/api/refs/.keep": "",
		"docs/api/config": "[core]\n\tbare = false\n\tworktree = .\n[filter \"x\"]\n\tclean = touch " +
			marker + "; cat\n\tsmudge = touch " + marker + "; cat\n",
		"docs/api/.gitattributes":          "* filter=x\n",
		"docs/api/objects/info/alternates": secrets + "\n", "docs/api/index.md": "x\n"})
	gittest.Write(t, repo, map[string]string{"docs/api/index.md": "dirty\n"})
	tree := acquire(t, workspace.Options{Dir: filepath.Join(repo, "docs/api"), IncludeDirty: true})
	if info := tree.Info(); info.Path != repo || info.Prefix != "docs/api" || git.Exists(marker) {
		t.Fatalf("the source is %+v, and something ran: %v", info, git.Exists(marker))
	}
	for _, dir := range tree.ObjectDirs() {
		if strings.HasPrefix(dir.HostPath, secrets) {
			t.Errorf("the agent is shown %s", dir.HostPath)
		}
	}
	gittest.Write(t, tree.Dir(), map[string]string{"docs/api/index.md": "changed\n"})
	o := finished(t, repo, tree, func(string) {})
	if _, err := Apply(t.Context(), ApplyOptions{Dir: filepath.Join(repo, "docs/api"), Patch: o.Diff.Patch,
		Objects: o.Objects}); err != nil || git.Exists(marker) {
		t.Fatalf("%v, the filter ran: %v", err, git.Exists(marker))
	}
}

// No file of a repository is read or written through a link: neither what is
// shown to the agent nor what a checkout adds.
func TestLinksInGitDirectory(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := strings.Repeat("ab", 20)
	gittest.Write(t, outside, map[string]string{"exclude": "secret\n", "heads/x": secret + "\n", "log": "log\n"})
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	gittest.Run(t, repo, "sh", "-ec", "ln -s "+outside+"/heads .git/refs/heads/linked; ln -s "+outside+
		"/heads/x .git/refs/heads/one; mv .git/info .git/former; ln -s "+outside+" .git/info")
	_, err := workspace.Open(t.Context(), workspace.Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache")})
	wantCode(t, err, git.CodeBrokenRepository)
	gittest.Run(t, repo, "sh", "-ec", "rm .git/info; mv .git/former .git/info; ln -sf "+outside+
		"/exclude .git/info/exclude")
	_, err = workspace.Open(t.Context(), workspace.Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache")})
	wantCode(t, err, git.CodeBrokenRepository)
	gittest.Run(t, repo, "rm", ".git/info/exclude")
	tree := acquire(t, workspace.Options{Dir: repo})
	for _, name := range []string{".git/info/exclude", ".git/packed-refs"} {
		if text, _ := os.ReadFile(filepath.Join(tree.Dir(), name)); bytes.Contains(text, []byte("secret")) ||
			bytes.Contains(text, []byte(secret)) {
			t.Errorf("the agent is shown %s: %q", name, text)
		}
	}
	o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"a.txt": "b\n"}) })
	gittest.Run(t, repo, "sh", "-ec", "mkdir -p .git/logs/refs/heads/holon; ln -s "+outside+
		"/log .git/logs/refs/heads/holon/run_1")
	before := gittest.Fingerprint(t, outside)
	if _, err := Checkout(t.Context(), o); err == nil {
		t.Error("a log was written through a link")
	}
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, outside))
}

// Files whose index entries are marked so that git does not look at them are not lost.
func TestMarkedFiles(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"--skip-worktree", "--assume-unchanged"} {
		repo := gittest.NewRepo(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n", "b.txt": "b\n"})
		gittest.Run(t, repo, "git", "update-index", mark, "a.txt", "b.txt")
		gittest.Write(t, repo, map[string]string{"a.txt": "mine\n2\n3\n4\n5\n6\n7\n8\n", "b.txt": "mine\n"})
		patch, objects := patchFor(t, workspace.Options{Dir: repo}, "sed -i s/8/eight/ a.txt")
		if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects}); err != nil {
			t.Fatal(err)
		}
		expect.Equal(t, mark+": a.txt", gittest.Contents(t, repo)["a.txt"], "mine\n2\n3\n4\n5\n6\n7\neight\n")
		patch, objects = patchFor(t, workspace.Options{Dir: repo}, "echo theirs > b.txt")
		_, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects})
		wantCode(t, err, CodePatchConflict)
		expect.Equal(t, mark+": b.txt", gittest.Contents(t, repo)["b.txt"], "mine\n")

		tree := acquire(t, workspace.Options{Dir: repo})
		o := finished(t, repo, tree, func(dir string) { gittest.Write(t, dir, map[string]string{"new": "n\n"}) })
		result := checkedOut(t, o)
		gittest.Run(t, result.Path, "git", "update-index", mark, "b.txt")
		gittest.Write(t, result.Path, map[string]string{"b.txt": "mine\n"})
		_, err = Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, Save: true})
		wantRefusal(t, err, CodeWorktreeInUse)
	}
}

// An index in two halves is read, and written whole.
func TestSplitIndex(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n"})
	gittest.Run(t, repo, "git", "update-index", "--split-index")
	gittest.Write(t, repo, map[string]string{"b.txt": "dirty\n"})
	tree := acquire(t, workspace.Options{Dir: repo, IncludeDirty: true})
	if got := gittest.Contents(t, tree.Dir()); got["a.txt"] != "a\n" || got["b.txt"] != "dirty\n" {
		t.Errorf("%q", got)
	}
	gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "agent\n"})
	o := finished(t, repo, tree, func(string) {})
	if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects}); err != nil {
		t.Fatal(err)
	}
}
