package worktree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/responses"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) {
	memory.Use()
	os.Exit(m.Run())
}

// tester is what *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// run runs a shell script in dir, with a git that reads nobody's settings.
func run(t tester, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// content returns what lies beneath dir but for repositories and empty directories: modes as git knows them, and bytes.
func content(t tester, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.Name() == ".git" || d.Name() == turnsName:
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			got[name] = "120000 " + target
			return err
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			mode := modeFile
			if info.Mode()&0o100 != 0 {
				mode = modeExecutable
			}
			got[name] = mode + " " + string(data)
		}
		return nil
	})
	expect.NoError(t, err)
	return got
}

// origin is a directory with a bit of everything.
const origin = `
	printf 'one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n' > text
	printf 'no newline' > cut; : > empty; printf 'a\0b' > binary; printf 'x\r\ny\r\n' > crlf
	printf '#!/bin/sh\n' > run.sh; chmod 755 run.sh; ln -s text link; ln -s /etc/passwd outside; ln -s nowhere broken
	mkdir -p d/e; printf 'b\n' > d/b; printf 'c\n' > d/e/c; printf 'q\n' > 'sp ace "q" \ é'
	printf '*.log\nbuild/\n' > .gitignore
`

// made makes a private tree of dir and removes it in the end.
func made(t testing.TB, root, dir, kind string) *Tree {
	t.Helper()
	tree, err := Make(t.Context(), Options{Root: root, Origin: dir, SessionID: "sess_1", TurnID: "turn_1", Kind: kind})
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(root, turnsName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the end: %v, want no private trees", err)
		}
	})
	return tree
}

func patch(t tester, tree *Tree) (string, Summary) {
	t.Helper()
	var b bytes.Buffer
	summary, err := tree.Diff(t.Context(), &b)
	expect.NoError(t, err)
	return b.String(), summary
}

// wantApplies applies a patch to dir with git and compares the result with the tree.
func wantApplies(t tester, dir, text string, want map[string]string) {
	t.Helper()
	file := dir + ".patch"
	expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	if text != "" {
		run(t, dir, "git apply --check '"+file+"' && git apply '"+file+"'")
	}
	if diff := cmp.Diff(want, content(t, dir)); diff != "" {
		t.Errorf("the patched origin (-want +got):\n%s\nthe patch:\n%s", diff, text)
	}
}

// Every kind of change comes back as a patch that git applies to the origin.
func TestPatch(t *testing.T) {
	for _, tc := range []struct{ name, script string }{
		{"nothing", "true"},
		{"two hunks", "sed -i 's/one/ONE/;s/ten/TEN/' text"},
		{"lose the last newline", "printf 'one' > text"},
		{"delete", "rm text d/b empty binary link"},
		{"delete a directory", "rm -r d"},
		{"mode", "chmod 755 text; chmod 644 run.sh"},
		{"mode and content", "chmod 755 text; echo x >> text"},
		{"binary", "printf 'b\\0c' > binary; head -c 100000 /dev/urandom > new.bin"},
		{"text to binary", "printf '\\0' >> text"},
		{"line endings", "printf 'x\\ny\\r\\nz' > crlf"},
		{"link elsewhere", "ln -sfn /elsewhere link; ln -s 'a b' new"},
		{"link to file", "rm link; echo x > link"},
		{"file to link", "rm text; ln -s d text"},
		{"file to directory", "rm text; mkdir text; echo x > text/x"},
		{"directory to file", "rm -r d; echo x > d"},
		{"directory to link", "rm -r d; ln -s /etc d"},
		{"names", `echo x > "$(printf 'new\nline')"; echo x > "$(printf 'tab\there')"; echo x > ' lead'; echo x > 'trail ';` +
			`echo x > '"q"'; echo x > 'a\b'; echo x > é; echo x > "$(printf 'bad\377')"; echo y >> 'sp ace "q" \ é'`},
		{"name like a header", `mkdir -- '-- a' && echo x > './-- a/+++ b'`},
		{"content like a patch", `printf -- '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n' > text`},
		{"ignored files", "echo x > new.log; mkdir build; echo x > build/out"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			run(t, root, origin)
			before := content(t, root)
			tree := made(t, root, root, responses.IsolationCopy)
			if diff := cmp.Diff(before, content(t, tree.WorkDir())); diff != "" {
				t.Fatalf("the private tree (-origin +got):\n%s", diff)
			}
			run(t, tree.WorkDir(), tc.script)
			want := content(t, tree.WorkDir())
			text, summary := patch(t, tree)
			if len(summary.Omitted) > 0 {
				t.Errorf("left out: %v, want nothing", summary.Omitted)
			}
			if (text == "") != cmp.Equal(before, want) {
				t.Errorf("the patch is %q", text)
			}
			wantApplies(t, root, text, want)
		})
	}
}

