package workspace

import (
	"path/filepath"
	"slices"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// A directory that becomes a repository, and links, are looked up in the result.
func TestExecutedInResult(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		// bare already
		"docs/api/HEAD": "ref: refs/heads/main\n", "docs/api/refs/.keep": "", "docs/api/objects/.keep": "",
		"docs/api/page.md": "text\n",
		"half/HEAD":        "ref: refs/heads/main\n", "half/config": "[core]\n", // becomes one
		"work/HEAD": "ref: refs/heads/main\n", // becomes a linked one
		".husky":    "-> tools/scripts", "tools/scripts/lint.sh": "#!/bin/sh\n", ".github/workflows": "-> ../ci",
		"ci/build.yml": "a\n",
		"loops/hooks":  "-> .", ".idea": "-> way/real", "way": "-> deep", "deep/real/run.xml": "a\n",
		"web/package.json": `{"name":"a","scripts":{"test":"x"}}`,
		"app/package.json": `{"name":"a","scripts":{"test":"x"}}`, "src/hooks/use.ts": "a\n", "tool": "a\n",
	}
	for name, made := range map[string]func(t *testing.T) string{
		"repository": func(t *testing.T) string { return gittest.NewRepo(t, base) },
		"directory":  func(t *testing.T) string { dir := t.TempDir(); gittest.Write(t, dir, base); return dir },
	} {
		t.Run(name, func(t *testing.T) {
			tree := acquire(t, Options{Dir: made(t), IncludeDirty: true})
			gittest.Write(t, tree.WorkDir(), map[string]string{
				"docs/api/config":    "[core]\n\tworktree = .\n[filter \"x\"]\n\tclean = id\n",
				"docs/api/hooks/any": "#!/bin/sh\n", "docs/api/page.md": "more\n",
				"half/objects/.keep": "", "half/refs/.keep": "", "work/commondir": "../half\n",
				"tools/scripts/lint.sh": "#!/bin/sh\nid\n", "ci/build.yml": "b\n", "other/.vscode": "-> ../cfg",
				"cfg/tasks.json": "{}", "deep/real/run.xml": "b\n", "loops/a.txt": "x", "src/hooks/use.ts": "b\n",
				"web/package.json": `{"name":"a","scripts":{"test":"x","preinstall":"id"}}`,
				"app/package.json": `{"name":"a","version":"2","scripts":{"test":"x"}}`,
				"new/package.json": `{"name":"b"}`, "broken/package.json": `{"scripts":`,
			})
			gittest.Run(t, tree.WorkDir(), "sh", "-ec", "chmod +x tool; mkdir moved; mv src/hooks/use.ts moved/.envrc")
			diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "patch")})
			expect.NoError(t, err)
			var got []string
			for _, w := range diff.Warnings {
				if w.Code == WarnExecuted {
					got = append(got, w.Path)
				}
			}
			want := []string{"broken/package.json", "cfg/tasks.json", "ci/build.yml", "deep/real/run.xml",
				"docs/api/config", "docs/api/hooks/any", "half/objects/.keep", "half/refs/.keep", "moved/.envrc",
				"other/.vscode",
				"tools/scripts/lint.sh", "web/package.json", "work/commondir"}
			if !slices.Equal(got, want) {
				t.Errorf("executed: %q, want %q", got, want)
			}
		})
	}
}
