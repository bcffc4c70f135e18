package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/internal/folder"
	"holon/test/expect"
	"holon/test/gittest"
)

// owners lists who owns what lies in dir, by path.
func owners(t *testing.T, dir string) map[string]syscall.Stat_t {
	t.Helper()
	found := map[string]syscall.Stat_t{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found[strings.TrimPrefix(path, dir)] = *info.Sys().(*syscall.Stat_t)
		}
		return err
	})
	expect.NoError(t, err)
	return found
}

func wantOwner(t *testing.T, dir string, owner folder.Owner) map[string]syscall.Stat_t {
	t.Helper()
	found := owners(t, dir)
	for path, st := range found {
		if int(st.Uid) != owner.UID || int(st.Gid) != owner.GID {
			t.Errorf("%q belongs to %d:%d, want %d:%d", path, st.Uid, st.Gid, owner.UID, owner.GID)
		}
	}
	return found
}

// All of a tree is its owner's, nothing of the user's ever is, and a recycled tree is not given over again.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	old := syscall.Umask(0o077) // the strictest there is must not keep objects from the agent
	t.Cleanup(func() { syscall.Umask(old) })
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "d/e/b": "b\n", "run.sh": "#!/bin/sh\n", "link": "-> a",
		"out": "-> ../../outside"})
	gittest.Write(t, repo, map[string]string{"dirty": "not committed\n"})
	before := owners(t, repo)
	options := Options{Dir: repo, CacheDir: filepath.Join(t.TempDir(), "cache"), IncludeDirty: true,
		Owner: &folder.Owner{UID: 65532, GID: 65531}}

	tree := acquire(t, options)
	handOutLater(tree)
	first := wantOwner(t, tree.Dir(), *options.Owner)
	wantReadableObjects(t, tree)
	// As an agent would: new files belong to it, links lead anywhere.
	outside := filepath.Join(t.TempDir(), "outside")
	expect.NoError(t, os.WriteFile(outside, nil, 0o600))
	gittest.Write(t, tree.Dir(), map[string]string{"new/file": "x", "to-outside": "-> " + outside, "a": "changed\n"})
	expect.NoError(t, os.RemoveAll(filepath.Join(tree.Dir(), "d", "e")))
	expect.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(tree.Dir(), "d", "e")))
	expect.NoError(t, tree.Release(context.Background()))
	again := acquire(t, options)
	second := wantOwner(t, again.Dir(), *options.Owner)
	for _, path := range []string{"/run.sh", "/link", "/dirty"} {
		if first[path].Ino != second[path].Ino {
			t.Errorf("%s was written again", path)
		}
	}
	expect.NoError(t, again.Release(context.Background()))
	options.Owner = &folder.Owner{UID: 4711, GID: 4711}
	wantOwner(t, acquire(t, options).Dir(), *options.Owner)

	if st := owners(t, outside)[""]; st.Uid != 0 {
		t.Errorf("a file outside belongs to %d now", st.Uid)
	}
	for path, st := range owners(t, repo) {
		if was, ok := before[path]; ok && (was.Uid != st.Uid || was.Gid != st.Gid || was.Mode != st.Mode) {
			t.Errorf("%q of the user's changed: %+v, was %+v", path, st, was)
		}
	}
}

// wantReadableObjects fails unless the owner of a tree can read the objects of its base.
func wantReadableObjects(t *testing.T, tree *Tree) {
	t.Helper()
	for _, dir := range tree.ObjectDirs() {
		if dir.HostPath != tree.base.Objects() {
			continue
		}
		for path, st := range owners(t, dir.HostPath) {
			if st.Mode&0o004 == 0 || st.Mode&syscall.S_IFDIR != 0 && st.Mode&0o001 == 0 {
				t.Errorf("object %q has mode %o: the owner of the tree can't read it", path, st.Mode)
			}
		}
	}
}
