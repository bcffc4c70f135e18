package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/folder"
	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// inTree runs git in a tree as the agent does, whose objects are where the container has them.
func (w *agentWork) inTree(t *testing.T, tree *Tree, args ...string) string {
	t.Helper()
	alternates := filepath.Join(tree.Dir(), ".git", "objects", "info", "alternates")
	data, err := os.ReadFile(alternates)
	expect.NoError(t, err)
	if string(data) != w.options.ContainerObjects+"\n" {
		t.Fatalf("the agent borrows from %q", data)
	}
	expect.NoError(t, os.WriteFile(alternates, []byte(w.options.ObjectsDir+"\n"), 0o600))
	defer func() { expect.NoError(t, os.WriteFile(alternates, data, 0o600)) }()
	return gittest.Run(t, tree.Dir(), append([]string{"git", "-c", "safe.directory=*"}, args...)...)
}

// The objects of a tree are links to the user's, with those that the repository borrows, and stay when the user's are
// collected; a sync adds what is new. The agent's repository and the host need nothing else.
func TestObjectsDir(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "b": "b\n"})
	shared := filepath.Join(repo, "lender")
	gittest.Run(t, repo, "git", "clone", "-q", "--bare", repo, shared)
	expect.NoError(t, os.RemoveAll(filepath.Join(repo, ".git", "objects")))
	expect.NoError(t, os.MkdirAll(filepath.Join(repo, ".git", "objects", "info"), 0o755))
	gittest.Write(t, repo, map[string]string{".git/objects/info/alternates": filepath.Join(shared, "objects") + "\n",
		".gitignore": "lender\n", "c": "committed\n"})
	w := newAgentWork(t, repo)
	w.commitAll(t)
	gittest.Write(t, repo, map[string]string{"dirty": "dirty\n"})
	tree := acquire(t, w.options)
	w.inTree(t, tree, "fsck", "--connectivity-only")
	if got := w.inTree(t, tree, "status", "--porcelain"); got != "A  dirty\n" {
		t.Errorf("the agent sees %q", got)
	}
	err := filepath.WalkDir(w.options.ObjectsDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err != nil || info.Mode().Perm()&0o022 != 0 {
				t.Errorf("%s can be written by others (%v)", path, err)
			}
		}
		return err
	})
	expect.NoError(t, err)

	gittest.Write(t, tree.Dir(), map[string]string{"a": "agent\n"})
	gittest.Run(t, repo, "git", "rm", "-qf", "c")
	gittest.Run(t, repo, "git", "commit", "-qm", "other", "--amend")
	gittest.Run(t, repo, "git", "repack", "-adfq")
	expect.NoError(t, os.Remove(filepath.Join(repo, ".git", "objects", "info", "alternates")))
	gittest.Run(t, repo, "git", "reflog", "expire", "--expire=now", "--all")
	gittest.Run(t, repo, "git", "gc", "-q", "--prune=now")
	held := tree.Held()
	die(t, tree)
	tree, err = Resume(t.Context(), Options{CacheDir: w.options.CacheDir}, held)
	expect.NoError(t, err)
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "M a")
	w.inTree(t, tree, "fsck", "--connectivity-only")
	if data, err := tree.BaseFile(t.Context(), "c", 100); err != nil || string(data) != "committed\n" {
		t.Errorf("%q, %v", data, err)
	}
	child := newAgentWork(t, repo)
	fork, err := tree.Fork(t.Context(), child.options)
	expect.NoError(t, err)
	child.inTree(t, fork, "fsck", "--connectivity-only")
	expect.NoError(t, fork.Release(t.Context()))
	_, err = tree.Sync(t.Context())
	expect.NoError(t, err)
	w.inTree(t, tree, "fsck", "--connectivity-only")
	if got := w.inTree(t, tree, "status", "--porcelain"); got != " M a\nA  dirty\n" {
		t.Errorf("after the sync the agent sees %q", got)
	}
	if head := w.inTree(t, tree, "rev-parse", "HEAD"); head != gittest.Run(t, repo, "git", "rev-parse", "HEAD") {
		t.Errorf("the agent's HEAD is %s", head)
	}
	diff, _ = diffOf(t, tree)
	wantChanges(t, diff, "M a")
	expect.NoError(t, tree.Release(t.Context()))
}

