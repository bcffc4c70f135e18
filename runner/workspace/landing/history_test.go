package landing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace"
	"holon/test/gittest"
)

// The agent's commits become the branch's, with what it did not commit on top.
func TestHistory(t *testing.T) {
	t.Parallel()
	sources := map[string]*workspace.Source{}
	for _, format := range []string{"sha1", "sha256"} {
		repo := t.TempDir()
		gittest.Run(t, repo, "git", "init", "-q", "-b", "main", "--object-format="+format)
		gittest.Write(t, repo, map[string]string{"a.txt": "a\n", "d/x": "x\n"})
		gittest.Run(t, repo, "sh", "-ec", "git add -A; git commit -qm base")
		sources[format] = openSource(t, workspace.Options{Dir: repo})
	}
	for i, tc := range []struct {
		name, do string
		subjects string // of the branch above the base, newest first; "" without a history
	}{
		{"no commit", "echo b > a.txt", ""},
		{"loose", "echo b > a.txt; git commit -qam one; echo c > a.txt; git commit -qam two", "two one"},
		{"and uncommitted", "echo b > a.txt; git commit -qam one; echo c > new", "title one"},
		{"packed", "echo b > a.txt; git commit -qam one; echo c > a.txt; git commit -qam two; git repack -qadl; git " +
			"pack-refs --all", "two one"},
		{"both", "echo b > a.txt; git commit -qam one; git repack -qdl; echo c > a.txt; git commit -qam two",
			"two one"},
		{"another branch", "git checkout -qb topic; echo b > a.txt; git commit -qam one", "one"},
		{"detached", "git checkout -q --detach; echo b > a.txt; git commit -qam one", "one"},
		{"merge", "git checkout -qb topic; echo b > b; git add b; git commit -qm one; git checkout -q main; echo c " +
			"> c; git add c; git commit -qm two; git merge -q -m three topic", "three two one"},
	} {
		for format, source := range sources {
			t.Run(tc.name+" "+format, func(t *testing.T) {
				tree := acquireFrom(t, source)
				repo := source.Info().Path
				o := finished(t, repo, tree, func(dir string) { gittest.Run(t, dir, "sh", "-ec", tc.do) })
				o.Title, o.History, o.Run = "title", true, fmt.Sprint("run_", i)
				branch := "holon/" + o.Run
				if (o.Diff.History != nil) != (tc.subjects != "") {
					t.Fatalf("history: %+v, warnings %+v", o.Diff.History, o.Diff.Warnings)
				}
				result := checkedOut(t, o)
				subjects := cmp.Or(tc.subjects, "title")
				got := strings.Fields(gittest.Run(t, repo, "git", "log", "--format=%s", "main.."+branch))
				want := strings.Fields(subjects)
				slices.Sort(got) // commits of one second have no order
				slices.Sort(want)
				if !slices.Equal(got, want) || result.Commits != len(want) {
					t.Errorf("commits %q, want %q; %+v", got, want, result)
				}
				if tree := gittest.Run(t, repo, "git", "rev-parse", branch+"^{tree}"); tree != o.Diff.ResultTree+
					"\n" {
					t.Error("the branch does not end in the result")
				}
				gittest.Run(t, repo, "git", "fsck", "--strict", "--no-dangling")
			})
		}
	}
}

