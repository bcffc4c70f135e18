package control_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// changed is what agents changed.
type changed struct {
	control.Workspaces
	diffs []view.TreeDiff
}

func (c changed) Diff(context.Context, string, string) ([]view.TreeDiff, error) { return c.diffs, nil }

// The patch of an agent's change is answered as far as it was asked for.
func TestPatchOfWorkspace(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	path := filepath.Join(t.TempDir(), "change.patch")
	expect.NoError(t, os.WriteFile(path, []byte("+new\n"), 0o600))
	none := []state.FileChange{}
	r.options.Workspaces = changed{diffs: []view.TreeDiff{{Changes: state.Diff{Patch: path, PatchBytes: 5, Files: none}},
		{Changes: state.Diff{Files: none}, Skipped: "gone"}}}
	r.stop()
	r.server = control.New(r.options)
	r.run(control.Access{})
	for _, tc := range []struct {
		limit int64
		want  string
	}{{0, ""}, {2, "+n"}, {wire.MaxPatch + 1, "+new\n"}} {
		diffs := must(r.client().DiffWorkspace(t.Context(), "main", wire.DiffWorkspace{PatchBytes: tc.limit}))(t)
		expect.Equal(t, "the patch", diffs[0].PatchText, tc.want)
		expect.Equal(t, "of what was left out", diffs[1].PatchText, "")
	}
	d := r.described()
	r.ask(d, post("/control/agents/main/workspace/diff", `{"patch_bytes":5}`)).is(t, "diff", 200, "", "")
	expect.NoError(t, os.Remove(path))
	r.ask(d, post("/control/agents/main/workspace/diff", `{"patch_bytes":5}`)).is(t, "no file", 500, "internal_error", "")
	r.ask(d, get("/sessions/first/diff?patch_bytes=-1")).is(t, "session", 400, "invalid_value", "patch_bytes")
}
