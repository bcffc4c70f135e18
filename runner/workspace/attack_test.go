package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// structural are the keys that git would refuse with a command for a value:
// they say where and what a repository is, or are values that git gets to know.
// A key that is not here is planted, so that one of a later git is too.
func structural(key string) bool {
	key = strings.ToLower(key)
	return slices.Contains(takenOver, key) || strings.HasPrefix(key, "extensions.") ||
		strings.HasPrefix(key, "include") ||
		slices.Contains([]string{"core.bare", "core.worktree", "core.repositoryformatversion", "core.sharedrepository"},
			key)
}

// planted is a configuration file in which every key that git knows, and each
// driver that attributes may name, is a command that makes a file in markers.
func planted(t testing.TB, markers string) string {
	t.Helper()
	var b strings.Builder
	keys := strings.Fields(run(t, "", "git", "help", "--config"))
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
		write(t, gitDir, map[string]string{"hooks/" + hook: "#!/bin/sh\ntouch '" + markers + "/hook-" + hook + "'\n"})
	}
}

// Whatever the configuration of a repository, of what is in it or of the user
// says, and whichever attributes choose it, nothing is run.
func TestNoConfigurationExecutes(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	markers := filepath.Join(dir, "markers")
	if err := os.Mkdir(markers, 0o777); err != nil {
		t.Fatal(err)
	}
	inner := newRepo(t, map[string]string{"inner.txt": "x\n"})
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n",
		".gitattributes": "* filter=x diff=x merge=x\n"})
	for _, name := range []string{"lib", "lib2"} {
		run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, name)
	}
	run(t, repo, "git", "commit", "-qam", "lib")
	run(t, repo, "git", "init", "-q", "nested")
	write(t, repo, map[string]string{"a.txt": "dirty\n", "untracked": "u\n", "nested/f": "x\n"})
	run(t, filepath.Join(repo, "lib2"), "git", "commit", "-q", "--allow-empty", "-m", "moved")

	text := planted(t, markers)
	included := filepath.Join(dir, "included")
	write(t, dir, map[string]string{"included": text, "global": text + "[include]\n\tpath = " + included + "\n"})
	for _, gitDir := range []string{".git", ".git/modules/lib", ".git/modules/lib2", "nested/.git"} {
		gitDir = filepath.Join(repo, gitDir)
		config, err := os.ReadFile(filepath.Join(gitDir, "config"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, gitDir, map[string]string{"config.worktree": text, "config": string(config) + text +
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

	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	wantNone("acquire")
	o := finished(t, repo, tree, func(dir string) {
		write(t, dir, map[string]string{"a.txt": "changed\n", "b.txt": "changed\n", "new": "n\n"})
	})
	wantNone("diff")
	if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects}); err != nil {
		t.Fatal(err)
	}
	wantNone("apply")
	result := checkedOut(t, o)
	wantNone("checkout")
	write(t, result.Path, map[string]string{"a.txt": "mine\n"})
	if _, err := Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, Save: true, DeleteBranch: true}); err != nil {
		t.Fatal(err)
	}
	wantNone("remove")

	// The commands are ones that git does run, where it reads one of them.
	_, clean, _ := strings.Cut(text, "[filter \"x\"]\n\tclean")
	clean, _, _ = strings.Cut(clean, "[")
	write(t, repo, map[string]string{".git/config": "[filter \"x\"]\n\tclean" + clean, "a.txt": "again\n"})
	run(t, repo, "git", "add", "a.txt")
	if !exists(filepath.Join(markers, "filter.x.clean")) {
		t.Fatal("nothing that was planted is run by git itself")
	}
}

