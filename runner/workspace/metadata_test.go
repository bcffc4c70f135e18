package workspace

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// Go-git opens a linked working tree either way. Without the common directory
// it finds no branch there, and says nothing.
func TestLinkedWorktreeNeedsCommonDirectory(t *testing.T) {
	isolate(t)
	linked := addWorktree(t, newRepo(t, map[string]string{"a": "a\n"}))
	for _, enabled := range []bool{true, false} {
		repo, err := gogit.PlainOpenWithOptions(linked, &gogit.PlainOpenOptions{EnableDotGitCommonDir: enabled})
		if err != nil {
			t.Fatal(err)
		}
		head, err := repo.Head()
		if enabled && (err != nil || head.Name() != "refs/heads/side") || !enabled && !errors.Is(err, plumbing.ErrReferenceNotFound) {
			t.Fatalf("with common directory: %v, HEAD = %v, %v", enabled, head, err)
		}
	}
	user, err := readMetadata(linked)
	if err != nil || user.branch != "side" || user.headCommit == "" {
		t.Fatalf("metadata = %+v, %v", user, err)
	}
}

func addWorktree(t testing.TB, repo string) string {
	linked := filepath.Join(filepath.Dir(repo), "linked")
	run(t, repo, "git", "worktree", "add", "-q", "-b", "side", linked)
	return linked
}

// What go-git reads is what the git program says.
func TestMetadataAgrees(t *testing.T) {
	isolate(t)
	for name, arrange := range map[string]func(t *testing.T, repo string) string{
		"ordinary": func(_ *testing.T, repo string) string { return repo },
		"linked":   func(t *testing.T, repo string) string { return addWorktree(t, repo) },
		"linked relatively": func(t *testing.T, repo string) string {
			linked := addWorktree(t, repo)
			write(t, linked, map[string]string{".git": "gitdir: ../repo/.git/worktrees/linked\n"})
			return linked
		},
		"detached": func(t *testing.T, repo string) string { run(t, repo, "git", "checkout", "-q", "--detach"); return repo },
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
			run(t, repo, "git", "branch", "-f", "other", "HEAD")
			return repo
		},
		"large pack": func(t *testing.T, repo string) string {
			large := filepath.Join(filepath.Dir(repo), "large")
			makeRepo(t, large, maxPackIndexes/28)
			if size := packIndexes(filepath.Join(large, ".git/objects")); size <= maxPackIndexes {
				t.Fatalf("the index has only %d bytes", size)
			}
			return large
		},
		"clone": func(t *testing.T, repo string) string {
			clone := filepath.Join(filepath.Dir(repo), "clone")
			run(t, "", "git", "clone", "-q", repo, clone) // has the symbolic reference origin/HEAD
			run(t, clone, "git", "symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere")
			run(t, clone, "git", "symbolic-ref", "refs/heads/alias", "refs/remotes/origin/HEAD")
			return clone
		},
		"borrowing": func(t *testing.T, repo string) string {
			clone := filepath.Join(filepath.Dir(repo), "clone")
			run(t, "", "git", "clone", "-q", "--shared", repo, clone)
			return clone
		},
		"shallow": func(t *testing.T, repo string) string {
			run(t, repo, "git", "commit", "-q", "--allow-empty", "-m", "second")
			clone := filepath.Join(filepath.Dir(repo), "clone")
			run(t, "", "git", "clone", "-q", "--depth=1", "file://"+repo, clone)
			return clone
		},
		"replaced": func(t *testing.T, repo string) string { // which the workspace has no use for
			run(t, repo, "git", "commit", "-q", "--allow-empty", "-m", "second")
			run(t, repo, "git", "replace", "HEAD", "HEAD~")
			return repo
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepo(t, map[string]string{"a": "a\n", "d/b": "b\n"})
			run(t, repo, "git", "tag", "-am", "annotated", "v1")
			run(t, repo, "git", "branch", "other")
			dir := arrange(t, repo)
			claimed := claim(t, dir)
			if claimed == nil {
				t.Fatal("go-git was not used")
			}
			wantAgreement(t, dir, claimed)
		})
	}
}

// claim returns what Open would use of go-git's, nil when it would not.
func claim(t testing.TB, dir string) *userRepository {
	t.Helper()
	user, err := readMetadata(dir)
	if err != nil {
		return nil
	}
	if err := user.loadClaimed(t.Context()); err != nil {
		return nil
	}
	status, err := user.status(t.Context(), t.TempDir())
	if err != nil || user.confirm(status) != nil {
		return nil
	}
	return user
}

