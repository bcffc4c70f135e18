package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/runner/workspace/git"
	"holon/test/expect"
	"holon/test/gittest"
)

// diffWithBundle runs an agent's script in a tree of repo and returns what it changed and where the results are.
func diffWithBundle(t *testing.T, repo, script string) (diff *Diff, out string) {
	t.Helper()
	tree := acquire(t, Options{Dir: repo, IncludeDirty: true})
	gittest.Run(t, tree.Dir(), "sh", "-ec", script)
	out = t.TempDir()
	diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(out, "diff.patch"),
		Objects: filepath.Join(out, "objects"), Bundle: filepath.Join(out, "bundle")})
	expect.NoError(t, err)
	return diff, out
}

// Commits of the agent that are not in the result are named and kept, whatever leads to them; those that the user's
// repository has are not.
func TestUserBranches(t *testing.T) {
	t.Parallel()
	const commit = "c() { echo $1 >$1; git add $1; git commit -qm $1; }; "
	for _, tc := range []struct {
		name, agent string
		want        []string // name, commits, files
		renamed     []string // what the warnings of names that were replaced say
		warned      string   // what the warning of commits that were left out says
	}{
		{name: "nothing", agent: "git checkout -q side; git checkout -q main; git branch same"},
		{name: "the branch that is checked out", agent: commit + "c one"},
		{name: "another branch", agent: commit + "git checkout -qb feature/x; c one; c two; git checkout -q main",
			want: []string{"feature/x 2 2"}},
		{name: "next to a result", agent: commit + "git checkout -qb f; c one; git checkout -q main; c two; git branch g",
			want: []string{"f 1 1"}},
		{name: "a branch of the user's that moved", agent: commit + "git checkout -q side; c one; git checkout -q main",
			want: []string{"side 1 2"}},
		{name: "packed", agent: commit + "git checkout -qb f; c one; git checkout -q main; git pack-refs --all; git gc -q",
			want: []string{"f 1 1"}},
		{name: "stashes", agent: "echo 1 >a; git stash -q; echo 2 >a; echo 2 >b; git stash -q",
			want: []string{"stash@{0} 2 2", "stash@{1} 2 1"}},
		{name: "a stash without a log", agent: "echo 1 >a; git stash -q; echo 2 >a; git stash -q; rm .git/logs/refs/stash",
			want: []string{"stash@{0} 2 1"}},
		{name: "of uncommitted files of the user's", agent: "git checkout -qb f; git commit -qam dirty; git checkout -q main",
			want: []string{"f 1 1"}},
		{name: "a tag", agent: commit + "git checkout -q --detach; c one; git tag -am x v1; git checkout -q main",
			want: []string{"refs/tags/v1 1 1"}},
		{name: "a tag of a branch", agent: commit + "git checkout -qb f; c one; git tag v1; git checkout -q main",
			want: []string{"f 1 1"}},
		{name: "no branch", agent: commit + "git checkout -q --detach; c one; git reset -q --hard main; c two; rm two; " +
			"git checkout -q two; git rm -q two; git commit -qm gone", want: []string{"HEAD 2 0", "HEAD@{3} 1 1"}},
		{name: "what HEAD left", agent: commit + "git checkout -q --detach; c one; c two; git checkout -q main; " +
			"c three; c four; git reset -q --hard HEAD~1", want: []string{"HEAD@{1} 1 2", "HEAD@{4} 2 2"}},
		{name: "what HEAD left and came back to", agent: commit + "c one; git checkout -q --detach; c two; " +
			"git branch f; git checkout -q side; git checkout -q main; git reset -q --hard HEAD~1; git merge -q f"},
		{name: "a commit that was amended", agent: commit + "c one; git commit -q --amend -m again",
			want: []string{"HEAD@{1} 1 1"}},
		{name: "a log that is none", agent: commit + "git checkout -q --detach; c one; git checkout -q main; " +
			"rm .git/logs/HEAD; mkfifo .git/logs/HEAD", warned: "logs/HEAD"},
		{name: "what HEAD left before many others", agent: commit + "git checkout -q --detach; c one; " +
			"git checkout -q main; for i in $(seq 30); do c $i; done", want: []string{"HEAD@{31} 1 1"}},
		{name: "too much that HEAD left", agent: commit + "for i in $(seq 21); do git checkout -q --detach main; " +
			"c $i; done; git checkout -q main", want: leftByHead(20), warned: "more than 20"},
		{name: "a long log", agent: commit + "mkdir .git/logs; printf '%01100000d\\n' 0 >.git/logs/HEAD; " +
			"git checkout -q --detach; c one; git checkout -q main", want: []string{"HEAD@{1} 1 1"}},
		{name: "a log of no commits", agent: "mkdir .git/logs; for i in " + strings.Repeat("ab", 20) +
			" $(git rev-parse HEAD:a); do echo x $i >>.git/logs/HEAD; done"},
		{name: "references of any kind", agent: commit + "for r in wip/w remotes/origin/x notes/n bisect/bad left/0; do " +
			"git checkout -q --detach main; c ${r##*/}; git update-ref refs/$r HEAD; done; rm -r .git/logs; git checkout -q main; " +
			"rm -r .git/logs", want: []string{"refs/bisect/bad 1 1", "unnamed-1 1 1", "refs/notes/n 1 1",
			"refs/remotes/origin/x 1 1", "refs/wip/w 1 1"}, renamed: []string{`"refs/left/0" is called unnamed-1 `}},
		{name: "linked working trees", agent: commit + "" +
			"git worktree add -q --detach ../wt; cd ../wt; c left; git reset -q --hard HEAD~1; c one; " +
			"git update-ref refs/worktree/w HEAD; c two", want: []string{"ID 2 2", "ID 1 1"}},
		{name: "what another reference was at", agent: commit + "git checkout -qb f; " +
			"c one; git checkout -q main; git branch -qf f main; rm .git/logs/HEAD",
			want: []string{"ID 1 1"}},
		{name: "links in place of logs", agent: "rm -rf .git/logs; ln -s /etc .git/logs", warned: "logs/HEAD"},
		{name: "a repository elsewhere", agent: "mv .git ../git; echo gitdir: ../git >.git", warned: "can't be read"},
		{name: "an orphan that is checked out", agent: commit + "git checkout -q --orphan o; c one",
			want: []string{"o 1 3"}, warned: "don't stand on the commit"},
		{name: "letters that are not ASCII", agent: commit + "git checkout -qb fix/für-kunde; c one; " +
			"git checkout -q main; git tag wip/ünï $(git commit-tree -m x -p main main^{tree})",
			want: []string{"fix/für-kunde 1 1", "refs/tags/wip/ünï 1 0"}},
		{name: "names that could be taken for others", agent: commit + "c one; git branch unnamed-1; " +
			"git reset -q --hard HEAD~1; git checkout -qb \"$(printf 'a\\342\\200\\256b')\"; c one; " +
			"git checkout -q main; cat .git/refs/heads/*[!a-z]b >.git/refs/heads/-x",
			want: []string{"unnamed-2 1 1", "unnamed-3 1 1", "unnamed-1 1 1"}, renamed: []string{
				`"-x" is called unnamed-2 `, `"a\342\200\256b" is called unnamed-3 `}},
		{name: "tags that are no names", agent: commit + "git checkout -q --detach; c one; git rev-parse HEAD " +
			">\".git/refs/tags/$(printf 'a\\ncreate refs x')\"; git rev-parse HEAD >.git/refs/heads/-x; git checkout -q main",
			want: []string{"unnamed-1 1 1", "unnamed-2 1 1"}, renamed: []string{`"-x" is called unnamed-1 `,
				`"refs/tags/a\ncreate refs x" is called unnamed-2 `}},
		{name: "references that are not files", agent: commit + "git checkout -qb f; c one; git checkout -q main; " +
			"mv .git/refs/heads/f .git/f; ln -s ../../f .git/refs/heads/f; mkfifo .git/refs/heads/p; " +
			"ln -s /etc/passwd .git/refs/heads/q; echo 'ref: refs/heads/g' >.git/refs/heads/g", want: []string{"HEAD@{1} 1 1"},
			warned: "refs/heads/f"},
		{name: "an object that is missing", agent: commit + "git checkout -qb f; c one; o=$(git rev-parse f^{tree}); " +
			"git checkout -q main; rm -f .git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-); git branch g side; " +
			"git checkout -q g; c two; git checkout -q main", want: []string{"g 1 2"}, warned: "f: "},
		{name: "a tree that must not be written", agent: "b=$(echo x | git hash-object -w --stdin); " +
			"t=$(printf '100644 blob %s\\tconfig\\n' $b | git mktree); " +
			"t=$(printf '040000 tree %s\\t.git\\n' $t | git mktree); git branch evil $(git commit-tree -m e -p main $t)",
			warned: "evil: "},
		{name: "a reference to no object", agent: "mkdir -p .git/refs/heads; echo " + strings.Repeat("ab", 20) +
			" >.git/refs/heads/none; echo " + strings.Repeat("ab", 32) + " >.git/refs/heads/long", warned: "none: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "b": "b\n"})
			gittest.Run(t, repo, "sh", "-ec", "git checkout -qb side; echo s >s; git add s; git commit -qm s; "+
				"git checkout -q main")
			if strings.Contains(tc.agent, "dirty") {
				gittest.Write(t, repo, map[string]string{"a": "dirty\n"})
			}
			diff, out := diffWithBundle(t, repo, tc.agent)
			var got []string
			for _, b := range diff.Branches {
				name := b.Name
				if len(name) == 12 && strings.HasPrefix(b.Commit, name) {
					name = "ID"
				}
				got = append(got, fmt.Sprintf("%s %d %d", name, b.Commits, b.Files))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("branches %q, want %q; warnings %+v", got, tc.want, diff.Warnings)
			}
			warned := slices.ContainsFunc(diff.Warnings, func(w Warning) bool {
				return (w.Code == WarnHistory || w.Code == warnApart) && strings.Contains(w.Message, tc.warned)
			})
			if warned != (tc.warned != "") {
				t.Errorf("warnings %+v, want one that says %q", diff.Warnings, tc.warned)
			}
			var renamed []string
			for _, w := range diff.Warnings {
				if w.Code == warnReplaced {
					renamed = append(renamed, w.Message)
				}
			}
			if !slices.EqualFunc(renamed, tc.renamed, strings.Contains) {
				t.Errorf("names replaced %q, want %q", renamed, tc.renamed)
			}
			bundle := filepath.Join(out, "bundle")
			if len(tc.want) == 0 {
				if git.Exists(bundle) || diff.Bundle != "" {
					t.Error("there is a bundle of nothing")
				}
				return
			}
			for _, b := range diff.Branches {
				gittest.Run(t, repo, "git", "fetch", "-q", bundle, b.Ref)
				head := strings.TrimSpace(gittest.Run(t, repo, "git", "rev-parse", "FETCH_HEAD"))
				expect.Equal(t, b.Name, head, b.Commit)
			}
			gittest.Run(t, repo, "git", "fsck", "--strict")
		})
	}
}

