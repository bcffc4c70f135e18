package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/test/expect"
)

// gitAttacks are what an agent plants in its working tree and its .git for git
// on the host to run or follow. $PWN is a command that leaves the canary;
// $REPO is the user's repository. Every attack also changes a.txt, which has
// to arrive. More of them, without a container, are in landing.TestHostileHistory and workspace.TestUserHostileTree.
var gitAttacks = []struct {
	name, plant string
	added       []string // beyond a.txt, which is modified
	history     bool     // check out with the agent's commits
	refused     bool     // no branch is made of it; a patch is
}{
	{name: "configuration", plant: `
cat >> .git/config <<END
[core]
	fsmonitor = "$PWN"
	hooksPath = /holon/workspaces/hooks
	sshCommand = "$PWN"
	pager = "$PWN"
	editor = "$PWN"
	askPass = "$PWN"
	attributesFile = .gitattributes
	alternateRefsCommand = "$PWN"
	gitProxy = "$PWN"
	worktree = /
[credential]
	helper = "!$PWN"
[diff]
	external = "$PWN"
[filter "x"]
	clean = "$PWN; cat"
	smudge = "$PWN; cat"
	process = "$PWN"
	required = true
[diff "x"]
	textconv = "$PWN; cat"
	command = "$PWN"
[merge "x"]
	driver = "$PWN"
[gpg]
	program = "$PWN"
[alias]
	status = "!$PWN"
	diff = "!$PWN"
[protocol]
	allow = always
[uploadpack]
	packObjectsHook = "$PWN"
[include]
	path = /holon/workspaces/included
	path = ../included
[includeIf "gitdir:/"]
	path = ../included
[extensions]
	worktreeConfig = true
END
cp .git/config included; cp .git/config .git/config.worktree
printf '* filter=x diff=x merge=x ident\n' > .gitattributes; cp .gitattributes .git/info/attributes
`, added: []string{".gitattributes", "included"}},
	{name: "hooks", plant: `
mkdir -p .git/hooks hooks
for h in applypatch-msg pre-applypatch post-applypatch pre-commit post-commit pre-merge-commit prepare-commit-msg ` +
		`commit-msg post-checkout post-merge pre-push pre-receive update post-update reference-transaction ` +
		`post-rewrite post-index-change fsmonitor-watchman sendemail-validate pre-auto-gc; do
  printf '#!/bin/sh\n%s\n' "$PWN" > .git/hooks/$h; chmod +x .git/hooks/$h; cp .git/hooks/$h hooks/
done
rm hooks/[b-z]*
`, added: []string{"hooks/applypatch-msg"}},
	{name: "git directory of the user", plant: `rm -rf .git; echo "gitdir: $REPO/.git" > .git`},
	{name: "commondir, alternates, worktrees", plant: `
echo "$REPO/.git" > .git/commondir
printf '/\n%s/.git/objects\n../../..\n' "$REPO" >> .git/objects/info/alternates
echo 'http://localhost/' > .git/objects/info/http-alternates
mkdir -p .git/worktrees/w; echo "$REPO/.git" > .git/worktrees/w/gitdir; echo ../.. > .git/worktrees/w/commondir; ` +
		`echo 'ref: refs/heads/main' > .git/worktrees/w/HEAD`},
	{name: "index and references", plant: `
blob=$(git hash-object -w a.txt)
printf '100644 %s 0\t../../outside\n100644 %s 0\t.git/hooks/post-checkout\n' $blob $blob | git update-index ` +
		`--index-info || true
head -c 100000 /dev/urandom > .git/index
printf '# pack-refs with: peeled\n%s refs/heads/../../../../evil\n%s refs/heads/--upload-pack=x\n%s HEAD\n' $blob ` +
		`$blob $blob > .git/packed-refs
mkdir -p .git/refs/heads/-x; echo $blob > '.git/refs/heads/-x/$(id)'; mkfifo .git/refs/heads/fifo; ` +
		`ln -s / .git/refs/remotes
echo 'ref: refs/heads/../../../../../etc/passwd' > .git/HEAD`},
	{name: "submodules", plant: `
cat > .gitmodules <<END
[submodule "a"]
	path = a
	url = --upload-pack=$PWN
	update = !$PWN
[submodule "b"]
	path = b
	url = ext::sh -c "$PWN"
[submodule "../../c"]
	path = .git/hooks
	url = ssh://-oProxyCommand=$PWN/x
END
cat .gitmodules >> .git/config
mkdir -p .git/modules/a/hooks; printf '#!/bin/sh\n%s\n' "$PWN" > .git/modules/a/hooks/post-checkout; ` +
		`chmod +x .git/modules/a/hooks/post-checkout
git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),a`, added: []string{".gitmodules"}, refused: true},
	{name: "nested repositories", plant: `
for d in n d; do mkdir -p $d; git -C $d init -q
  printf '[core]\n\tfsmonitor = "%s"\n\tbare = false\n[filter "x"]\n\tclean = "%s"\n[diff]\n\texternal = "%s"\n' ` +
		`"$PWN" "$PWN" "$PWN" > $d/.git/config
  printf '#!/bin/sh\n%s\n' "$PWN" > $d/.git/hooks/post-checkout; chmod +x $d/.git/hooks/post-checkout; ` +
		`echo x > $d/f; done
mkdir -p bare/hooks bare/objects bare/refs; cp n/.git/config n/.git/HEAD bare/; cp n/.git/hooks/post-checkout ` +
		`bare/hooks/; touch bare/objects/k bare/refs/k; mkdir m; echo "gitdir: $REPO/.git" > m/.git; echo x > m/f`,
		added: []string{"bare/HEAD", "bare/config",
			"bare/hooks/post-checkout", "bare/objects/k", "bare/refs/k", "d/f", "m/f", "n/f"}},
	{name: "commits of hostile trees", history: true, plant: `
blob=$(printf '#!/bin/sh\n%s\n' "$PWN" | git hash-object -w --stdin)
hooks=$(printf '100755 blob %s\tpost-checkout\n' $blob | git mktree)
git=$(printf '040000 tree %s\thooks\n' $hooks | git mktree)
for n in .git .GIT git~1 ..; do
  tree=$(printf '040000 tree %s\t%s\n' $git $n | git mktree) && git update-ref HEAD $(echo "$n" | git commit-tree ` +
		`$tree -p HEAD) || true
done
test $(git rev-list --count HEAD) -gt 3`},
	{name: "attributes of the tree", plant: `printf '* filter=canary diff=canary merge=canary ident\n' > ` +
		`.gitattributes`, added: []string{".gitattributes"}},
}

