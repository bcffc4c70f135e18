package git

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/gittest"
)

// HEAD, its tree and the references are what git says they are.
func TestReferencesAgree(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T, repo string) string{
		"ordinary": func(_ *testing.T, repo string) string { return repo },
		"linked":   func(t *testing.T, repo string) string { return gittest.AddWorktree(t, repo) },
		"detached": func(t *testing.T, repo string) string {
			gittest.Run(t, repo, "git", "checkout", "-q", "--detach")
			return repo
		},
		"unborn": func(t *testing.T, repo string) string {
			gittest.Run(t, repo, "git", "checkout", "-q", "--orphan", "x/y")
			return repo
		},
		"odd branch": func(t *testing.T, repo string) string {
			gittest.Run(t, repo, "git", "checkout", "-q", "-b", "ü/a\xffb%s")
			return repo
		},
		"packed": func(t *testing.T, repo string) string {
			gittest.Run(t, repo, "git", "gc", "-q")
			gittest.Run(t, repo, "git", "tag", "loose")
			gittest.Run(t, repo, "git", "commit", "-q", "--allow-empty", "-m", "newer than packed")
			return repo
		},
		"symbolic": func(t *testing.T, repo string) string {
			clone := filepath.Join(filepath.Dir(repo), "clone")
			gittest.Run(t, "", "git", "clone", "-q", repo, clone) // has the symbolic reference origin/HEAD
			gittest.Run(t, clone, "git", "symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere")
			gittest.Run(t, clone, "git", "symbolic-ref", "refs/heads/alias", "refs/remotes/origin/HEAD")
			return clone
		},
		"HEAD is a tag": func(t *testing.T, repo string) string {
			gittest.Write(t, repo, map[string]string{".git/HEAD": "ref: refs/tags/v2\n"})
			return repo
		},
		"locks and damage": func(t *testing.T, repo string) string {
			gittest.Write(t, repo, map[string]string{".git/refs/heads/x.lock": strings.Repeat("ab", 20) + "\n",
				".git/refs/heads/empty": "",
				".git/refs/heads/cut":   "abcd\n"})
			return repo
		},
		"sha256": func(t *testing.T, repo string) string {
			other := filepath.Join(filepath.Dir(repo), "sha256")
			gittest.Run(t, "", "git", "init", "-q", "--object-format=sha256", other)
			gittest.Run(t, other, "git", "commit", "-q", "--allow-empty", "-m", "x")
			return other
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "d/b": "b\n"})
			gittest.Run(t, repo, "git", "tag", "-am", "annotated", "v1")
			gittest.Run(t, repo, "git", "tag", "v2")
			gittest.Run(t, repo, "git", "branch", "other")
			dir := arrange(t, repo)
			user, err := Locate(t.Context(), dir, Borrowing{})
			expect.NoError(t, err)
			v, err := user.View(filepath.Join(t.TempDir(), "view"))
			if err := errors.Join(err, user.LoadReferences(t.Context()),
				user.LoadHeadTree(t.Context(), v)); err != nil {
				t.Fatal(err)
			}
			refs := gittest.Run(t, dir, "sh", "-c", "git for-each-ref --format='%(objectname) %(refname)' refs/heads "+
				"refs/tags refs/remotes 2>/dev/null")
			if got := strings.TrimPrefix(string(user.References), packedHeader); got != refs {
				t.Errorf("references\n%s\ngit says\n%s", got, refs)
			}
			want := strings.Fields(gittest.Run(t, dir, "sh", "-c",
				"git rev-parse --revs-only HEAD^{commit} HEAD^{tree}; git symbolic-ref -q HEAD || true"))
			got := strings.Fields(user.HeadCommit + " " + user.HeadTree)
			if user.Branch != "" {
				got = append(got, "refs/heads/"+user.Branch)
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
	dir := t.TempDir()
	gittest.Write(t, dir, map[string]string{"ignore": "*.global\n", "secret": "*.secret\n",
		"config": "\ufeff[core]\n\texcludesFile = " + dir +
			"/ignore\n[user] name = U\n\temail = u@localhost\n[include]\n\tpath = " + dir + "/absent\n"})
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(dir, "config"))
	repo := gittest.NewRepo(t, map[string]string{"script": "#!/bin/sh\n", "crlf": "1\n"})
	gittest.Run(t, repo, "git", "config", "core.excludesFile", dir+"/secret")
	gittest.Run(t, repo, "git", "config", "core.fileMode", "false")
	gittest.Run(t, repo, "git", "config", "core.autocrlf", "true")
	gittest.Run(t, repo, "chmod", "-x", "script")
	gittest.Write(t, repo, map[string]string{"crlf": "1\r\n", "x.global": "x\n", ".git/info/exclude": "*.own\n",
		"x.own": "x\n"})
	gittest.Run(t, repo, "git", "add", "crlf")
	user, err := Locate(t.Context(), repo, Borrowing{})
	expect.NoError(t, err)
	if user.UserName != "U" {
		t.Errorf("user name %q, want %q", user.UserName, "U")
	}
	if want := "*.global\n*.own\n"; user.Excludes != want {
		t.Errorf("excludes %q, want %q", user.Excludes, want)
	}
	v, err := user.View(filepath.Join(t.TempDir(), "view"))
	expect.NoError(t, errors.Join(err, user.LoadStatus(t.Context(), v)))
	if user.Status.Dirty {
		t.Errorf("status %+v, want a clean tree", user.Status)
	}
	gittest.Write(t, repo, map[string]string{".git/config": "[core]\n\trepositoryformatversion = " +
		"1\n[extensions]\n\trefstorage = reftable\n"})
	_, err = Locate(t.Context(), repo, Borrowing{})
	wantCode(t, err, CodeBrokenRepository)
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Hint, "git refs migrate --ref-format=files") {
		t.Errorf("the error is %+v, want one that names the way out", err)
	}
}

// A copy of the index keeps its time: git takes a file of the same size for unchanged that was changed in the second in
// which the index was written, if the index seems to be younger.
func TestCopyIndexKeepsItsTime(t *testing.T) {
	t.Parallel()
	gitDir := t.TempDir()
	index, copied := filepath.Join(gitDir, "index"), filepath.Join(t.TempDir(), "index")
	written := time.Now().Add(-time.Hour).Truncate(time.Second).Add(123 * time.Microsecond)
	expect.NoError(t, errors.Join(os.WriteFile(index, []byte("DIRC"), 0o600), os.Chtimes(index, written, written)))
	user := &UserRepository{Layout: Layout{GitDir: gitDir}}
	expect.NoError(t, user.CopyIndex(copied))
	if info, err := os.Stat(copied); err != nil || !info.ModTime().Equal(written) {
		t.Errorf("got %v, %v, want %v", info.ModTime(), err, written)
	}
}