// leftByHead are the newest of detached commits, each of which HEAD left for the base and then the next one.
func leftByHead(n int) (want []string) {
	for i := range n {
		want = append(want, fmt.Sprintf("HEAD@{%d} 1 1", 1+2*i))
	}
	return want
}

// The names of what is left out are in the warning when there are too many objects, or references.
func TestBranchesLeftOut(t *testing.T) {
	t.Parallel()
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n"})
	diff, _ := diffWithBundle(t, repo, "git checkout -qb lost; echo b >b; git add b; git commit -qm b; "+
		"git checkout -q main; printf 'PACKxxxxxxxx' >.git/objects/pack/pack-1.pack")
	if len(diff.Warnings) != 1 || !strings.Contains(diff.Warnings[0].Message, "lost") {
		t.Errorf("warnings %+v, want one that names the branch", diff.Warnings)
	}
	diff, _ = diffWithBundle(t, repo, fmt.Sprintf("i=0; while [ $i -le %d ]; do i=$((i+1)); "+
		"echo %040d >.git/refs/heads/b$i; done", 5000, 0))
	if len(diff.Warnings) != 1 || !strings.Contains(diff.Warnings[0].Message, "more than") {
		t.Errorf("warnings %+v, want one of too many references", diff.Warnings)
	}
	if _, err := os.Stat(diff.Patch); err != nil {
		t.Error(err)
	}
}
