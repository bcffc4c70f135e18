package fetch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
)

func TestParseRemote(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		source, ref, path string
		url, scheme       string
		tree              string
		param             string // of the error, "" for none
	}{
		{source: "https://example.org/a/b.git", url: "https://example.org/a/b.git", scheme: "https"},
		{source: "https://example.org/a", ref: "v1.2", path: "/skills/x/", url: "https://example.org/a",
			scheme: "https"},
		{source: "ssh://git@example.org/a", url: "ssh://git@example.org/a", scheme: "ssh"},
		{source: "git@example.org:a/b.git", url: "git@example.org:a/b.git", scheme: "ssh"},
		{source: "file:///a/b", url: "file:///a/b", scheme: "file"},
		{source: "http://127.0.0.1:80/a", url: "http://127.0.0.1:80/a", scheme: "http"},
		{source: "http://[::1]/a", url: "http://[::1]/a", scheme: "http"},
		{source: "https://github.com/o/r", url: "https://github.com/o/r", scheme: "https"},
		{source: "https://github.com/o/r/tree/main/skills/x", url: "https://github.com/o/r", scheme: "https",
			tree: "main/skills/x"},
		{source: "https://github.com/o/r.git/tree/main", url: "https://github.com/o/r", scheme: "https", tree: "main"},
		{source: "https://github.com/o/r/tree", param: "SOURCE"},
		{source: "https://github.com/o/r/blob/main/x", param: "SOURCE"},
		{source: "https://github.com/o/r/tree/main/../x", param: "SOURCE"},
		{source: "https://github.com/o/r/tree/main/.git/x", param: "SOURCE"},
		{source: "https://github.com/o/r/tree/-x/y", param: "SOURCE"},
		{source: "https://github.com/o/r/tree/main/x", ref: "main", param: "SOURCE"},
		{source: "http://example.org/a", param: "SOURCE"},
		{source: "git://example.org/a", param: "SOURCE"},
		{source: "ext::sh -c x", param: "SOURCE"},
		{source: "ext::sh", param: "SOURCE"},
		{source: "ssh://-oProxyCommand=x/a", param: "SOURCE"},
		{source: "https:///a", param: "SOURCE"},
		{source: "file://host/a", param: "SOURCE"},
		{source: "https://u:p@example.org/a", param: "SOURCE"},
		{source: "https://example.org/a?token=x", param: "SOURCE"},
		{source: "https://example.org/a\n", param: "SOURCE"},
		{source: "https://example.org/a", ref: "--upload-pack=x", param: "--ref"},
		{source: "https://example.org/a", ref: "a..b", param: "--ref"},
		{source: "https://example.org/a", path: "../x", param: "--path"},
		{source: "https://example.org/a", path: "x/.GIT/y", param: "--path"},
	} {
		r, err := Parse(tc.source, tc.ref, tc.path)
		if tc.param != "" {
			if e, ok := errors.AsType[*git.Error](err); !ok || e.Param != tc.param || e.Code != git.CodeInvalidOption ||
				e.Hint == "" {
				t.Errorf("%q is %+v with %#v, want a refusal of %s", tc.source, r, err, tc.param)
			}
			continue
		}
		if err != nil || r.URL != tc.url || r.scheme() != tc.scheme || strings.Join(r.tree, "/") != tc.tree ||
			r.Path != strings.Trim(tc.path, "/") {
			t.Errorf("%q is %+v (%v), want %+v", tc.source, r, err, tc)
		}
		if !IsURL(tc.source) {
			t.Errorf("%q is taken for a folder", tc.source)
		}
	}
	for _, folder := range []string{"skills/x", "/a/b", "./x:y", "x", "../x", "~/x"} {
		if IsURL(folder) {
			t.Errorf("%q is taken for a repository", folder)
		}
	}
}

func TestChooseRef(t *testing.T) {
	t.Parallel()
	const id = "0123456789012345678901234567890123456789"
	refs := []byte(strings.Join([]string{id + "\tHEAD", id + "\trefs/heads/main", id + "\trefs/heads/feature/x",
		id + "\trefs/tags/v1", ""}, "\n"))
	for _, tc := range []struct {
		remote    Source
		ref, path string
	}{
		{Source{}, "HEAD", ""},
		{Source{Path: "p"}, "HEAD", "p"},
		{Source{Ref: "main", Path: "p"}, "refs/heads/main", "p"},
		{Source{Ref: "v1"}, "refs/tags/v1", ""},
		{Source{Ref: id}, id, ""},
		{Source{tree: []string{"main", "a", "b"}}, "refs/heads/main", "a/b"},
		{Source{tree: []string{"feature", "x", "a"}}, "refs/heads/feature/x", "a"},
		{Source{tree: []string{id, "a"}}, id, "a"},
		{Source{Ref: "none"}, "", ""},
		{Source{tree: []string{"feature", "y"}}, "", ""},
	} {
		ref, path, err := tc.remote.choose(refs)
		if ref != tc.ref || path != tc.path || (err == nil) != (tc.ref != "") {
			t.Errorf("%+v: got %q and %q (%v)", tc, ref, path, err)
		}
	}
}