// An agent that committed keeps its commits over a sync.
func TestSyncKeepsCommits(t *testing.T) {
	t.Parallel()
	w := newAgentWork(t, gittest.NewRepo(t, map[string]string{"a": "a\n", "b": "b\n"}))
	tree := acquire(t, w.options)
	gittest.Write(t, tree.Dir(), map[string]string{"a": "agent\n"})
	w.inTree(t, tree, "commit", "-qam", "mine")
	head := w.inTree(t, tree, "rev-parse", "HEAD")
	gittest.Write(t, w.dir, map[string]string{"b": "user\n"})
	w.commitAll(t)
	_, err := tree.Sync(t.Context())
	expect.NoError(t, err)
	if now := w.inTree(t, tree, "rev-parse", "HEAD"); now != head {
		t.Errorf("HEAD is %s, was %s", now, head)
	}
	w.inTree(t, tree, "cat-file", "-e", tree.Info().BaseCommit) // to be merged
	diff, _ := diffOf(t, tree)
	wantChanges(t, diff, "M a")
}

// Objects that the container's user could not read are copied, as are those of another file system.
func TestObjectsDirCopies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n"})
	gittest.Run(t, repo, "git", "config", "core.sharedRepository", "0600")
	gittest.Write(t, repo, map[string]string{"b": "b\n"})
	w := newAgentWork(t, repo)
	w.commitAll(t)
	w.options.Owner = &folder.Owner{UID: 65532, GID: 65532}
	tree := acquire(t, w.options)
	w.inTree(t, tree, "fsck", "--connectivity-only")
	for path, st := range owners(t, w.options.ObjectsDir) {
		if st.Mode&0o004 == 0 {
			t.Errorf("%s has mode %o", path, st.Mode)
		}
	}
	other := newAgentWork(t, repo)
	other.options.ObjectsDir = filepath.Join(gittest.DiskDir(t), "objects")
	other.inTree(t, acquire(t, other.options), "fsck", "--connectivity-only")
}

// The base can be read without its files, within bounds, and never from outside of it.
func TestBaseFile(t *testing.T) {
	t.Parallel()
	files := map[string]string{"AGENTS.md": "-> docs/guide", "docs/guide": "read me\n", "out": "-> ../../etc/passwd",
		"loop": "-> loop", ".agents/skills": "-> ../skills", "skills/x/SKILL.md": "x\n", "skills/odd\nname": "y\n"}
	eachKind(t, files, func(t *testing.T, w *agentWork) {
		tree := acquire(t, w.options)
		gittest.Write(t, tree.Dir(), map[string]string{"docs/guide": "the agent's\n", "new": "n\n"})
		for name, want := range map[string]string{"AGENTS.md": "read me\n", "/docs/../docs/guide": "read me\n", "new": "",
			"out": "", "loop": "", "docs": "", "": "", "../AGENTS.md": "read me\n", "skills/odd\nname": "y\n",
			".agents/skills/x/SKILL.md": "x\n", "docs/guide/x": ""} {
			data, err := tree.BaseFile(t.Context(), name, 100)
			if string(data) != want || want == "" && !strings.Contains(err.Error(), fs.ErrNotExist.Error()) {
				t.Errorf("%q is %q (%v), want %q", name, data, err, want)
			}
		}
		_, err := tree.BaseFile(t.Context(), "AGENTS.md", 3)
		wantCode(t, err, git.CodeTooLarge)
		for name, want := range map[string]string{".agents/skills": "odd\nname|x", "docs": "guide", "docs/guide": "",
			"": ".agents|AGENTS.md|docs|loop|out|skills", "none": ""} {
			names, err := tree.BaseDir(t.Context(), name)
			if strings.Join(names, "|") != want || want == "" && err == nil {
				t.Errorf("%q has %q (%v), want %q", name, names, err, want)
			}
		}
	})
}
