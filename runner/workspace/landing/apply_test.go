package landing

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/internal/folder"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// patchFor runs an agent's script in a tree of dir and returns the patch file
// and the directory with the contents it starts from.
func patchFor(t *testing.T, options workspace.Options, script string) (patch, objects string) {
	t.Helper()
	tree := acquire(t, options)
	gittest.Run(t, tree.Dir(), "sh", "-ec", script)
	out := t.TempDir()
	patch, objects = filepath.Join(out, "diff.patch"), filepath.Join(out, "objects")
	diff, err := tree.Diff(t.Context(), workspace.DiffOptions{Patch: patch, Objects: objects})
	expect.NoError(t, err)
	if len(diff.Files) == 0 {
		t.Fatal("the script changed nothing")
	}
	expect.NoError(t, tree.Release(t.Context()))
	return patch, objects
}

func TestUserApply(t *testing.T) {
	t.Parallel()
	repo := filepath.Join(t.TempDir(), "repo")
	base := map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "d/b.txt": "b1\nb2\nb3\nb4\nb5\nb6\n",
		"gone": "gone\n", "l": "-> a.txt",
		"bin": "\x00\x01\x02\x03", "d/e/deep": "x\n", "script": "#!/bin/sh\n", "crlf": "1\r\n2\r\n3\r\n"}
	for _, tc := range []struct {
		name  string
		dirty string // the user's uncommitted changes before the run
		agent string
		user  string // and what the user did meanwhile
		want  string // the same on a copy of the tree as it was before apply; "" means the code
		code  string
		paths []string
	}{
		{name: "plain edit", agent: "echo 10 >> a.txt", want: "echo 10 >> a.txt"},
		{name: "every kind", agent: "sed -i 's/^1$/one/' a.txt; git mv d/b.txt c.txt; sed -i s/b1/B1/ c.txt; rm " +
			"gone; ln -sfn bin l; chmod +x bin; chmod -x script; printf '\\0\\377' >> bin; rm -r d/e; mkdir n; echo " +
			"n > n/n; : > empty",
			want: "sed -i 's/^1$/one/' a.txt; mv d/b.txt c.txt; sed -i s/b1/B1/ c.txt; rm gone; ln -sfn bin l; " +
				"chmod +x bin; chmod -x script; printf '\\0\\377' >> bin; rm -r d; mkdir n; echo n > n/n; : > empty"},
		{name: "merges with the user's edit", agent: "sed -i 's/^1$/one/' a.txt", user: "echo 10 >> a.txt",
			want: "sed -i 's/^1$/one/' a.txt"},
		{name: "merges with the user's commit", agent: "sed -i 's/^1$/one/' a.txt",
			user: "echo 10 >> a.txt; git commit -qam x; echo 11 >> a.txt", want: "sed -i 's/^1$/one/' a.txt"},
		{name: "rename and the user's edit", agent: "git mv a.txt z.txt; sed -i 's/^1$/one/' z.txt",
			user: "echo 10 >> a.txt", want: "mv a.txt z.txt; sed -i 's/^1$/one/' z.txt"},
		{name: "from uncommitted changes", dirty: "echo 10 >> a.txt; echo u > untracked; rm gone",
			agent: "sed -i 's/^1$/one/' a.txt; echo more >> untracked",
			want:  "sed -i 's/^1$/one/' a.txt; echo more >> untracked"},
		{name: "from uncommitted changes that went on", dirty: "echo 10 >> a.txt", agent: "sed -i 's/^1$/one/' a.txt",
			user: "echo 11 >> a.txt", want: "sed -i 's/^1$/one/' a.txt"},
		{name: "from uncommitted changes, committed since", dirty: "echo 10 >> a.txt",
			agent: "sed -i 's/^1$/one/' a.txt", user: "git commit -qam x; git gc -q --prune=now",
			want: "sed -i 's/^1$/one/' a.txt"},
		{name: "applied already", agent: "echo 10 >> a.txt; echo n > n", user: "echo 10 >> a.txt; echo n > n",
			want: ":"},
		{name: "deleted and renamed already", agent: "git rm -q gone; echo n > n; git mv a.txt z.txt; echo 10 >> z.txt; " +
			"rm l; echo l > l; rm crlf; mkdir crlf; echo x > crlf/x",
			user: "rm gone; echo n > n; mv a.txt z.txt; echo 10 >> z.txt; echo mine >> script; rm l; echo l > l; " +
				"rm crlf; mkdir crlf; echo x > crlf/x", want: ":"},
		{name: "deleted already, with changes since", agent: "git mv a.txt z.txt; rm gone bin; echo b7 >> d/b.txt",
			user: "mv a.txt z.txt; sed -i 's/^1$/user/' z.txt; rm gone", want: "rm bin; echo b7 >> d/b.txt"},
		{name: "deleted already, next to a conflict", agent: "rm gone; sed -i 's/^5$/agent/' a.txt",
			user: "rm gone; sed -i 's/^5$/user/' a.txt", code: CodePatchConflict, paths: []string{"a.txt"}},
		{name: "renamed by the agent, deleted by the user", agent: "git mv a.txt z.txt", user: "rm a.txt",
			code: CodePatchConflict, paths: []string{"z.txt"}},
		{name: "file to directory", agent: "rm a.txt; mkdir a.txt; echo x > a.txt/x",
			want: "rm a.txt; mkdir a.txt; echo x > a.txt/x"},
		{name: "directory to file", agent: "rm -r d; echo x > d", want: "rm -r d; echo x > d"},
		{name: "crlf", agent: "printf '4\\r\\n' >> crlf", user: "sed -i 's/^1/one/' crlf",
			want: "printf '4\\r\\n' >> crlf"},
		{name: "odd names", agent: "echo 1 > \"$(printf 'a\\nb')\"; echo 2 > \"$(printf '\\377')\"; echo 3 > '*'; " +
			"echo 4 > ':(top)'; echo 5 > ' \"q\" '",
			want: "echo 1 > \"$(printf 'a\\nb')\"; echo 2 > \"$(printf '\\377')\"; echo 3 > '*'; echo 4 > ':(top)'; " +
				"echo 5 > ' \"q\" '"},

		{name: "conflict", agent: "sed -i 's/^5$/agent/' a.txt; echo n > n", user: "sed -i 's/^5$/user/' a.txt",
			code: CodePatchConflict, paths: []string{"a.txt"}},
		{name: "one of many conflicts", agent: "sed -i 's/^5$/agent/' a.txt; echo 7 >> d/b.txt; rm gone",
			user: "sed -i 's/^5$/user/' a.txt", code: CodePatchConflict, paths: []string{"a.txt"}},
		{name: "deleted by the user", agent: "echo 10 >> a.txt", user: "rm a.txt", code: CodePatchConflict,
			paths: []string{"a.txt"}},
		{name: "deleted by the agent, edited by the user", agent: "rm a.txt d/b.txt", user: "echo 10 >> a.txt",
			code: CodePatchConflict, paths: []string{"a.txt"}},
		{name: "binary conflict", agent: "printf x >> bin", user: "printf y >> bin", code: CodePatchConflict,
			paths: []string{"bin"}},
		{name: "untracked in the way", agent: "echo agent > n; echo 10 >> a.txt", user: "echo user > n",
			code: CodeWouldOverwrite, paths: []string{"n"}},
		{name: "ignored in the way", agent: "echo agent > n", user: "echo n > .gitignore; echo user > n",
			code: CodeWouldOverwrite, paths: []string{"n"}},
		{name: "rename onto an untracked file", agent: "git mv gone n", user: "echo user > n", code: CodeWouldOverwrite,
			paths: []string{"n"}},
		{name: "directory in the way", agent: "echo agent > n", user: "mkdir n; echo user > n/u",
			code: CodeWouldOverwrite, paths: []string{"n"}},
		{name: "directory not empty after all", agent: "rm -r d; echo x > d", user: "echo u > d/untracked",
			code: CodeWouldOverwrite, paths: []string{"d"}},
		{name: "file in the way of a directory", agent: "mkdir n; echo x > n/x", user: "echo user > n",
			code: CodePatchConflict, paths: []string{"n/x"}},
		{name: "link in the way of a directory", agent: "mkdir n; echo x > n/x", user: "ln -s /tmp n",
			code: CodePatchConflict, paths: []string{"n/x"}},
		{name: "directory became a link", agent: "echo x >> d/b.txt", user: "mv d moved; ln -s moved d",
			code: CodePatchConflict, paths: []string{"d/b.txt"}},
		{name: "FIFO in the way", agent: "echo agent > n", user: "mkfifo n", code: CodeWouldOverwrite,
			paths: []string{"n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gittest.FillRepo(t, repo, base)
			gittest.Run(t, repo, "sh", "-ec", ":;"+tc.dirty)
			patch, objects := patchFor(t, workspace.Options{Dir: repo, IncludeDirty: true}, tc.agent)
			gittest.Run(t, repo, "sh", "-ec", ":;"+tc.user)
			expected := filepath.Join(t.TempDir(), "expected")
			if tc.code == "" {
				expect.NoError(t, os.CopyFS(expected, os.DirFS(repo)))
			}
			before, gitBefore := gittest.Fingerprint(t, repo), gittest.Fingerprint(t, filepath.Join(repo, ".git"))

			result, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects})
			if tc.code != "" {
				wantCode(t, err, tc.code)
				if failed, _ := errors.AsType[*git.Error](err); !slices.Equal(failed.Paths, tc.paths) {
					t.Fatalf("paths = %q, want %q (%v)", failed.Paths, tc.paths, err)
				}
				gittest.WantUntouched(t, undated(before), undated(gittest.Fingerprint(t, repo)))
				return
			}
			expect.NoError(t, err)
			gittest.Run(t, expected, "sh", "-ec", tc.want)
			got, want := gittest.Contents(t, repo), gittest.Contents(t, expected)
			for name := range want {
				expect.Equal(t, fmt.Sprintf("%q", name), got[name], want[name])
			}
			if len(got) != len(want) {
				t.Errorf("the tree holds %d files, want %d: %q", len(got), len(want), got)
			}
			if result.Path != repo || len(result.Written)+len(result.Deleted) == 0 && tc.want != ":" {
				t.Errorf("result = %+v", result)
			}
			gittest.WantUntouched(t, gitBefore, gittest.Fingerprint(t, filepath.Join(repo, ".git")))
		})
	}
}