// A directory of a clone that looks like a bare repository is a directory.
func TestLookAlike(t *testing.T) {
	isolate(t)
	secrets := t.TempDir()
	marker := filepath.Join(t.TempDir(), "ran")
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "docs/api/HEAD": "ref: refs/heads/main\n",
		"docs/api/refs/.keep": "",
		"docs/api/config": "[core]\n\tbare = false\n\tworktree = .\n[filter \"x\"]\n\tclean = touch " +
			marker + "; cat\n\tsmudge = touch " + marker + "; cat\n",
		"docs/api/.gitattributes":          "* filter=x\n",
		"docs/api/objects/info/alternates": secrets + "\n", "docs/api/index.md": "x\n"})
	write(t, repo, map[string]string{"docs/api/index.md": "dirty\n"})
	tree := acquire(t, Options{Dir: filepath.Join(repo, "docs/api"), IncludeDirty: true})
	if info := tree.Info(); info.Path != repo || info.Prefix != "docs/api" || exists(marker) {
		t.Fatalf("info = %+v, the filter ran: %v", info, exists(marker))
	}
	for _, dir := range tree.ObjectDirs() {
		if strings.HasPrefix(dir.HostPath, secrets) {
			t.Errorf("the agent is shown %s", dir.HostPath)
		}
	}
	write(t, tree.Dir(), map[string]string{"docs/api/index.md": "changed\n"})
	o := finished(t, repo, tree, func(string) {})
	if _, err := Apply(t.Context(), ApplyOptions{Dir: filepath.Join(repo, "docs/api"), Patch: o.Diff.Patch,
		Objects: o.Objects}); err != nil || exists(marker) {
		t.Fatalf("%v, the filter ran: %v", err, exists(marker))
	}
}

// No file of a repository is read or written through a link: neither what is
// shown to the agent nor what a checkout adds.
func TestLinksInGitDirectory(t *testing.T) {
	isolate(t)
	outside := t.TempDir()
	secret := strings.Repeat("ab", 20)
	write(t, outside, map[string]string{"exclude": "secret\n", "heads/x": secret + "\n", "log": "log\n"})
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	run(t, repo, "sh", "-ec", "ln -s "+outside+"/heads .git/refs/heads/linked; ln -s "+outside+
		"/heads/x .git/refs/heads/one; mv .git/info .git/former; ln -s "+outside+" .git/info")
	_, err := Open(t.Context(), Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache")})
	wantCode(t, err, CodeBrokenRepository)
	run(t, repo, "sh", "-ec", "rm .git/info; mv .git/former .git/info; ln -sf "+outside+"/exclude .git/info/exclude")
	_, err = Open(t.Context(), Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache")})
	wantCode(t, err, CodeBrokenRepository)
	run(t, repo, "rm", ".git/info/exclude")
	tree := acquire(t, Options{Dir: repo})
	for _, name := range []string{".git/info/exclude", ".git/packed-refs"} {
		if text, _ := os.ReadFile(filepath.Join(tree.Dir(), name)); bytes.Contains(text, []byte("secret")) ||
			bytes.Contains(text, []byte(secret)) {
			t.Errorf("the agent is shown %s: %q", name, text)
		}
	}
	o := finished(t, repo, tree, func(dir string) { write(t, dir, map[string]string{"a.txt": "b\n"}) })
	run(t, repo, "sh", "-ec", "mkdir -p .git/logs/refs/heads/holon; ln -s "+outside+
		"/log .git/logs/refs/heads/holon/run_1")
	before := fingerprint(t, outside)
	if _, err := Checkout(t.Context(), o); err == nil {
		t.Error("a log was written through a link")
	}
	wantUntouched(t, before, fingerprint(t, outside))
}

// Files whose index entries are marked so that git does not look at them are
// not lost.
func TestMarkedFiles(t *testing.T) {
	isolate(t)
	for _, mark := range []string{"--skip-worktree", "--assume-unchanged"} {
		repo := newRepo(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n", "b.txt": "b\n"})
		run(t, repo, "git", "update-index", mark, "a.txt", "b.txt")
		write(t, repo, map[string]string{"a.txt": "mine\n2\n3\n4\n5\n6\n7\n8\n", "b.txt": "mine\n"})
		patch, objects := patchFor(t, Options{Dir: repo}, "sed -i s/8/eight/ a.txt")
		if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects}); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, repo)["a.txt"]; got != "mine\n2\n3\n4\n5\n6\n7\neight\n" {
			t.Errorf("%s: a.txt = %q", mark, got)
		}
		patch, objects = patchFor(t, Options{Dir: repo}, "echo theirs > b.txt")
		_, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects})
		wantCode(t, err, CodePatchConflict)
		if got := contents(t, repo)["b.txt"]; got != "mine\n" {
			t.Errorf("%s: b.txt = %q", mark, got)
		}

		tree := acquire(t, Options{Dir: repo})
		o := finished(t, repo, tree, func(dir string) { write(t, dir, map[string]string{"new": "n\n"}) })
		result := checkedOut(t, o)
		run(t, result.Path, "git", "update-index", mark, "b.txt")
		write(t, result.Path, map[string]string{"b.txt": "mine\n"})
		_, err = Remove(t.Context(), RemoveOptions{RunDir: o.RunDir, Save: true})
		wantRefusal(t, err, CodeWorktreeInUse)
	}
}