// A tree that a hostile command wrote costs what it left, and nothing else.
func TestHostileTree(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		omitted      []omission
	}{
		{"pipe", "rm text; mkfifo text", []omission{{"text", omittedSpecialFile}}},
		{"new pipe", "mkfifo pipe", []omission{{"pipe", omittedSpecialFile}}},
		{"huge file", "truncate -s 100G huge", []omission{{"huge", omittedTooLarge}}},
		{"repository", "mkdir sub; cd sub; git init -q; echo x > f", []omission{{"sub/.git", omittedRepository}}},
		{"name that git refuses", "mkdir .GIT; echo x > .GIT/hooks; echo x > d/git~1",
			[]omission{{".GIT", omittedUnsafeName}, {"d/git~1", omittedUnsafeName}}},
		{"modules link", "ln -s x .gitmodules", []omission{{".gitmodules", omittedUnsafeName}}},
		{"hooks", "git init -q; git config core.fsmonitor 'touch " + "/tmp/never'; git config diff.external false", nil},
		{"closed", "mkdir c; echo x > c/f; chmod 0 c/f c d", nil},
		{"link out", "rm -r d; ln -s / d; rm text; ln -s /etc/passwd text", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			run(t, root, origin)
			tree := made(t, root, root, responses.IsolationCopy)
			run(t, tree.WorkDir(), tc.script)
			text, summary := patch(t, tree)
			if diff := cmp.Diff(tc.omitted, summary.Omitted); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
			want := content(t, root)
			if text != "" {
				file := filepath.Join(t.TempDir(), "diff.patch")
				expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
				run(t, root, "git apply --check '"+file+"'")
			}
			if diff := cmp.Diff(want, content(t, root)); diff != "" {
				t.Errorf("the origin changed:\n%s", diff)
			}
		})
	}
}