// gitIn runs git in a test repository.
func gitIn(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// fetchTree fetches a directory of a repository whose tree is made of raw entries, which git itself would not commit.
func fetchTree(t *testing.T, tree string, o Options) (*Result, error) {
	t.Helper()
	source := t.TempDir()
	gitIn(t, source, "", "init", "-q", "-b", "main")
	blob := gitIn(t, source, "hello\n", "hash-object", "-w", "--stdin")
	link := gitIn(t, source, "a", "hash-object", "-w", "--stdin")
	commit := gitIn(t, source, "", "commit-tree", "-m", "x",
		gitIn(t, source, strings.NewReplacer("BLOB", blob, "LINK", link, "COMMIT",
			strings.Repeat("1", 40)).Replace(tree), "mktree", "--missing"))
	gitIn(t, source, "", "update-ref", "refs/heads/main", commit)
	if o.Dir = filepath.Join(t.TempDir(), "files"); o.Files == 0 {
		o.Files, o.Bytes, o.Pack = 100, 1<<20, 1<<20
	}
	expect.NoError(t, os.Mkdir(o.Dir, 0o700))
	got, err := Source{URL: "file://" + source, Ref: "main"}.Fetch(t.Context(), o)
	if _, left := os.Lstat(o.Dir + ".git"); !errors.Is(left, os.ErrNotExist) {
		t.Errorf("the repository is left behind: %v", left)
	}
	if err != nil {
		if entries, _ := os.ReadDir(o.Dir); len(entries) != 0 {
			t.Errorf("refused, and %v was written", entries)
		}
		return nil, err
	}
	expect.Equal(t, "commit", got.Commit, commit)
	return got, nil
}

func TestFetch(t *testing.T) {
	t.Parallel()
	got, err := fetchTree(t, "100644 blob BLOB\ta\n100755 blob BLOB\tb\n120000 blob LINK\tc\n", Options{})
	if err != nil || !slices.Equal(got.Files, []string{"a", "b", "c"}) {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	many := ""
	for i := range 10 {
		many += fmt.Sprintf("100644 blob BLOB\tf%d\n", i)
	}
	for name, tc := range map[string]struct {
		tree string
		o    Options
		code string
	}{
		"a submodule":      {tree: "160000 commit COMMIT\tm\n", code: git.CodeUnsafePath},
		"a parent":         {tree: "100644 blob BLOB\t..\n"},
		"a repository":     {tree: "100644 blob BLOB\t.git\n"},
		"too many files":   {tree: many, o: Options{Files: 9, Bytes: 1 << 20, Pack: 1 << 20}, code: git.CodeTooLarge},
		"too many bytes":   {tree: many, o: Options{Files: 100, Bytes: 59, Pack: 1 << 20}, code: git.CodeTooLarge},
		"too much fetched": {tree: many, o: Options{Files: 100, Bytes: 1 << 20, Pack: 10}, code: git.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetchTree(t, tc.tree, tc.o)
			if e, ok := errors.AsType[*git.Error](err); !ok || tc.code != "" && e.Code != tc.code || e.Hint == "" {
				t.Errorf("got %#v, want the code %s and a hint", err, tc.code)
			}
		})
	}
}

// Nothing that a repository's owner configured is run.
func TestFetchRunsNothing(t *testing.T) {
	t.Parallel()
	source, marker := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	gitIn(t, source, "", "init", "-q", "-b", "main")
	for name, text := range map[string]string{"a": "x", ".gitattributes": "* filter=evil\na export-ignore\n"} {
		expect.NoError(t, os.WriteFile(filepath.Join(source, name), []byte(text), 0o600))
	}
	gitIn(t, source, "", "add", "-A")
	gitIn(t, source, "", "commit", "-q", "-m", "x")
	gitIn(t, source, "", "config", "filter.evil.smudge", "touch "+marker)
	for _, hook := range []string{"post-checkout", "post-merge", "reference-transaction"} {
		if err := os.WriteFile(filepath.Join(source, ".git", "hooks", hook), []byte("#!/bin/sh\ntouch "+marker+"\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "files")
	expect.NoError(t, os.Mkdir(dir, 0o700))
	got, err := Source{URL: "file://" + source}.Fetch(t.Context(),
		Options{Dir: dir, Files: 10, Bytes: 1 << 20, Pack: 1 << 20})
	if err != nil || !slices.Equal(got.Files, []string{".gitattributes", "a"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := os.Lstat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Error("something of the repository was run")
	}
}
