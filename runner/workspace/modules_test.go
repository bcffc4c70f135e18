package workspace

import (
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"

	"holon/test/gittest"
)

// A submodule at another commit than HEAD has makes the workspace dirty, staged or not, and is part of the snapshot.
func TestMovedSubmodule(t *testing.T) {
	t.Parallel()
	lib := gittest.NewRepo(t, map[string]string{"lib.txt": "lib\n"})
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	gittest.Run(t, repo, "git", "commit", "-qam", "lib")
	if openSource(t, Options{Dir: repo}).info.Dirty {
		t.Error("a clean submodule counts as a change")
	}
	sub := filepath.Join(repo, "lib")
	gittest.Write(t, sub, map[string]string{"lib.txt": "newer\n"})
	gittest.Run(t, sub, "git", "commit", "-qam", "newer")
	commit := strings.TrimSpace(gittest.Run(t, sub, "git", "rev-parse", "HEAD"))
	for _, stage := range []string{"true", "git add lib", "git config submodule.lib.ignore all"} {
		gittest.Run(t, repo, "sh", "-ec", stage)
		tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
		if info := tree.Info(); !info.IncludedDirty || len(info.Submodules) != 1 || info.Submodules[0].Commit != commit {
			t.Errorf("%s: the source is %+v, want changes and a submodule at %s", stage, info, commit)
		}
		expect.Equal(t, stage+": lib.txt", gittest.Contents(t, tree.Dir())["lib/lib.txt"], "newer\n")
	}
}

// A sync brings the files of submodules along, but those that the agent changed; the diff has none of it.
func TestSyncSubmodule(t *testing.T) {
	t.Parallel()
	lib := gittest.NewRepo(t, map[string]string{"lib.txt": "lib\n", "gone": "g\n", "d/mine": "m\n"})
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a.txt": "a\n"}))
	add := func(name string) {
		gittest.Run(t, w.dir, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, name)
	}
	add("lib")
	add("old")
	add("becomes-file")
	gittest.Write(t, w.dir, map[string]string{"becomes-module": "f\n", "dir/lib.txt": "f\n", "dir/other": "o\n"})
	w.commitAll(t)
	tree := acquire(t, w.options)
	gittest.Write(t, tree.Dir(), map[string]string{"lib/d/mine": "the agent's\n"})
	sub := filepath.Join(w.dir, "lib")
	gittest.Write(t, sub, map[string]string{"lib.txt": "newer\n", "fresh": "f\n", "d/mine": "newer\n"})
	gittest.Run(t, sub, "git", "rm", "-q", "gone")
	gittest.Run(t, sub, "git", "add", "-A")
	gittest.Run(t, sub, "git", "commit", "-qm", "newer")
	gittest.Run(t, w.dir, "git", "rm", "-qrf", "old", "becomes-file", "becomes-module", "dir")
	add("new")
	add("becomes-module")
	add("dir")
	gittest.Write(t, w.dir, map[string]string{"becomes-file": "f\n"})
	w.commitAll(t)
	_, err := tree.Sync(t.Context())
	expect.NoError(t, err)
	wantContent(t, tree.Dir(), map[string]string{"lib/lib.txt": "newer\n", "lib/fresh": "f\n", "lib/gone": "",
		"lib/d/mine": "the agent's\n", "new/lib.txt": "lib\n", "old/lib.txt": "", "old/d/mine": "",
		"becomes-file": "f\n", "becomes-module/lib.txt": "lib\n", "dir/lib.txt": "lib\n", "dir/other": ""})
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff)
	wantWarning(t, diff, warnSubmodule, "lib/d/mine")
	for _, w := range diff.Warnings {
		if w.Path != "lib/d/mine" {
			t.Errorf("warning %+v", w)
		}
	}
}

// Each file of a submodule has one warning, whatever the agent did to it; so has a submodule that became a file.
func TestOneWarningPerSubmoduleFile(t *testing.T) {
	t.Parallel()
	lib := gittest.NewRepo(t, map[string]string{"changed": "c\n", "deleted": "d\n", "mode": "m\n", "linked": "l\n"})
	repo := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	for _, name := range []string{"lib", "other"} {
		gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, name)
	}
	gittest.Run(t, repo, "git", "commit", "-qam", "lib")
	tree := acquire(t, Options{Dir: repo})
	gittest.Run(t, tree.Dir(), "sh", "-ec", "echo x >> lib/changed; rm lib/deleted; chmod +x lib/mode; "+
		"ln -sf changed lib/linked; echo n > lib/new; rm -r other; echo f > other")
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff)
	var paths []string
	for _, w := range diff.Warnings {
		expect.Equal(t, "the code of "+w.Path, w.Code, warnSubmodule)
		paths = append(paths, w.Path)
	}
	expect.Equal(t, "warnings", strings.Join(paths, " "), "lib/changed lib/deleted lib/linked lib/mode lib/new other")
	expect.Equal(t, "incomplete", diff.Incomplete, true)
}
