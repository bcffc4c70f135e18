package workspace

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"

	"pgregory.net/rapid"
)

// edit makes random changes of files, and of what is a file and what a directory.
func edit(r *rapid.T, dir string, names ...string) {
	for range rapid.IntRange(0, 4).Draw(r, "edits") {
		name := rapid.SampledFrom(names).Draw(r, "name")
		path := filepath.Join(dir, name)
		_ = os.RemoveAll(path) // what is above may be a file
		if rapid.IntRange(0, 2).Draw(r, "removed") == 0 {
			continue
		}
		for top := filepath.Dir(path); top != dir; top = filepath.Dir(top) {
			if info, err := os.Lstat(top); err == nil && !info.IsDir() {
				expect.NoError(r, os.Remove(top))
			}
		}
		expect.NoError(r, os.MkdirAll(filepath.Dir(path), 0o755))
		content := name + rapid.SampledFrom([]string{" 1\n", " 2\n", " 3\n"}).Draw(r, "content")
		expect.NoError(r, os.WriteFile(path, []byte(content), 0o644))
	}
}

// mergedModel merges file by file. certain says that there is one result, plain also that no file takes the place of a
// directory or the other way round, of which git reports conflicts that need not be.
func mergedModel(base, ours, theirs map[string]string) (merged map[string]string, certain, plain bool) {
	merged, all := map[string]string{}, map[string]string{}
	certain, plain = true, true
	for _, states := range []map[string]string{base, ours, theirs} {
		for name := range states {
			all[name] = name
			switch b, o, t := base[name], ours[name], theirs[name]; {
			case t == b || o == t:
				merged[name] = o
			case o == b:
				merged[name] = t
			default:
				certain = false
			}
		}
	}
	maps.DeleteFunc(merged, func(_, content string) bool { return content == "" })
	for name := range all {
		for other := range all {
			if strings.HasPrefix(other, name+"/") {
				plain = false
				certain = certain && (merged[name] == "" || merged[other] == "")
			}
		}
	}
	return merged, certain, certain && plain
}

// Any edits of the user's and the agent's, with syncs some of which are killed, come to what a merge file by file comes
// to, and ignored files stay; where that has a doubt, a conflict that changes nothing is right too.
func TestSyncAtRandom(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a": "a 1\n", "d/x": "d/x 1\n", "d/e/z": "d/e/z 1\n", ".gitignore": "*.o\n"}
	names := []string{"a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "n/m"}
	ignored := func(states map[string]string) map[string]string {
		cut := map[string]string{}
		maps.DeleteFunc(states, func(name, content string) bool {
			if strings.HasSuffix(name, ".o") {
				cut[name] = content
				return true
			}
			return false
		})
		return cut
	}
	rapid.Check(t, func(r *rapid.T) {
		w := newAgentWork(t, gittest.NewRepo(t, files))
		tree, err := openSource(t, w.options).Acquire(t.Context())
		expect.NoError(r, err)
		base := maps.Clone(files)
		for range 3 {
			edit(r, w.dir, names...)
			edit(r, tree.Dir(), append(names, "d/c.o", "b.o")...)
			if rapid.IntRange(0, 3).Draw(r, "advance") == 0 {
				expect.NoError(r, tree.Advance(t.Context()))
				base = gittest.Contents(t, tree.Dir())
				ignored(base)
			}
			ours, theirs := gittest.Contents(t, tree.Dir()), gittest.Contents(t, w.dir)
			caches := ignored(ours)
			want, certain, plain := mergedModel(base, ours, theirs)
			for name := range caches {
				certain = certain && want[filepath.Dir(name)] == ""
			}
			killed := interruptAt(tree, rapid.SampledFrom(append(syncSteps, "never")).Draw(r, "step"))
			_, err := tree.Sync(t.Context())
			for errors.Is(err, killed) {
				held := tree.Held()
				die(t, tree)
				tree, err = Resume(t.Context(), Options{CacheDir: w.options.CacheDir}, held)
				expect.NoError(r, err)
				_, err = tree.Sync(t.Context())
			}
			tree.interrupt = nil
			now := gittest.Contents(t, tree.Dir())
			if got := ignored(now); !maps.Equal(got, caches) {
				r.Fatalf("ignored files were %q, are %q", caches, got)
			}
			if e, ok := errors.AsType[*git.Error](err); ok && e.Code == CodeConflict && !(certain && plain) {
				if !maps.Equal(now, ours) {
					r.Fatalf("a conflict changed %q to %q", ours, now)
				}
				edit(r, tree.Dir(), names...)
				continue
			}
			if err != nil {
				r.Fatalf("%q is not merged: %v", []map[string]string{base, ours, theirs}, err)
			}
			if base = theirs; certain && !maps.Equal(now, want) {
				r.Fatalf("%q is merged as %q, want %q", []map[string]string{ours, theirs}, now, want)
			}
			diff, _ := diffOf(t, tree)
			differs := slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(n string) bool { return now[n] != theirs[n] })
			if differs = differs || len(now) != len(theirs); differs != (len(diff.Files) > 0) {
				r.Fatalf("the diff has %q between %q and %q", changes(diff), theirs, now)
			}
		}
		expect.NoError(r, tree.Release(t.Context()))
	})
}
