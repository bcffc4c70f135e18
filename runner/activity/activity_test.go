package activity_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"holon/runner/activity"
	"holon/test/expect"
)

func TestOf(t *testing.T) {
	const git = "diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n+w\n" +
		"--- a/old\n+++ /dev/null\n-gone\n"
	const own = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-1\n+2\n" +
		"*** Delete File: d.txt\n*** End Patch"
	quoted := func(key, value string) string {
		data, err := json.Marshal(map[string]string{key: value})
		expect.NoError(t, err)
		return string(data)
	}
	for name, c := range map[string]struct{ tool, arguments, want string }{
		"command":          {"ExecCommand", `{"cmd":"make\ntest","yield_time_ms":5}`, "$ make test"},
		"hostile command":  {"ExecCommand", `{"cmd":"a\u001b[2Jb"}`, "$ ab"},
		"cut command":      {"ExecCommand", `{"cmd":"make tes…`, "$ make tes"},
		"cut in an escape": {"ExecCommand", `{"cmd":"make \u00…`, "$ make"},
		"commands":         {"ExecCommandBatch", `{"items":[{"cmd":"ls"},{"cmd":"pwd"}]}`, "$ ls ; pwd"},
		"git's patch":      {"ApplyPatch", quoted("patch", git), "edit a.go +2 −1, old +0 −1"},
		"our patch":        {"ApplyPatch", quoted("patch", own), "edit a.txt +1 −0, b.txt → c.txt +1 −1, delete d.txt"},
		"cut patch":        {"ApplyPatch", quoted("patch", own)[:80] + "…", "edit a.txt +1 −0, b.txt +0 −0"},
		"a rename":         {"ApplyPatch", quoted("patch", "--- a/r\n+++ b/s\n-1\n+2\n"), "edit r → s +1 −1"},
		"a new file":       {"ApplyPatch", quoted("patch", "--- /dev/null\n+++ b/s\n+2\n"), "edit s +1 −0"},
		"a deletion":       {"ApplyPatch", quoted("patch", "*** Begin Patch\n*** Delete File: todo\n"), "delete todo"},
		"a hidden name":    {"ApplyPatch", quoted("patch", "*** Delete File: x\u202egpj\n"), `delete "x\342\200\256gpj"`},
		"no patch":         {"ApplyPatch", `{}`, "edit"},
		"many files": {"ApplyPatch", quoted("patch", strings.Repeat("*** Add File: f\n+x\n", 9)),
			"edit f +1 −0, f +1 −0, f +1 −0, f +1 −0, f +1 −0, and 4 more"},
		"another tool": {"server__search", `{"query":"x y","limit":3,"deep":{"a":[1]}}`,
			`server__search deep: {"a":[1]}, limit: 3, query: x y`},
		"none":            {"TaskList", "", "TaskList"},
		"not an object":   {"TaskList", "[1]", "TaskList"},
		"hostile tool":    {"no\x1b[2Jtool\n", `{"\u202ea":"\u0007"}`, "notool a:"},
		"a command of no": {"ExecCommand", `{"cmd":7}`, "ExecCommand cmd: 7"},
	} {
		if got := activity.Of(c.tool, c.arguments); got.Text != c.want {
			t.Errorf("%s: Of(%q, %q).Text = %q, want %q", name, c.tool, c.arguments, got.Text, c.want)
		}
	}
	want := []string{"-y", "+z", "+w", "-gone"}
	if got := activity.Of("ApplyPatch", quoted("patch", git)).Diff; !slices.Equal(got, want) {
		t.Errorf("Diff = %q, want %q", got, want)
	}
}

func TestOutput(t *testing.T) {
	const canonical = `{"result":{"stdout_preview":"a\n\nb\n\u001b[2Jc","stderr_preview":"d\n"}}`
	if got := activity.Output(json.RawMessage(canonical), 3); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("Output(…, 3) = %q, want the last three lines", got)
	}
	if got := activity.Output(nil, 3); len(got) != 0 {
		t.Errorf("Output(nil, 3) = %q", got)
	}
}

// The text of a command is whole: a terminal cuts it to its own width.
func TestWholeCommand(t *testing.T) {
	cmd := strings.Repeat("echo ", 100) + "end"
	expect.Equal(t, "Text", activity.Of("ExecCommand", `{"cmd":"`+cmd+`"}`).Text, "$ "+cmd)
}
