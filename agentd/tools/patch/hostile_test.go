package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/tools"
	"holon/test/expect"
)

func create(path string) string {
	return "--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+pwned\n"
}

func change(path string) string {
	return "--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1 @@\n-x\n+pwned\n"
}

// TestStaysInside tries the ways out of the tree and into what is not a file.
func TestStaysInside(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "tree")
	files{
		"secret": "x\n", "tree/f": "x\n", "tree/d/f": "x\n", "tree/.git/config": "x\n",
		"tree/.git/hooks/post-commit": "x\n",
		"tree/sub/.git":               "gitdir: elsewhere\n", "tree/out": "->..", "tree/abs": "->" + outer,
		"tree/link":    "->f",
		"tree/dirlink": "->d", "tree/dangling": "->../new", "tree/todev": "->/dev/null", "tree/togit": "->.git",
	}.make(t, outer)
	expect.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	before := read(t, outer)
	paths := map[string]string{
		"../secret": tools.KindRootViolation, "d/../../secret": tools.KindRootViolation,
		"d/..":        tools.KindRootViolation,
		"/etc/passwd": tools.KindRootViolation, "//etc/passwd": tools.KindRootViolation,
		outer + "/secret": tools.KindRootViolation, dir + "/../secret": tools.KindRootViolation,
		"out/secret": kindUnsafePath, "abs/secret": kindUnsafePath, "link": kindUnsafePath, "dirlink/f": kindUnsafePath,
		"dangling": kindUnsafePath, "todev": kindUnsafePath, "togit/config": kindUnsafePath, "fifo": kindUnsafePath,
		"fifo/f": kindUnsafePath,
		"f/g":    kindUnsafePath, "d": kindUnsafePath, "d/": kindUnsafePath,
		".git/config": kindUnsafePath, ".GIT/config": kindUnsafePath, ".Git/hooks/post-commit": kindUnsafePath,
		"./.git/config": kindUnsafePath,
		"d/.git/config": kindUnsafePath, "sub/.git": kindUnsafePath, ".git": kindUnsafePath,
		".git./config": kindUnsafePath, ".git /config": kindUnsafePath,
		"git~1/config": kindUnsafePath, ".g\u200cit/config": kindUnsafePath, ".git:stream/config": kindUnsafePath,
		strings.Repeat("d/", 3000) + "f": kindUnsafePath,
	}
	for path, kind := range paths {
		patches := map[string]string{
			"create": create(path), "change": change(path),
			"delete":    "--- a/" + path + "\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
			"move from": "*** Begin Patch\n*** Update File: " + path + "\n*** Move to: g\n*** End Patch\n",
			"envelope":  "*** Begin Patch\n*** Add File: " + path + "\n+pwned\n*** End Patch\n",
			"move to":   "*** Begin Patch\n*** Update File: f\n*** Move to: " + path + "\n*** End Patch\n",
		}
		for how, text := range patches {
			if strings.HasPrefix(path, "/") && how != "envelope" && !strings.Contains(how, "r") {
				continue // "b//etc" is another path
			}
			_, bad := apply(context.Background(), dir, text)
			if bad == nil {
				t.Errorf("%s %.60q: accepted", how, path)
			} else if bad.Kind != kind && !strings.HasPrefix(path,
				"/") && !(strings.HasSuffix(path, "/") && bad.Kind == kindSyntax) {
				t.Errorf("%s %.60q: %s (%s), want %s", how, path, bad.Kind, bad.Message, kind)
			}
		}
	}
	for _, name := range []string{`"b/d\nf"`, `"b/\033[31m"`, `"b/..\057secret"`, `"b/.gi\164/config"`} {
		if _, bad := apply(context.Background(), dir,
			"--- /dev/null\n+++ "+name+"\n@@ -0,0 +1 @@\n+pwned\n"); bad == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if diff := cmp.Diff(before, read(t, outer)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

func TestInnocentNamesWork(t *testing.T) {
	for _, path := range []string{".gitignore", ".github/workflows/x.yml", "git/x", "a.git/x", "..x", "...", "d/..x",
		".gitmodules", "-x", "x y", "fä", "+x"} {
		dir := t.TempDir()
		if _, bad := apply(context.Background(), dir, create(path)); bad != nil {
			t.Errorf("%q: %s", path, bad.Message)
			continue
		}
		if diff := cmp.Diff(files{path: "pwned\n"}, read(t, dir)); diff != "" {
			t.Errorf("%q:\n%s", path, diff)
		}
	}
	dir := t.TempDir()
	files{"f": "x\n"}.make(t, dir)
	path := filepath.Join(dir, "f")
	if _, bad := apply(context.Background(), dir, "--- "+path+"\n+++ "+path+"\n@@ -1 +1 @@\n-x\n+y\n"); bad != nil {
		t.Errorf("absolute path inside: %s", bad.Message)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	files{"f": abc, "g": "x\n"}.make(t, dir)
	before := read(t, dir)
	text := "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ " +
		"b/big\n@@ -0,0 +1 @@\n+" + strings.Repeat("b", 128<<10) + "\n"
	_, bad := apply(context.Background(), dir, text)
	switch {
	case bad == nil:
		t.Fatal("bad = nil, want a value")
	case bad.Kind != kindWrite:
		t.Fatalf("bad.Kind = %q, want %q", bad.Kind, kindWrite)
	case !bad.Retryable:
		t.Fatal("bad.Retryable = false, want true")
	case !strings.Contains(bad.RecoveryHint, "disk is full"):
		t.Fatalf(`bad.RecoveryHint = %q, want it to contain "disk is full"`, bad.RecoveryHint)
	}
	if diff := cmp.Diff(before, read(t, dir)); diff != "" {
		t.Errorf("not put back:\n%s", diff)
	}
}

func TestHardLinksAreNotWrittenThrough(t *testing.T) {
	outer := t.TempDir()
	files{"secret": "x\n", "tree/d": "y\n"}.make(t, outer)
	dir := filepath.Join(outer, "tree")
	expect.NoError(t, os.Link(filepath.Join(outer, "secret"), filepath.Join(dir, "f")))
	if _, bad := apply(context.Background(), dir, change("f")); bad != nil {
		t.Fatal(bad)
	}
	want := files{"secret": "x\n", "tree/d": "y\n", "tree/f": "pwned\n"}
	if diff := cmp.Diff(want, read(t, outer)); diff != "" {
		t.Error(diff)
	}
}

func TestOwnerAndModeStay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	dir := t.TempDir()
	files{"f": "x\n"}.make(t, dir)
	path := filepath.Join(dir, "f")
	expect.NoError(t, os.Chown(path, 1234, 5678))
	expect.NoError(t, os.Chmod(path, 0o640))
	if _, bad := apply(context.Background(), dir, change("f")); bad != nil {
		t.Fatal(bad)
	}
	fi, err := os.Lstat(path)
	expect.NoError(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	expect.Equal(t, "st.Uid", st.Uid, 1234)
	expect.Equal(t, "st.Gid", st.Gid, 5678)
	expect.Equal(t, "fi.Mode()", fi.Mode(), 0o640)
}

func TestFailureShowsTheFile(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "line number %d\n", i+1)
	}
	files{"f": text.String(), "g": abc}.make(t, dir)
	_, bad := apply(context.Background(), dir,
		"--- a/f\n+++ b/f\n@@ -10,3 +10,3 @@\n line number 99\n-line number one hundred\n+line number C\n line "+
			"number 101\n--- a/g\n+++ b/g\n@@ -2 +2 @@\n-x\n+y\n")
	if bad == nil {
		t.Fatal("accepted")
	}
	data, err := json.Marshal(bad)
	expect.NoError(t, err)
	for _, part := range []string{`"99|line number 99"`, `"100|line number 100"`, `"101|line number 101"`,
		`"failed_files":2`, `g: hunk 1 (patch line 10) has no line in common with the file`, `"2|b"`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("%s is missing in %s", part, data)
		}
	}
	_, bad = apply(context.Background(), dir, "--- a/g\n+++ b/g\n@@ -2,2 +2,2 @@\n-z\n+b\n c\n")
	if bad == nil || bad.Details["hunks"].([]map[string]any)[0]["already_applied_at_line"] != 2 {
		t.Errorf("an applied change is not recognised: %+v", bad)
	}
}