// Git on the host, during the run and after it, runs nothing that an agent
// planted, and nothing of the agent's git directory reaches the user.
func TestHostileGit(t *testing.T) {
	for _, tc := range gitAttacks {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			canary := filepath.Join(t.TempDir(), "canary")
			repo := repository(t, "git config user.name U; git config user.email u@example.org; echo a > a.txt; "+
				"mkdir d; echo d > d/e")
			h := newHome(t, "PWN=touch "+canary, "REPO="+repo)
			config := sh(t, repo, "git config --list --local")
			// Drivers of the user's own, which an agent's attributes could choose.
			sh(t, repo, `for k in filter.canary.clean filter.canary.smudge diff.canary.textconv diff.canary.command `+
				`merge.canary.driver; do git config $k "touch `+canary+`; cat"; done`)
			before := snapshot(t, repo)
			r := h.run(repo, "run", "--model", shellModel(t, "set -e\n"+tc.plant+"\nprintf 'b\\n' > a.txt"), "--env",
				"PWN", "--env", "REPO", "plant it")
			if r.code != 0 {
				t.Fatalf("exit code %d\n%s\n%s", r.code, r.stderr, r.stdout)
			}
			want := []string{"modified a.txt"}
			for _, name := range tc.added {
				want = append(want, "added "+name)
			}
			slices.Sort(want)
			checkChanged(t, r, want...)
			wantUntouched(t, repo, before)

			args := []string{"checkout", "--allow-executed", "last"}
			if tc.history {
				args = append(args, "--history")
			}
			out := h.run(repo, args...)
			if tc.refused {
				if out.code != 1 || !strings.Contains(out.stderr, "don't pass git's checks") {
					t.Errorf("checkout: exit code %d\n%s", out.code, out.stderr)
				}
				wantUntouched(t, repo, before)
				return
			}
			if tc.history && !strings.Contains(strings.Join(r.manifest.Warnings, "\n"), "commits were left out") &&
				r.manifest.Workspace.Changes.History == nil {
				t.Error("the agent's commits were not looked at")
			}
			if out.code != 0 {
				t.Fatalf("checkout: exit code %d\n%s", out.code, out.stderr)
			}
			tree := strings.TrimSpace(out.stdout)
			expect.Equal(t, "a.txt", sh(t, tree, "cat a.txt"), "b\n")
			if _, err := os.Lstat(canary); err == nil {
				t.Fatal("planted code was run on the host")
			}
			// The user's own git in the new working tree, without drivers of theirs.
			sh(t, repo, "for k in filter.canary diff.canary merge.canary; do git config --remove-section $k; done")
			sh(t, tree, "git status; git log -p --stat; git diff main; git show; git fsck --strict --no-dangling")
			if out := h.run(repo, "apply", "--allow-executed", "last"); out.code != 0 {
				t.Errorf("apply: exit code %d\n%s", out.code, out.stderr)
			}
			if out := h.run(repo, "gc", "--keep-runs", "0"); out.code != 0 {
				t.Errorf("gc: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
			}
			sh(t, repo, "git status; git diff; git add -A; git commit -qm applied; git fsck --strict --no-dangling")
			if _, err := os.Lstat(canary); err == nil {
				t.Error("planted code was run on the host")
			}
			if diff := cmp.Diff(config, sh(t, repo, "git config --list --local")); diff != "" {
				t.Errorf("the user's configuration was changed:\n%s", diff)
			}
			if left := sh(t, repo, "git worktree list; ls -A '"+h.dir+"/worktrees' '"+h.dir+
				"/runs' | grep run_ || true"); strings.Count(left, "\n") != 1 {
				t.Errorf("left behind:\n%s", left)
			}
		})
	}
}

// shellModel is a scripted model that runs one script.
func shellModel(t *testing.T, script string) string {
	t.Helper()
	scenario, err := json.Marshal(map[string]any{"rounds": []any{
		map[string]any{"calls": []any{map[string]any{"tool": "ExecCommand",
			"arguments": map[string]any{"cmd": script}}}},
		map[string]any{"expect": map[string]any{"exit_status": 0}, "text": "Done."},
	}})
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	if err == nil {
		err = os.WriteFile(path, scenario, 0o644)
	}
	expect.NoError(t, err)
	return "scripted/" + path
}