// undated leaves out directories' times, which creating and removing our own directory within them changes.
func undated(fingerprint string) string {
	lines := strings.Split(fingerprint, "\n")
	for i, line := range lines {
		if fields := strings.Split(line, "\" d"); len(fields) == 2 {
			lines[i] = fields[0]
		}
	}
	return strings.Join(lines, "\n")
}

func TestApplyPlainDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "plain")
	gittest.Write(t, dir, map[string]string{"a.txt": "1\r\n2\r\n3\r\n4\r\n5\r\n", ".gitattributes": "* text eol=lf\n",
		"s": "#!/bin/sh\n"})
	patch, objects := patchFor(t, workspace.Options{Dir: dir}, "printf '6\\r\\n' >> a.txt; echo n > n; rm s")
	gittest.Write(t, dir, map[string]string{"a.txt": "one\r\n2\r\n3\r\n4\r\n5\r\n"})
	result, err := Apply(t.Context(), ApplyOptions{Dir: dir, Patch: patch, Objects: objects})
	expect.NoError(t, err)
	got := gittest.Contents(t, dir)
	want := map[string]string{"a.txt": "one\r\n2\r\n3\r\n4\r\n5\r\n6\r\n", ".gitattributes": "* text eol=lf\n",
		"n": "n\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	if !slices.Equal(result.Written, []string{"a.txt", "n"}) || !slices.Equal(result.Deleted, []string{"s"}) {
		t.Fatalf("result = %+v", result)
	}
	before := gittest.Fingerprint(t, dir)
	result, err = Apply(t.Context(), ApplyOptions{Dir: dir, Patch: patch, Objects: objects})
	if err != nil || len(result.Written)+len(result.Deleted) > 0 {
		t.Fatalf("applied again: %+v, %v", result, err)
	}
	gittest.WantUntouched(t, before, gittest.Fingerprint(t, dir))
}