// Patches made to be slow end within the bounds of work.
func TestCostIsBounded(t *testing.T) {
	dir := t.TempDir()
	files{"f": strings.Repeat("\n", 1<<20), "g": strings.Repeat("x\n", 1<<20)}.make(t, dir)
	var places strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&places, "@@ -%d +%d @@\n-x \n+y\n", i+1, i+1)
	}
	head := "--- a/f\n+++ b/f\n"
	for name, text := range map[string]string{
		"many hunks":         head + strings.Repeat("@@\n-x\n+y\n", 15_000),
		"all lines alike":    head + "@@\n" + strings.Repeat(" \n", 500_000) + "-x\n",
		"many places":        "--- a/g\n+++ b/g\n" + places.String(),
		"signatures":         head + "@@\n" + strings.Repeat("--\n1.0\n", 400_000),
		"blank lines":        head + strings.Repeat("\n", 3<<20),
		"headers and blanks": strings.Repeat("--- a\n+++ b\n\n\n\n\n", 100_000),
		"anchors": "*** Begin Patch\n*** Update File: f\n" + strings.Repeat("@@ nowhere\n", 100_000) +
			"-x\n+y\n",
		"many files": strings.Repeat(change("f"), maxFiles+1),
		"quotes":     "--- \"" + strings.Repeat("\\", 1<<20) + "\n+++ b/f\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, bad := apply(t.Context(), dir, text); bad == nil {
				t.Error("accepted")
			}
		})
	}
}

