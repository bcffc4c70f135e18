package workspace

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// HEAD, its tree and the references are what git says they are.
func TestReferencesAgree(t *testing.T) {
	isolate(t)
	for name, arrange := range map[string]func(t *testing.T, repo string) string{
		"ordinary": func(_ *testing.T, repo string) string { return repo },
		"linked":   func(t *testing.T, repo string) string { return addWorktree(t, repo) },
		"detached": func(t *testing.T, repo string) string {
			run(t, repo, "git", "checkout", "-q", "--detach")
			return repo
		},
		"unborn": func(t *testing.T, repo string) string {
			run(t, repo, "git", "checkout", "-q", "--orphan", "x/y")
			return repo
		},
		"odd branch": func(t *testing.T, repo string) string {
			run(t, repo, "git", "checkout", "-q", "-b", "ü/a\xffb%s")
			return repo
		},
		"packed": func(t *testing.T, repo string) string {
			run(t, repo, "git", "gc", "-q")
			run(t, repo, "git", "tag", "loose")
			run(t, repo, "git", "commit", "-q", "--allow-empty", "-m", "newer than packed")
			return repo
		},
		"symbolic": func(t *testing.T, repo string) string {
			clone := filepath.Join(filepath.Dir(repo), "clone")
			run(t, "", "git", "clone", "-q", repo, clone) // has the symbolic reference origin/HEAD
			run(t, clone, "git", "symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere")
			run(t, clone, "git", "symbolic-ref", "refs/heads/alias", "refs/remotes/origin/HEAD")
			return clone
		},
		"HEAD is a tag": func(t *testing.T, repo string) string {
			write(t, repo, map[string]string{".git/HEAD": "ref: refs/tags/v2\n"})
			return repo
		},
		"locks and damage": func(t *testing.T, repo string) string {
			write(t, repo, map[string]string{".git/refs/heads/x.lock": strings.Repeat("ab", 20) + "\n",
				".git/refs/heads/empty": "",
				".git/refs/heads/cut":   "abcd\n"})
			return repo
		},
		"sha256": func(t *testing.T, repo string) string {
			other := filepath.Join(filepath.Dir(repo), "sha256")
			run(t, "", "git", "init", "-q", "--object-format=sha256", other)
			run(t, other, "git", "commit", "-q", "--allow-empty", "-m", "x")
			return other
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepo(t, map[string]string{"a": "a\n", "d/b": "b\n"})
			run(t, repo, "git", "tag", "-am", "annotated", "v1")
			run(t, repo, "git", "tag", "v2")
			run(t, repo, "git", "branch", "other")
			dir := arrange(t, repo)
			source := openSource(t, Options{Dir: dir})
			refs := run(t, dir, "sh", "-c", "git for-each-ref --format='%(objectname) %(refname)' refs/heads "+
				"refs/tags refs/remotes 2>/dev/null")
			if got := strings.TrimPrefix(string(source.user.references), packedHeader); got != refs {
				t.Errorf("references\n%s\ngit says\n%s", got, refs)
			}
			want := strings.Fields(run(t, dir, "sh", "-c",
				"git rev-parse --revs-only HEAD^{commit} HEAD^{tree}; git symbolic-ref -q HEAD || true"))
			got := strings.Fields(source.user.headCommit + " " + source.user.headTree)
			if source.info.Branch != "" {
				got = append(got, "refs/heads/"+source.info.Branch)
			}
			want = slices.DeleteFunc(want, func(w string) bool { return strings.HasPrefix(w, "refs/tags/") })
			if !slices.Equal(got, want) {
				t.Errorf("HEAD is %q, git says %q", got, want)
			}
		})
	}
}

// The settings that say how files compare count, wherever git reads them from;
// the ignore file that a repository names does not.
func TestTakenOver(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{"ignore": "*.global\n", "secret": "*.secret\n",
		"config": "\ufeff[core]\n\texcludesFile = " + dir +
			"/ignore\n[user] name = U\n\temail = u@localhost\n[include]\n\tpath = " + dir + "/absent\n"})
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "config"))
	repo := newRepo(t, map[string]string{"script": "#!/bin/sh\n", "crlf": "1\n"})
	run(t, repo, "git", "config", "core.excludesFile", dir+"/secret")
	run(t, repo, "git", "config", "core.fileMode", "false")
	run(t, repo, "git", "config", "core.autocrlf", "true")
	run(t, repo, "chmod", "-x", "script")
	write(t, repo, map[string]string{"crlf": "1\r\n", "x.global": "x\n", ".git/info/exclude": "*.own\n",
		"x.own": "x\n"})
	run(t, repo, "git", "add", "crlf")
	source := openSource(t, Options{Dir: repo, IncludeDirty: true})
	if source.info.Dirty || source.user.userName != "U" || source.user.excludes != "*.global\n*.own\n" {
		t.Errorf("info = %+v, user = %q, excludes = %q", source.info, source.user.userName, source.user.excludes)
	}
	write(t, repo, map[string]string{".git/config": "[core]\n\trepositoryformatversion = " +
		"1\n[extensions]\n\trefstorage = reftable\n"})
	_, err := Open(t.Context(), Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache")})
	wantCode(t, err, CodeBrokenRepository)
}

// A submodule at another commit than HEAD has makes the workspace dirty, staged
// or not, and is part of the snapshot.
func TestMovedSubmodule(t *testing.T) {
	isolate(t)
	lib := newRepo(t, map[string]string{"lib.txt": "lib\n"})
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	run(t, repo, "git", "commit", "-qam", "lib")
	if openSource(t, Options{Dir: repo}).info.Dirty {
		t.Error("a clean submodule counts as a change")
	}
	sub := filepath.Join(repo, "lib")
	write(t, sub, map[string]string{"lib.txt": "newer\n"})
	run(t, sub, "git", "commit", "-qam", "newer")
	commit := strings.TrimSpace(run(t, sub, "git", "rev-parse", "HEAD"))
	for _, stage := range []string{"true", "git add lib", "git config submodule.lib.ignore all"} {
		run(t, repo, "sh", "-ec", stage)
		tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
		if info := tree.Info(); !info.IncludedDirty || len(info.Submodules) != 1 ||
			info.Submodules[0].Commit != commit {
			t.Errorf("%s: %+v", stage, info)
		}
		if got := contents(t, tree.Dir())["lib/lib.txt"]; got != "newer\n" {
			t.Errorf("%s: lib.txt = %q", stage, got)
		}
	}
}

// An index in two halves is read, and written whole.
func TestSplitIndex(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n"})
	run(t, repo, "git", "update-index", "--split-index")
	write(t, repo, map[string]string{"b.txt": "dirty\n"})
	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	if got := contents(t, tree.Dir()); got["a.txt"] != "a\n" || got["b.txt"] != "dirty\n" {
		t.Errorf("%q", got)
	}
	write(t, tree.Dir(), map[string]string{"a.txt": "agent\n"})
	o := finished(t, repo, tree, func(string) {})
	if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects}); err != nil {
		t.Fatal(err)
	}
}