// A tree nested deeper than a patch follows is left out there, and removed all the same.
func TestDeepTree(t *testing.T) {
	root := t.TempDir()
	tree := made(t, root, root, responses.IsolationCopy)
	at, err := unix.Open(tree.WorkDir(), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range 1500 {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		expect.NoError(t, err)
		var next int
		next, err = unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	if _, summary := patch(t, tree); len(summary.Omitted) != 1 || summary.Omitted[0].Code != omittedTooDeep {
		t.Errorf("left out: %v, want what is too deep", summary.Omitted)
	}
}

// A copy holds what is not committed too, and leaves out what is no file, and what would lead git elsewhere.
func TestCopy(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "project")
	run(t, root, `mkdir project; cd project; git init -q -b main; echo 1 > a; git add a; git commit -qm 1; echo 2 > a; echo u > u
		mkfifo pipe; mkdir out; echo x > out/x; chmod 750 out`)
	tree, err := Make(t.Context(), Options{Root: root, Origin: dir, SessionID: "sess_1", TurnID: "turn_1", Kind: responses.IsolationCopy,
		Except: []string{filepath.Join(dir, "out")}})
	expect.NoError(t, err)
	got := run(t, tree.WorkDir(), "git status --porcelain; ls -A; git add -A; git commit -qm 2")
	if want := " M a\n?? u\n.git\na\nu\n"; got != want {
		t.Errorf("the private tree:\n%s\nwant:\n%s", got, want)
	}
	expect.NoError(t, tree.Remove())
	expect.Equal(t, "the origin has the commits", run(t, dir, "git log --format=%s"), "1\n")
	run(t, root, "git -C project worktree add -q ../linked")
	tree = made(t, root, filepath.Join(root, "linked"), responses.IsolationCopy)
	expect.Equal(t, "the copy of a linked working tree has", run(t, tree.WorkDir(), "ls -A"), "a\n")
}

// What git would change elsewhere is not in a copy, at any depth, and what git does in the copy stays there.
func TestCopyLeadsNowhere(t *testing.T) {
	const repository = "git init -q -b main p; cd p; echo 1 > a; git add a; git commit -qm 1; echo 2 > a; echo u > u; "
	for name, tt := range map[string]struct{ script, without string }{
		"a working tree of its own":  {repository + "git config core.worktree $PWD", "p/.git"},
		"in one line":                {repository + "echo \"[CORE]WorkTree=$PWD\" >> .git/config", "p/.git"},
		"another configuration":      {repository + "printf '[core]\\n\\tworktree = %s\\n' $PWD > ../c; git config include.path $PWD/../c", "p/.git"},
		"a configuration of a tree":  {repository + "printf '[core]\\n\\tworktree = %s\\n' $PWD > .git/config.worktree", "p/.git"},
		"a linked working tree":      {repository + "git worktree add -q ../w", "w/.git"},
		"what is known of that tree": {repository + "git worktree add -q ../w", "p/.git/worktrees"},
		"a link in a directory":      {repository + "cd ..; mkdir n; ln -s ../p/.git n/.git", "n/.git"},
		"shared objects":             {repository + "mv .git/objects ../o; ln -s ../../o .git/objects", "p/.git"},
		"linked references":          {repository + "mv .git/refs/heads ../h; ln -s ../../../h .git/refs/heads", "p/.git"},
		"a common directory":         {repository + "cd ..; git init -q q; echo ../../p/.git > q/.git/commondir", "q/.git"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			run(t, root, tt.script)
			before := run(t, root, "find . -path ./.agentd-turns -prune -o -type f -not -name index -print | sort | xargs sha256sum")
			tree := made(t, root, root, responses.IsolationCopy)
			if _, err := os.Lstat(filepath.Join(tree.WorkDir(), tt.without)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is in the copy: %v", tt.without, err)
			}
			run(t, tree.WorkDir(), "for d in p q n w; do (cd $d && git checkout -- .; git clean -fd; echo x > e; git add -A; "+
				"git commit -m evil) >/dev/null 2>&1 || true; done")
			if after := run(t, root, "find . -path ./.agentd-turns -prune -o -type f -not -name index -print | sort | xargs sha256sum"); after != before {
				t.Errorf("the origin was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// A turn that removes its tree has removed all files.
func TestTreeThatIsGone(t *testing.T) {
	for _, script := range []string{"rm -rf tree", "rm -rf tree; touch tree", "rm -rf tree; ln -s / tree"} {
		root := t.TempDir()
		run(t, root, origin)
		tree := made(t, root, root, responses.IsolationCopy)
		run(t, filepath.Dir(tree.WorkDir()), script)
		if text, summary := patch(t, tree); summary.Files == 0 || !strings.Contains(text, "deleted file mode") {
			t.Errorf("%s: the patch of %d files is\n%s", script, summary.Files, text)
		}
	}
}

// A worktree has the files of HEAD, and git works in it without touching the origin.
func TestWorktree(t *testing.T) {
	for _, tc := range []struct{ name, script, dir string }{
		{"loose objects", "", "p"},
		{"packed objects", "git -C p gc -q", "p"},
		{"deltas", "for i in 1 2 3; do seq 1 20000 > p/big; echo $i >> p/big; git -C p add -A; git -C p commit -qm $i; done;" +
			"git -C p repack -adqf; git -C p checkout -q HEAD~1", "p"},
		{"detached", "git -C p checkout -q --detach", "p"},
		{"shallow", "git clone -q --depth 1 file://$PWD/p q", "q"},
		{"directory within", "", "p/d"},
		{"packed references", "git -C p pack-refs --all", "p"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			run(t, root, "mkdir p; cd p; git init -q -b main;"+origin+"git add -A; git commit -qm first")
			run(t, root, tc.script)
			repo, _, _ := strings.Cut(tc.dir, "/")
			repo = filepath.Join(root, repo)
			want := content(t, repo)
			before := run(t, repo, "git rev-parse HEAD; git status --porcelain")
			run(t, repo, "echo dirty >> text; echo u > untracked")
			tree := made(t, root, filepath.Join(root, tc.dir), responses.IsolationWorktree)
			top := tree.WorkDir()
			if _, within, ok := strings.Cut(tc.dir, "/"); ok {
				top = strings.TrimSuffix(top, "/"+within)
			}
			if diff := cmp.Diff(want, content(t, top)); diff != "" {
				t.Fatalf("the private tree (-want +got):\n%s", diff)
			}
			expect.Equal(t, "git", run(t, top, "git rev-parse HEAD; git status --porcelain"), before)
			run(t, top, "echo new > new; echo x > x.log; mkdir build; echo x > build/x; rm d/b; git add -A;"+
				"git commit -qm more")
			text, _ := patch(t, tree)
			after := content(t, top)
			delete(after, "x.log") // ignored
			delete(after, "build/x")
			run(t, repo, "git checkout -q -f; rm untracked")
			wantApplies(t, repo, text, after)
			if got := run(t, repo, "git rev-parse HEAD"); got != strings.SplitAfter(before, "\n")[0] {
				t.Errorf("the origin is at %s, was at %s", got, before)
			}
		})
	}
}

// What a turn committed elsewhere than on what it left checked out is named, whatever the references are. References
// that the origin of a copy has are not named; those that the turn moved are.
func TestCommitsElsewhere(t *testing.T) {
	const (
		plain   = "git init -q -b main;" + origin + "git add -A; git commit -qm first"
		several = plain + "; git checkout -qb side; git commit -qm second --allow-empty; git tag v1; git branch packed; " +
			"echo 2 > text; git stash -q; git checkout -q --detach; git commit -qm third --allow-empty; git branch tip; " +
			"git checkout -q main"
	)
	both := []string{responses.IsolationWorktree, responses.IsolationCopy}
	for _, tc := range []struct {
		name, origin, script string
		kinds, want          []string
	}{
		{"none", plain, "git branch same; git commit -qam x --allow-empty; git branch copy", both, nil},
		{"a branch, a tag and a stash", plain, "git checkout -qb f; git commit -qm x --allow-empty; git tag v1; " +
			"echo 2 > text; git stash -q; git checkout -q main", both, []string{"refs/heads/f", "refs/stash", "refs/tags/v1"}},
		{"packed", plain, "git checkout -qb f; git commit -qm x --allow-empty; git checkout -q main; git pack-refs --all",
			both, []string{"refs/heads/f"}},
		{"detached", plain, "git checkout -q --detach; git commit -qm x --allow-empty; git branch same", both, nil},
		{"no references", plain, "rm -r .git/refs; mkfifo .git/refs; rm .git/HEAD; mkfifo .git/HEAD", both, nil},
		{"links", plain, "ln -s /etc/passwd .git/refs/heads/x; ln -s . .git/refs/heads/loop", both, nil},
		{"of the origin", several, "git pack-refs --all; git branch copy side; git branch -f tip main; git checkout -q side",
			both[1:], nil},
		{"moved", several, "git checkout -q side; git commit -qm x --allow-empty; git checkout -q main", both[1:],
			[]string{"refs/heads/side"}},
		{"of a remote", several, "git update-ref refs/remotes/o/x $(git commit-tree -m x HEAD^{tree})", both[1:], nil},
	} {
		for _, kind := range tc.kinds {
			t.Run(tc.name+" "+kind, func(t *testing.T) {
				root := t.TempDir()
				run(t, root, tc.origin)
				tree := made(t, root, root, kind)
				run(t, tree.WorkDir(), tc.script)
				var names []string
				_, summary := patch(t, tree)
				for _, o := range summary.Omitted {
					if o.Code == omittedCommits {
						names = append(names, o.Path)
					}
				}
				if diff := cmp.Diff(tc.want, names); diff != "" {
					t.Errorf("commits elsewhere (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// What cannot be isolated is refused with the field and a remedy, and leaves nothing.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, kind, script, param string }{
		{"no repository", responses.IsolationWorktree, "", "holon.isolation"},
		{"no commit", responses.IsolationWorktree, "git init -q", "holon.isolation"},
		{"repository elsewhere", responses.IsolationWorktree, "git init -q --separate-git-dir ../elsewhere",
			"holon.isolation"},
		{"pipe as HEAD", responses.IsolationWorktree, "git init -q; rm .git/HEAD; mkfifo .git/HEAD", "holon.isolation"},
		{"missing object", responses.IsolationWorktree, "git init -q; echo 1 > a; git add a; git commit -qm 1;" +
			"rm -f .git/objects/$(git rev-parse HEAD:a | sed 's,^..,&/,')", "holon.isolation"},
		{"HEAD out of the repository", responses.IsolationWorktree, "git init -q; echo 'ref: refs/../../../x' > .git/HEAD",
			"holon.isolation"},
		{"sha256", responses.IsolationWorktree, "git init -q --object-format=sha256; echo 1 > a; git add a;" +
			"git commit -qm 1", "holon.isolation"},
		{"tree with .git", responses.IsolationWorktree, `git init -q; b=$(echo x | git hash-object -w --stdin)
			t=$(printf "100644 blob $b\tx\n" | git mktree)
			bad=$(printf "040000 tree $t\t.git\n" | git mktree); c=$(git commit-tree -m x $bad)
			git update-ref HEAD $c`, "holon.isolation"},
		{"too large", responses.IsolationCopy, "truncate -s 3G big", "holon.isolation"},
		{"too deep", responses.IsolationCopy, "mkdir -p $(yes d/ | head -200 | tr -d '\\n')", "holon.isolation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "p")
			run(t, root, "mkdir p")
			run(t, dir, tc.script)
			_, err := Make(t.Context(), Options{Root: root, Origin: dir, SessionID: "sess_1", TurnID: "turn_1", Kind: tc.kind})
			e, ok := errors.AsType[*responses.Error](err)
			if !ok || e.Param != tc.param || e.Hint == "" {
				t.Errorf("error %v (%+v), want one about %s with a hint", err, e, tc.param)
			}
			if _, err := os.Lstat(filepath.Join(root, turnsName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the refusal: %v, want no private trees", err)
			}
		})
	}
}