// endless never runs out of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A git process that is made to be slow or large is ended, and the error says
// by which bound.
func TestGitBudgets(t *testing.T) {
	isolate(t)
	repo := repository{dir: filepath.Join(t.TempDir(), "r"), format: formatSHA1}
	if err := repo.create(); err != nil {
		t.Fatal(err)
	}
	t.Run("memory", func(t *testing.T) {
		g := repo.git()
		g.memory = 64 << 20
		_, err := g.run(t.Context(), endless{}, "hash-object", "--stdin")
		wantCode(t, typed("hash", err), CodeGitBudget)
	})
	t.Run("processor time", func(t *testing.T) {
		_, err := repo.git().within(time.Second).run(t.Context(),
			io.MultiReader(strings.NewReader("blob\ndata 99999999999\n"), endless{}), "fast-import", "--quiet")
		wantCode(t, typed("import", err), CodeGitBudget)
		if !strings.Contains(err.Error(), "processor time") {
			t.Error(err)
		}
	})
	t.Run("output", func(t *testing.T) {
		out := &boundedBuffer{limit: 10}
		if _, err := out.Write(make([]byte, 11)); err == nil || !out.passed {
			t.Error(err)
		}
	})
	t.Run("references", func(t *testing.T) {
		user := newRepo(t, map[string]string{"a": "a\n"})
		write(t, user, map[string]string{".git/packed-refs": packedHeader})
		if err := os.Truncate(filepath.Join(user, ".git/packed-refs"), maxPackedRefs+1); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Options{Dir: user, CacheDir: filepath.Join(t.TempDir(), "cache")})
		wantCode(t, err, CodeBrokenRepository)
	})
	t.Run("patch", func(t *testing.T) {
		patch := filepath.Join(t.TempDir(), "p")
		write(t, filepath.Dir(patch), map[string]string{"p": ""})
		if err := os.Truncate(patch, 1<<30); err != nil {
			t.Fatal(err)
		}
		_, err := Apply(t.Context(), ApplyOptions{Dir: t.TempDir(), Patch: patch})
		wantCode(t, err, CodeTooLarge)
	})
}