// runTool runs the tool on a tree by way of a registry.
func runTool(t *testing.T, dir, patch string) tools.Outcome {
	t.Helper()
	tool, err := New()
	expect.NoError(t, err)
	reg, err := tools.NewRegistry(tool)
	expect.NoError(t, err)
	args, err := json.Marshal(arguments{Patch: patch})
	expect.NoError(t, err)
	o := reg.Run(t.Context(), tools.Env{WorkDir: dir},
		tools.Call{ID: "c", Name: name, Arguments: args})
	if o.Fault != nil || o.Canonical.Error != nil {
		t.Fatalf("%v, %+v", o.Fault, o.Canonical.Error)
	}
	return o
}

func TestBothFormsOfAResult(t *testing.T) {
	dir := t.TempDir()
	files{"d/f000": "pwned\n", "d/f001": "pwned\n"}.make(t, dir)
	o := runTool(t, dir, "diff --git a/d/f000 b/d/f000\nnew mode 100755\n--- a/d/f000\n+++ b/d/f000\n"+
		"@@ -7 +7 @@\n-pwned \n+x\n*** Update File: d/f001\n*** Move to: g\n")
	want := "patch applied: 2 files changed\nM d/f000\nR d/f001 -> g\nTolerated:\n- d/f000: the mode 100755 was not " +
		"set; use chmod\n- d/f000: hunk 1: spaces or line endings at line ends differ"
	if diff := cmp.Diff(want, o.Rendered); diff != "" {
		t.Error(diff)
	}
	canonical := `{"changed_files":[{"action":"modify","path":"d/f000"},{"action":"move","path":"g",` +
		`"from_path":"d/f001"}],"changed_paths":["d/f000","g"],"changed_file_count":2,` +
		`"ignored_metadata":[{"path":"d/f000","kind":"new_mode","value":"100755"}],` +
		`"diagnostics":[{"path":"d/f000","kind":"mode","message":"the mode 100755 was not set; use chmod"},` +
		`{"path":"d/f000","kind":"trailing_space","message":"hunk 1: spaces or line endings at line ends ` +
		`differ"}],"summary_text":"patch applied: 2 files changed"}`
	if diff := cmp.Diff(canonical, string(o.Canonical.Result)); diff != "" {
		t.Error(diff)
	}
}