func wantAgreement(t testing.TB, dir string, claimed *userRepository) {
	t.Helper()
	located, err := locate(t.Context(), dir)
	if err != nil || located == nil {
		t.Fatalf("go-git reads %s, git does not: %v", dir, err)
	}
	if err := located.loadReferences(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, want := *claimed, *located
	if string(got.references) != string(want.references) {
		t.Fatalf("references by go-git:\n%s\nby git:\n%s", got.references, want.references)
	}
	for _, u := range []*userRepository{&got, &want} {
		u.references, u.branch = nil, ""
	}
	if got.describe() != want.describe() {
		t.Fatalf("go-git reads\n%s\ngit\n%s", got.describe(), want.describe())
	}
}

func (u *userRepository) describe() string {
	shallow := map[bool]string{true: "shallow"}[u.shallow]
	return strings.Join([]string{u.top, u.prefix, u.gitDir, u.commonDir, u.objects, u.index, string(u.format), shallow, u.headCommit, u.headTree}, "\n")
}

// What go-git can't be trusted with goes to the git program, with its result.
func TestMetadataLeftToGit(t *testing.T) {
	isolate(t)
	inGit := func(files map[string]string) func(*testing.T, string) string {
		return func(t *testing.T, repo string) string { write(t, filepath.Join(repo, ".git"), files); return repo }
	}
	for name, tc := range map[string]struct {
		arrange func(t *testing.T, repo string) string
		code    string // of the error; empty when git copes
	}{
		"worktree configuration": {arrange: func(t *testing.T, repo string) string {
			run(t, repo, "git", "config", "extensions.worktreeConfig", "true")
			return repo
		}},
		"other working tree": {arrange: func(t *testing.T, repo string) string {
			run(t, repo, "git", "config", "core.worktree", "../d")
			return repo
		}, code: CodeBareRepository},
		"sub-directory": {arrange: func(_ *testing.T, repo string) string { return filepath.Join(repo, "d") }},
		"link": {arrange: func(t *testing.T, repo string) string {
			run(t, repo, "mv", ".git", "../dot")
			run(t, repo, "ln", "-s", "../dot", ".git")
			return repo
		}},
		"lock of a branch":      {arrange: inGit(map[string]string{"refs/heads/x.lock": strings.Repeat("ab", 20) + "\n"})},
		"empty branch":          {arrange: inGit(map[string]string{"refs/heads/x": ""})},
		"cut branch":            {arrange: inGit(map[string]string{"refs/heads/x": strings.Repeat("ab", 15)})},
		"branch of zeros":       {arrange: inGit(map[string]string{"refs/heads/x": strings.Repeat("\x00", 41)})},
		"HEAD is a tag":         {arrange: inGit(map[string]string{"HEAD": "ref: refs/tags/v1\n"})},
		"broken HEAD":           {arrange: inGit(map[string]string{"refs/heads/main": strings.Repeat("ab", 20) + "\n"}), code: CodeMissingObjects},
		"malformed packed-refs": {arrange: inGit(map[string]string{"packed-refs": "a b c\n"}), code: CodeBrokenRepository},
		"later version":         {arrange: inGit(map[string]string{"config": "[core]\nrepositoryformatversion = 9\n"}), code: CodeBrokenRepository},
		"unusable, in a usable one": {arrange: func(t *testing.T, repo string) string {
			run(t, repo, "git", "init", "-q", "d/in")
			run(t, repo, "rm", "-r", "d/in/.git/refs")
			return filepath.Join(repo, "d/in")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			repo := newRepo(t, map[string]string{"a": "a\n", "d/b": "b\n"})
			run(t, repo, "git", "tag", "v1")
			dir := tc.arrange(t, repo)
			if claimed := claim(t, dir); claimed != nil {
				t.Fatalf("go-git was used: %s", claimed.describe())
			}
			source, err := Open(t.Context(), Options{Dir: dir, CacheDir: filepath.Join(t.TempDir(), "cache")})
			if tc.code != "" {
				wantCode(t, err, tc.code)
			} else if err != nil || source.info.Path != repo || source.headTree != strings.TrimSpace(run(t, repo, "git", "rev-parse", "HEAD^{tree}")) {
				t.Fatalf("source = %+v, %v", source, err)
			}
		})
	}
}

// Whatever the files say, go-git doesn't panic, and what it reads is used only
// where git reads the same.
func FuzzMetadata(f *testing.F) {
	isolate(f)
	const head, config = "ref: refs/heads/main\n", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	id := strings.Repeat("ab", 20)
	f.Add(head, config, "", "")
	f.Add(head, config, "# pack-refs with: peeled fully-peeled sorted \n"+id+" refs/tags/v2\n^"+id+"\n", id+"\n")
	f.Add(id, config, id+" refs/heads/side/x\n", "ref: refs/heads/main\n")
	f.Add("ref: refs/heads/side\n", config, id+" refs/heads/side\n", "ref: refs/heads/side")
	f.Add("ref:  refs/heads/main \n", "[core]\nworktree=..\n", "x", "\x00")
	f.Add("ref: refs/heads/../main", "[include]\npath=/dev/null\n[core \"x\"]\n[", id+" refs/heads/a b\n", "abcd")
	f.Add(head, "[extensions]\nworktreeConfig\n", id+" refs/heads/-x\n", id+" garbage")
	repo := newRepo(f, map[string]string{"a": "a\n"})
	f.Fuzz(func(t *testing.T, head, config, packed, side string) {
		write(t, filepath.Join(repo, ".git"), map[string]string{"HEAD": head, "config": config, "packed-refs": packed, "refs/heads/side": side})
		claimed := claim(t, repo)
		if claimed == nil {
			return
		}
		list := exec.CommandContext(t.Context(), "git", "for-each-ref")
		list.Dir = repo
		if out, err := list.CombinedOutput(); err != nil || strings.Contains(string(out), "warning: ") {
			t.Skip("damaged in a way that git may pass over differently")
		}
		wantAgreement(t, repo, claimed)
	})
}