// Nothing hostile in the agent's repository is taken over, followed or waited for; the diff is there all the same.
func TestHostileHistory(t *testing.T) {
	t.Parallel()
	outside := gittest.NewRepo(t, map[string]string{"secret": "secret\n"})
	files := map[string]string{"a.txt": "a\n"}
	repo := gittest.NewRepo(t, files)
	source := openSource(t, workspace.Options{Dir: repo})
	const commit = "echo b > a.txt; git commit -qam one; "
	evil := func(tree string) string {
		return tree + `tree=$(cat tree); rm -f t tree; git reset -q;
			git update-ref HEAD $(echo evil | git commit-tree $tree -p HEAD); echo b > a.txt`
	}
	for _, tc := range []struct {
		name, do string
		why      string // of the warning; "" when the history is kept or there is none
		kept     int    // commits
	}{
		{name: "HEAD is a FIFO", do: commit + "rm .git/HEAD; mkfifo .git/HEAD", why: "not a regular file"},
		{name: "HEAD is a link", do: commit + "rm .git/HEAD; ln -s " + outside + "/.git/HEAD .git/HEAD",
			why: "open HEAD"},
		{name: "HEAD leads out", do: commit + "echo 'ref: refs/heads/../../../x' > .git/HEAD", why: "it holds"},
		{name: "HEAD is not a branch", do: commit + "echo 'ref: refs/replace/x' > .git/HEAD", why: "HEAD is"},
		{name: "HEAD is an option", do: commit + "echo 'ref: refs/heads/--upload-pack=x' > .git/HEAD", why: "it holds"},
		{name: "HEAD is huge", do: commit + "truncate -s 10G .git/HEAD", why: "too large"},
		{name: "the branch is a link", do: commit + "rm .git/refs/heads/main; ln -s " + outside +
			"/.git/refs/heads/main .git/refs/heads/main", why: "read"},
		{name: "evil packed-refs", do: commit +
			"rm .git/refs/heads/main; printf '%040d refs/heads/main\\n%040d refs/heads/../../HEAD\\n^x\\n\\0\\n' 1 " +
			"2 > .git/packed-refs", why: "git"},
		{name: "objects are a FIFO", do: commit + "rm -rf .git/objects; mkfifo .git/objects",
			why: "objects can't be read"},
		{name: "objects are a link", do: commit + "rm -rf .git/objects; ln -s / .git/objects",
			why: "objects can't be read"},
		{name: "an object is a FIFO", do: commit + "o=$(ls -d .git/objects/??/* | head -1); rm -f $o; mkfifo $o",
			why: "can't be read"},
		{name: "a pack is a FIFO", do: commit + "mkfifo .git/objects/pack/x.pack", why: "can't be read"},
		{name: "a pack is none", do: commit + "echo x > .git/objects/pack/x.pack",
			why: "a pack file has no pack header"},
		{name: "a pack is huge", do: commit +
			"printf 'PACK\\0\\0\\0\\2\\0\\0\\0\\1' > .git/objects/pack/x.pack; truncate -s 10G " +
			".git/objects/pack/x.pack", why: "larger than"},
		{name: "a pack claims millions", do: commit +
			"printf 'PACK\\0\\0\\0\\2\\377\\377\\377\\377' > .git/objects/pack/x.pack", why: "more than"},
		{name: "a pack lies", do: commit + "git repack -qadl; p=$(echo .git/objects/pack/*.pack); chmod +w $p; " +
			"printf x | dd of=$p bs=1 seek=60 conv=notrunc 2>/dev/null", why: "git's checks"},
		{name: "an object lies", do: commit +
			"o=$(git rev-parse HEAD:a.txt); o=.git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-); b=$(git " +
			"rev-parse HEAD); b=.git/objects/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-); cp -f $b $o",
			why: "not what its name says"},
		{name: "an object is missing", do: commit +
			"o=$(git rev-parse HEAD^{tree}); rm -f .git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-)",
			why: "git"},
		{name: "hostile tree", do: evil(`blob=$(git hash-object -w a.txt);
			printf '100644 blob %s\t.GIT\n' $blob | git mktree > tree; `), why: ".GIT"},
		{name: "hostile tree in between", do: evil(
			`blob=$(git hash-object -w a.txt); printf '100644 blob %s\t.git\n' $blob | git mktree > tree;
				`) + "; git read-tree HEAD~; git add a.txt; git commit -qm after", why: "git's checks"},
		{name: "padded mode", do: evil(`blob=$(git hash-object -w a.txt); (printf '0100644 a\0';
			printf %s $blob | xxd -r -p) > t; git hash-object -t tree -w --stdin --literally < t > tree;
			`), why: "git's checks"},
		{name: "rewritten", do: "echo b > a.txt; git commit -qa --amend -m other", why: "don't stand on"},
		{name: "a foreign commit by alternates",
			do: "echo " + outside + "/.git/objects >> .git/objects/info/alternates; git -C " + outside +
				" rev-parse HEAD > .git/refs/heads/main; echo b > a.txt", why: "git"},
		{name: "replaced, grafted, shallow",
			do: commit + "git replace HEAD HEAD~ ; mkdir -p .git/info; git rev-parse HEAD > .git/info/grafts; git " +
				"rev-parse HEAD > .git/shallow", kept: 1},
		{name: "common directory elsewhere", do: commit + "echo " + outside + "/.git > .git/commondir", kept: 1},
		{name: "too many", do: "t=$(git write-tree); c=$(git rev-parse HEAD); (printf 'reset refs/heads/main\\nfrom " +
			"%s\\n\\n' $c; for i in $(seq 1100); do printf 'commit refs/heads/main\\ncommitter a <a> %s " +
			"+0000\\ndata 1\\nx\\n' $i; done) > f; git fast-import --quiet --force < f; rm f; echo b > a.txt",
			why: "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gittest.FillRepo(t, repo, files) // without the objects of the case before
			before, outsideBefore := gittest.Fingerprint(t, repo), gittest.Fingerprint(t, outside)
			tree := acquireFrom(t, source)
			o := finished(t, repo, tree, func(dir string) { gittest.Run(t, dir, "sh", "-ec", tc.do) })
			if !slices.ContainsFunc(o.Diff.Files, func(f workspace.FileChange) bool {
				return f.Path == "a.txt" && f.Status == "modified"
			}) {
				t.Errorf("changes %+v, want a.txt modified", o.Diff.Files)
			}
			said := ""
			for _, w := range o.Diff.Warnings {
				if strings.HasPrefix(w.Code, "history_") {
					said += w.Message
				}
			}
			if tc.kept > 0 && (o.Diff.History == nil || o.Diff.History.Commits != tc.kept) ||
				tc.kept == 0 && o.Diff.History != nil ||
				!strings.Contains(said, tc.why) || (said != "") != (tc.why != "") {
				t.Errorf("history %+v, said %q", o.Diff.History, said)
			}
			t.Log(said)
			gittest.WantUntouched(t, before, gittest.Fingerprint(t, repo))
			gittest.WantUntouched(t, outsideBefore, gittest.Fingerprint(t, outside))
			checkedOut(t, o)
		})
	}
}