// The user's tree has CRLF line endings where the repository has LF.
func TestApplyConvertsLineEndings(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n", ".gitattributes": "*.txt text eol=crlf\n"})
	gittest.Write(t, repo, map[string]string{"a.txt": "1\r\n2\r\n3\r\n4\r\n5\r\n"})
	gittest.Run(t, repo, "git", "add", "--renormalize", ".")
	patch, objects := patchFor(t, workspace.Options{Dir: repo, IncludeDirty: true}, "echo 6 >> a.txt; echo n > n.txt")
	if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects}); err != nil {
		t.Fatal(err)
	}
	got := gittest.Contents(t, repo)
	if got["a.txt"] != "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n" || got["n.txt"] != "n\r\n" {
		t.Fatalf("files = %q", got)
	}
}

// A patch may name any filter that the user's configuration defines; none runs on what it brings.
func TestApplyRunsNoFilter(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", ".gitattributes": "*.lfs filter=lfs\n"})
	marker := filepath.Join(t.TempDir(), "marker")
	for _, driver := range []string{"lfs", "odd.name=x"} {
		for _, key := range []string{"smudge", "clean"} {
			gittest.Run(t, repo, "git", "config", "filter."+driver+"."+key, "echo run >> "+marker+"; cat")
		}
	}
	gittest.Run(t, repo, "git", "config", "filter.lfs.required", "true")
	gittest.Run(t, repo, "git", "config", "core.hooksPath", filepath.Join(repo, "hooks"))
	gittest.Run(t, repo, "git", "config", "merge.x.driver", "echo run >> "+marker)
	patch, objects := patchFor(t, workspace.Options{Dir: repo},
		"echo x > new.lfs; echo '* filter=odd.name=x merge=x' >> .gitattributes; echo b > b.txt; echo b >> a.txt; "+
			"mkdir hooks; printf '#!/bin/sh\\necho run >> "+marker+"' > hooks/post-index-change; chmod +x hooks/*")
	os.Remove(marker) // filters of the user's ran for the agent or the status, if at all
	if _, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects,
		Confirm: agree}); err != nil {
		t.Fatal(err)
	}
	if got := gittest.Contents(t, repo); got["new.lfs"] != "x\n" || got["b.txt"] != "b\n" {
		t.Fatalf("files = %q", got)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Fatal("a filter ran on the patch's content")
	}
}