// Ignore rules that take git minutes are done without: those of an agent's
// tree as if they were not there, those of the user's by leaving untracked
// files out.
func TestSlowIgnoreRules(t *testing.T) {
	isolate(t)
	former := ignoreTime
	ignoreTime = time.Second
	t.Cleanup(func() { ignoreTime = former })
	plant := func(dir string) {
		files := map[string]string{".gitignore": strings.Repeat("[n]*[e]?[w]x\n", 80_000)}
		for i := range 1000 {
			files[fmt.Sprintf("%snew-%d", strings.Repeat("ne", 60), i)] = "x\n"
		}
		write(t, dir, files)
	}
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	tree := acquire(t, Options{Dir: repo})
	plant(tree.Dir())
	diff, _ := diffOf(t, tree)
	wantWarning(t, diff, WarnSlowIgnore, ".gitignore")
	if len(diff.Files) != 1001 {
		t.Errorf("%d files, warnings %+v", len(diff.Files), diff.Warnings)
	}
	plant(repo)
	write(t, repo, map[string]string{"a.txt": "dirty\n"})
	dirty := acquire(t, Options{Dir: repo, IncludeDirty: true})
	if warnings := dirty.Info().Warnings; len(warnings) != 1 || warnings[0].Code != WarnSlowIgnore {
		t.Errorf("warnings = %+v", warnings)
	}
	if got := contents(t, dirty.Dir()); got["a.txt"] != "dirty\n" || len(got) != 1 {
		t.Errorf("%d files", len(got))
	}
}

// Git is started by one function: no other place of the module runs it.
func TestGitIsStartedInOnePlace(t *testing.T) {
	var found []string
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err == nil && path == "../../test" {
			return filepath.SkipDir // programs that test the product
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"git"`) &&
				(strings.Contains(line, "exec.") || strings.Contains(line, "Command(")) {
				found = append(found, strings.TrimPrefix(path, "../../"))
			}
			if strings.Contains(line, "git{") && !strings.Contains(line, "//") &&
				strings.HasPrefix(path, "../../runner/workspace/") {
				found = append(found, strings.TrimPrefix(path, "../../")+": "+strings.TrimSpace(line))
			}
		}
		return err
	})
	want := []string{"runner/workspace/git.go: return git{dir: gitDir, env: append(own, env...), processor: " +
		"defaultProcessorTime, memory: maxGitMemory}", "runner/workspace/git.go"}
	if err != nil || !slices.Equal(found, want) {
		t.Fatalf("git is started at %q, %v", found, err)
	}
}

// Git would wait for a pipe in place of its index.
func TestPipeAsIndex(t *testing.T) {
	repo := newRepo(t, map[string]string{"a": "a"})
	index := filepath.Join(repo, ".git", "index")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(index, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Dir: repo, CacheDir: t.TempDir(), IncludeDirty: true})
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeBrokenRepository || e.Param != index {
		t.Errorf("Open: %v, want %s of %s", err, CodeBrokenRepository, index)
	}
}

// However git's output is copied, its bound holds.
func TestBoundedBuffer(t *testing.T) {
	out := &boundedBuffer{limit: 1 << 20}
	if n, err := io.Copy(out, io.LimitReader(zeros{}, 1<<30)); err == nil || n > 1<<20 || !out.passed {
		t.Errorf("copied %d bytes, %v, passed %v, want an error after 1 MiB", n, err, out.passed)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A commit whose tree holds itself many times is left out, and the change is there.
func TestBombAsHistory(t *testing.T) {
	repo := newRepo(t, map[string]string{"a": "a"})
	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	run(t, tree.Dir(), "sh", "-c", `b=$(echo x | git hash-object -w --stdin)
		t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf "100644 blob $b\tf$i\n"; done | git mktree)
		for l in 1 2 3 4 5 6 7; do t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf "040000 tree $t\td$i\n"; done | git mktree); done
		git -c user.name=a -c user.email=a@b update-ref HEAD $(git -c user.name=a -c user.email=a@b commit-tree -p HEAD -m bomb $t)
		echo z > b`)
	d, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "p"),
		Objects: filepath.Join(t.TempDir(), "o")})
	if err != nil {
		t.Fatal(err)
	}
	if d.History != nil || len(d.Files) != 1 || d.Files[0].Path != "b" ||
		!slices.ContainsFunc(d.Warnings, func(w Warning) bool {
			return strings.Contains(w.Message, "too many")
		}) {
		t.Errorf("history %+v, files %+v, warnings %+v, want b alone and a warning", d.History, d.Files, d.Warnings)
	}
}
