package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// die is what the kernel does for a holder that was killed.
func die(t *testing.T, tree *Tree) {
	t.Helper()
	expect.NoError(t, tree.slot.unlock())
	tree.slot.lock = nil
}

// Files that the container of a dead run wrote stay until they are saved: the next run gets another tree, and the dead
// one's diff can be made by another process, even when the user's repository moved on meanwhile.
func TestResume(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(t *testing.T) string{
		KindGit: func(t *testing.T) string {
			return gittest.NewRepo(t, map[string]string{"a.txt": "a\n", "gone.txt": "g\n"})
		},
		KindCopy: func(t *testing.T) string {
			dir := t.TempDir()
			gittest.Write(t, dir, map[string]string{"a.txt": "a\n", "gone.txt": "g\n"})
			return dir
		},
	} {
		t.Run(kind, func(t *testing.T) {
			dir, cache := make(t), filepath.Join(t.TempDir(), "cache")
			options := Options{Dir: dir, CacheDir: cache, Claim: "run_1", IncludeDirty: true}
			gittest.Write(t, dir, map[string]string{"a.txt": "uncommitted\n"})
			first := acquire(t, options)
			held := first.Held()
			_, err := Resume(t.Context(), options, held)
			wantCode(t, err, codeBusy)
			gittest.Write(t, first.Dir(), map[string]string{"a.txt": "work\n", "new.txt": "n\n"})
			die(t, first)
			gittest.Write(t, first.Dir(), map[string]string{"later.txt": "the container lives on\n"})
			gittest.Write(t, dir, map[string]string{"a.txt": "the user goes on\n"})

			second := acquire(t, Options{Dir: dir, CacheDir: cache, Claim: "run_2"})
			if second.Dir() == first.Dir() {
				t.Fatal("a run got the tree of another that was not saved")
			}
			if forgotten, err := Prune(t.Context(), cache, false, nil); err != nil || len(forgotten) > 0 {
				t.Fatalf("pruned %v, %v", forgotten, err)
			}
			claims, err := Claims(t.Context(), cache)
			if err != nil || len(claims) != 2 || claims[0] != (Claim{held.Slot, "run_1"}) || claims[1].By != "run_2" {
				t.Fatalf("the claims are %+v (%v), want those of run_1 and run_2", claims, err)
			}

			resumed, err := Resume(t.Context(), options, held)
			expect.NoError(t, err)
			if !slices.Equal(resumed.ObjectDirs(), first.ObjectDirs()) {
				t.Errorf("it borrows objects from %v, want %v", resumed.ObjectDirs(), first.ObjectDirs())
			}
			diff, patch := diffOf(t, resumed)
			wantChanges(t, diff, "M a.txt", "A later.txt", "A new.txt")
			if diff.BaseTree != held.Info.BaseTree || patch == "" {
				t.Errorf("base %s, want %s", diff.BaseTree, held.Info.BaseTree)
			}
			expect.NoError(t, resumed.Leave())
			if resumed, err = Resume(t.Context(), options, held); err != nil {
				t.Fatalf("after Leave: %v", err)
			}
			expect.NoError(t, resumed.Release(t.Context()))
			_, err = Resume(t.Context(), options, held)
			wantCode(t, err, CodeReleased)
			third := acquire(t, options)
			if third.Dir() != first.Dir() {
				t.Error("the tree that was released is not used again")
			}
		})
	}
}

// A tree is found again although the repository is gone, but not lost: it can be taken up when the repository is back.
func TestResumeWithoutRepository(t *testing.T) {
	t.Parallel()
	repo, cache := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"}), filepath.Join(t.TempDir(), "cache")
	options := Options{Dir: repo, CacheDir: cache, Claim: "run_1"}
	tree := acquire(t, options)
	held := tree.Held()
	gittest.Write(t, tree.Dir(), map[string]string{"a.txt": "work\n"})
	die(t, tree)
	expect.NoError(t, os.Rename(repo, repo+".away"))
	if _, err := Resume(t.Context(), options, held); err == nil {
		t.Fatal("a tree was taken up without its objects")
	}
	if forgotten, err := Prune(t.Context(), cache, false, nil); err != nil || len(forgotten) > 0 {
		t.Fatalf("unsaved work was pruned: %v, %v", forgotten, err)
	}
	expect.NoError(t, os.Rename(repo+".away", repo))
	resumed, err := Resume(t.Context(), options, held)
	expect.NoError(t, err)
	diff, _ := diffOf(t, resumed)
	wantChanges(t, diff, "M a.txt")
	expect.NoError(t, resumed.Release(t.Context()))
}

func TestDisclaim(t *testing.T) {
	t.Parallel()
	repo, cache := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"}), filepath.Join(t.TempDir(), "cache")
	tree := acquire(t, Options{Dir: repo, CacheDir: cache, Claim: "run_1"})
	claim := Claim{tree.Held().Slot, "run_1"}
	expect.NoError(t, Disclaim(t.Context(), cache, claim))
	if claims, _ := Claims(t.Context(), cache); len(claims) != 1 {
		t.Fatal("the claim of a live holder was given up")
	}
	die(t, tree)
	expect.NoError(t, Disclaim(t.Context(), cache, Claim{claim.Slot, "run_2"}))
	if claims, _ := Claims(t.Context(), cache); len(claims) != 1 {
		t.Fatal("the claim of another was given up")
	}
	expect.NoError(t, Disclaim(t.Context(), cache, claim))
	if claims, err := Claims(t.Context(), cache); err != nil || len(claims) != 0 {
		t.Fatalf("claims %v, %v", claims, err)
	}
	for _, slot := range []string{"", "/", cache, filepath.Join(cache, "trees", "x"), claim.Slot + "/../../../../0",
		"/etc/0"} {
		_, err := Resume(t.Context(), Options{CacheDir: cache}, Held{Slot: slot, Claim: "run_1"})
		if e, ok := errors.AsType[*git.Error](err); !ok || e.Code != git.CodeInvalidOption {
			t.Errorf("slot %q: %v", slot, err)
		}
	}
}

// What a process leaves that is killed while it takes a snapshot is in the way of no other one.
func TestKilledSnapshot(t *testing.T) {
	t.Parallel()
	dir := gittest.NewRepo(t, map[string]string{"a.txt": "a\n"})
	gittest.Write(t, dir, map[string]string{"a.txt": "uncommitted\n"})
	options := Options{Dir: dir, CacheDir: filepath.Join(t.TempDir(), "cache"), Claim: "run_1", IncludeDirty: true}
	killed := acquire(t, options)
	expect.NoError(t, os.Mkdir(filepath.Join(killed.slot.dir, "view"), 0o700))
	die(t, killed)
	expect.NoError(t, Disclaim(t.Context(), options.CacheDir, Claim{killed.slot.dir, "run_1"}))
	expect.Equal(t, "the slot", acquire(t, options).slot.dir, killed.slot.dir)
}