func TestApplyRefusesBadPatches(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n"})
	create := func(path string) string {
		return "diff --git " + git.QuotePath("a/"+path) + " " + git.QuotePath("b/"+path) +
			"\nnew file mode 100644\n--- /dev/null\n+++ " + git.QuotePath("b/"+path) + "\n@@ -0,0 +1 @@\n+x\n"
	}
	for _, tc := range []struct{ name, patch, code string }{
		{"garbage", "hello\n", CodeInvalidPatch},
		{"cut off", "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-a\n", CodeInvalidPatch},
		{"git directory", create(".git/hooks/post-checkout"), CodeInvalidPatch},
		{"git directory in disguise", create(".GIT/config"), CodeInvalidPatch},
		{"short name", create("git~1/config"), CodeInvalidPatch},
		{"parent", create("../x"), CodeInvalidPatch},
		{"parent within", create("d/../../x"), CodeInvalidPatch},
		{"absolute", "--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+x\n", CodeInvalidPatch},
		{"through its own link", "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 " +
			"@@\n+/tmp\n\\ No newline at end of file\n" + create("l/x"), CodePatchConflict},
		{"submodule", "diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n+++ b/s\n@@ " +
			"-0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n", CodeInvalidPatch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			patch := filepath.Join(t.TempDir(), "p")
			expect.NoError(t, os.WriteFile(patch, []byte(tc.patch), 0o600))
			before := gittest.Fingerprint(t, repo)
			_, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch})
			wantCode(t, err, tc.code)
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
		})
	}
	t.Run("absent", func(t *testing.T) {
		_, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: filepath.Join(repo, "absent")})
		wantCode(t, err, CodeInvalidPatch)
	})
	t.Run("too large", func(t *testing.T) {
		patch := filepath.Join(t.TempDir(), "p")
		gittest.Write(t, filepath.Dir(patch), map[string]string{"p": ""})
		expect.NoError(t, os.Truncate(patch, 1<<30))
		_, err := Apply(t.Context(), ApplyOptions{Dir: t.TempDir(), Patch: patch})
		wantCode(t, err, git.CodeTooLarge)
	})
	t.Run("empty", func(t *testing.T) {
		patch := filepath.Join(t.TempDir(), "p")
		expect.NoError(t, os.WriteFile(patch, nil, 0o600))
		result, err := Apply(t.Context(), ApplyOptions{Dir: filepath.Join(repo, "d"), Patch: patch})
		if err != nil || result.Path != repo || len(result.Written) > 0 {
			t.Fatalf("result = %+v, %v", result, err)
		}
	})
}

