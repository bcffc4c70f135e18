package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"holon/responses"
	"holon/test/expect"
)

// Whatever changes, the patch turns the origin into the tree.
func TestPatchOfRandomEdits(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/e/a", "sp ace", "é", "new\nline", "\"", "z\t"})
	line := rapid.SampledFrom([]string{"x\n", "y\n", "\n", "z", "\r\n", "\x00", "\\ No newline at end of file\n", "--- a\n"})
	put := func(r *rapid.T, dir, name string) {
		path := filepath.Join(dir, name)
		_ = os.RemoveAll(path)
		if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
			return // a file is in the way
		}
		switch rapid.IntRange(0, 5).Draw(r, "kind") {
		case 0: // it stays away
		case 1:
			_ = os.Symlink(rapid.SampledFrom([]string{"a", "/etc", "..", "x y"}).Draw(r, "target"), path)
		default:
			data := ""
			for range rapid.IntRange(0, 12).Draw(r, "lines") {
				data += line.Draw(r, "line")
			}
			mode := rapid.SampledFrom([]os.FileMode{0o644, 0o755}).Draw(r, "mode")
			_ = os.WriteFile(path, []byte(data), mode)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		root := t.TempDir()
		for range rapid.IntRange(0, 6).Draw(r, "files") {
			put(r, root, names.Draw(r, "name"))
		}
		run(r, root, "find . -mindepth 1 -type d -empty -delete") // git apply cannot put a file in their place
		tree, err := Make(t.Context(), Options{Root: root, Origin: root, SessionID: "sess_1", TurnID: "turn_1",
			Kind: responses.IsolationCopy})
		expect.NoError(r, err)
		for range rapid.IntRange(0, 6).Draw(r, "edits") {
			put(r, tree.WorkDir(), names.Draw(r, "name"))
		}
		text, summary := patch(r, tree)
		if len(summary.Omitted) > 0 {
			r.Fatalf("left out: %v, want nothing", summary.Omitted)
		}
		wantApplies(r, root, text, content(r, tree.WorkDir()))
		expect.NoError(r, tree.Remove())
	})
}
