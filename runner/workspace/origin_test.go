package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"holon/internal/folder"
	"holon/test/expect"
	"holon/test/gittest"

	"golang.org/x/sys/unix"
)

// Trees are shared only by runs of the same repository, for the same user.
func TestOriginOfTrees(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a": "a\n"}
	repo, cache := gittest.NewRepo(t, files), filepath.Join(t.TempDir(), "cache")
	at := func(dir string) string {
		t.Helper()
		return openSource(t, Options{Dir: dir, CacheDir: cache}).cache.dir
	}
	linked, plain := gittest.AddWorktree(t, repo), t.TempDir()
	first := at(repo)
	if again := at(repo); again != first {
		t.Errorf("the same repository has trees in %s and %s", first, again)
	}
	seen := map[string]string{first: "the repository"}
	note := func(what, dir string) {
		t.Helper()
		if other, taken := seen[dir]; taken {
			t.Errorf("%s shares trees with %s", what, other)
		}
		seen[dir] = what
	}
	note("a linked working tree", at(linked))
	note("another repository", at(gittest.NewRepo(t, files)))
	note("a plain directory", at(plain))
	gittest.Write(t, plain, map[string]string{"f": "x"})
	gittest.Run(t, plain, "git", "init", "-q")
	note("a plain directory that became a repository", at(plain))

	// Another repository that comes to the same path, while the first one's
	// directory exists: its number can't have been given to the second.
	tree := acquire(t, Options{Dir: repo, CacheDir: cache})
	expect.NoError(t, tree.Release(t.Context()))
	expect.NoError(t, os.Rename(repo, repo+"-moved"))
	gittest.Run(t, "", "git", "clone", "-q", repo+"-moved", repo)
	note("another repository at the same path", at(repo))
	removed, err := Prune(t.Context(), cache, false, nil)
	expect.NoError(t, err)
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("trees of the repository that was there are left: %v, pruned %q", err, removed)
	}
	if _, err := os.Stat(at(repo)); err != nil {
		t.Error(err)
	}

	// Odd paths are read back as they are.
	for _, path := range []string{"/a b", "/new\nline", "/\xff\x00", `/"q"`, "/\u202e"} {
		want := origin{top: path, place: path + "/.git", device: 1, inode: 2, user: 3, group: 4}
		if got, ok := parseOrigin(want.String()); !ok || got != want {
			t.Errorf("read back as %+v, want %+v", got, want)
		}
	}
}

// In a tree for another user of the container nothing is left of the one before.
func TestTreeForAnother(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	source := openSource(t, Options{Dir: gittest.NewRepo(t, recycleBase)})
	used := map[uint64]string{}
	for _, uid := range []int{4711, 4712} {
		source.For(&folder.Owner{UID: uid, GID: uid})
		tree := acquireFrom(t, source)
		handOutLater(tree)
		for path, st := range wantOwner(t, tree.Dir(), folder.Owner{UID: uid, GID: uid}) {
			if other, ok := used[st.Ino]; ok {
				t.Errorf("%q is what %q was for another user", path, other)
			}
		}
		expect.NoError(t, tree.Release(t.Context()))
		for path, st := range owners(t, tree.Dir()) {
			used[st.Ino] = path
			// while it is open, no other gets its number
			fd, err := unix.Open(tree.Dir()+path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			expect.NoError(t, err)
			defer unix.Close(fd)
		}
	}
}