// If any step fails, every file is moved back, with its times.
func TestReplaceUndo(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "d/b.txt": "b\n", "z": "z\n"})
	patch, objects := patchFor(t, workspace.Options{Dir: repo},
		"echo b >> a.txt; rm -r d; mkdir n; echo x > n/x; echo z >> z")
	scratch := t.TempDir()
	m, err := newMerge(t.Context(), repo, scratch, ApplyOptions{Dir: repo, Objects: objects})
	expect.NoError(t, err)
	root, err := folder.Open(repo)
	expect.NoError(t, err)
	defer root.Close()
	before := gittest.Fingerprint(t, repo)
	steps := func() (*ApplyResult, error) {
		if err := errors.Join(m.readPatch(t.Context(), patch), m.look(root), m.fillIndex(t.Context()),
			m.mergeIndex(t.Context())); err != nil {
			t.Fatal(err)
		}
		return &ApplyResult{Written: []string{"a.txt", "n/x", "z"}, Deleted: []string{"d/b.txt"}}, nil
	}
	result, _ := steps()
	p := m.existing["z"]
	p.stat.Ino++ // as if another file had taken its place since
	m.existing["z"] = p
	wantCode(t, m.replace(t.Context(), root, result), codeChangedMeanwhile)
	gittest.WantUntouched(t, undated(before), undated(gittest.Fingerprint(t, repo)))

	m.existing["z"] = placed{kind: absent} // as if it had been created since
	wantCode(t, m.replace(t.Context(), root, result), codeChangedMeanwhile)
	gittest.WantUntouched(t, undated(before), undated(gittest.Fingerprint(t, repo)))
}

// The permissions of a file stay as the user gave them, but for the executable bits that the change is about.
func TestApplyKeepsModes(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"secret": "s\n", "tool": "t\n", "script": "#!/bin/sh\n", "l": "-> tool"})
	patch, objects := patchFor(t, workspace.Options{Dir: repo},
		"echo 2 >>secret; echo 2 >>tool; chmod +x tool; chmod -x script; rm l; echo file >l")
	gittest.Run(t, repo, "chmod", "600", "secret")
	gittest.Run(t, repo, "chmod", "640", "tool")
	gittest.Run(t, repo, "chmod", "750", "script")
	_, err := Apply(t.Context(), ApplyOptions{Dir: repo, Patch: patch, Objects: objects})
	expect.NoError(t, err)
	for name, want := range map[string]os.FileMode{"secret": 0o600, "tool": 0o750, "script": 0o640} {
		info, err := os.Lstat(filepath.Join(repo, name))
		expect.NoError(t, err)
		expect.Equal(t, name, info.Mode().Perm(), want)
	}
}
