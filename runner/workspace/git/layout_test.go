package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/test/expect"
	"holon/test/gittest"
)

// find discovers without any allowance.
func find(dir string) (*Layout, error) { return discover(dir, Borrowing{}) }

func wantLayout(t *testing.T, dir string, want Layout) {
	t.Helper()
	l, err := find(dir)
	if err != nil || l == nil {
		t.Fatalf("layout = %+v, %v", l, err)
	}
	if want.CommonDir == "" {
		want.CommonDir = want.GitDir
	}
	expect.Equal(t, "l.Top", l.Top, want.Top)
	expect.Equal(t, "l.Prefix", l.Prefix, want.Prefix)
	expect.Equal(t, "l.GitDir", l.GitDir, want.GitDir)
	expect.Equal(t, "l.CommonDir", l.CommonDir, want.CommonDir)
	expect.Equal(t, "l.Objects", l.Objects, filepath.Join(want.CommonDir, "objects"))
	expect.Equal(t, "len(l.borrowed)", len(l.borrowed), 0)
	expect.Equal(t, "l.ownTop", l.ownTop, want.ownTop)
}

func TestDiscoverFinds(t *testing.T) {
	t.Parallel()
	inner := gittest.NewRepo(t, map[string]string{"inner.txt": "x\n"})
	lib := gittest.NewRepo(t, map[string]string{"lib.txt": "x\n"})
	gittest.Run(t, lib, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "inner")
	gittest.Run(t, lib, "git", "commit", "-qam", "inner")
	repo := gittest.NewRepo(t, map[string]string{"a": "a\n", "d/e/b": "b\n"})
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "worktrees/lib")
	gittest.Run(t, repo, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init",
		"--recursive")
	gittest.Run(t, repo, "git", "commit", "-qm", "lib")
	parent := filepath.Dir(repo)
	linked, ofLib, ofBare := filepath.Join(parent, "linked"), filepath.Join(parent, "lib"),
		filepath.Join(parent, "of-bare")
	gittest.Run(t, repo, "git", "worktree", "add", "-q", linked)
	gittest.Run(t, linked, "git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	gittest.Run(t, filepath.Join(repo, "worktrees/lib"), "git", "worktree", "add", "-q", ofLib)
	gittest.Run(t, "", "git", "clone", "-q", "--bare", inner, filepath.Join(parent, "bare.git"))
	gittest.Run(t, filepath.Join(parent, "bare.git"), "git", "worktree", "add", "-q", ofBare)
	gittest.Write(t, repo, map[string]string{"passed/.git/config": "[core]\n"}) // not a repository
	git := filepath.Join(repo, ".git")
	modules := filepath.Join(git, "modules/worktrees/lib")
	for name, tc := range map[string]struct {
		dir  string
		want Layout
	}{
		"top": {repo, Layout{Top: repo, GitDir: git, ownTop: repo}},
		"sub-directory": {filepath.Join(repo, "d/e"),
			Layout{Top: repo, Prefix: "d/e", GitDir: git, ownTop: repo}},
		"not a .git": {filepath.Join(repo, "passed"),
			Layout{Top: repo, Prefix: "passed", GitDir: git, ownTop: repo}},
		"linked working tree": {linked, Layout{Top: linked, GitDir: filepath.Join(git, "worktrees/linked"),
			CommonDir: git, ownTop: repo}},
		"of a bare repository": {ofBare, Layout{Top: ofBare,
			GitDir:    filepath.Join(parent, "bare.git/worktrees/of-bare"),
			CommonDir: filepath.Join(parent, "bare.git"), ownTop: filepath.Join(parent, "bare.git")}},
		"submodule": {filepath.Join(repo, "worktrees/lib"),
			Layout{Top: filepath.Join(repo, "worktrees/lib"), GitDir: modules, ownTop: repo}},
		"submodule of a submodule": {filepath.Join(repo, "worktrees/lib/inner"),
			Layout{Top: filepath.Join(repo, "worktrees/lib/inner"),
				GitDir: filepath.Join(modules, "modules/inner"), ownTop: repo}},
		"submodule of a linked working tree": {filepath.Join(linked, "worktrees/lib"),
			Layout{Top: filepath.Join(linked, "worktrees/lib"),
				GitDir: filepath.Join(git, "worktrees/linked/modules/worktrees/lib"), ownTop: repo}},
		"linked working tree of a submodule": {ofLib,
			Layout{Top: ofLib, GitDir: filepath.Join(modules, "worktrees/lib"),
				CommonDir: modules, ownTop: repo}},
	} {
		t.Run(name, func(t *testing.T) { wantLayout(t, tc.dir, tc.want) })
	}
	t.Run("relative links", func(t *testing.T) {
		gittest.Write(t, linked, map[string]string{".git": "gitdir: ../repo/.git/worktrees/linked\n"})
		gittest.Write(t, git, map[string]string{"worktrees/linked/gitdir": "../../../../linked/.git"})
		wantLayout(t, linked, Layout{Top: linked, GitDir: filepath.Join(git, "worktrees/linked"),
			CommonDir: git, ownTop: repo})
	})
	t.Run("submodule with a sparse checkout", func(t *testing.T) {
		sub := filepath.Join(repo, "worktrees/lib")
		gittest.Run(t, sub, "git", "sparse-checkout", "init")
		if _, err := os.Stat(filepath.Join(modules, "config.worktree")); err != nil {
			t.Skip("this git keeps everything in one file")
		}
		wantLayout(t, sub, Layout{Top: sub, GitDir: modules, ownTop: repo})
	})
	t.Run("a link to a submodule's", func(t *testing.T) { // as git-annex makes it
		sub := filepath.Join(repo, "worktrees/lib")
		gittest.Write(t, sub, map[string]string{".git": "-> ../../.git/modules/worktrees/lib"})
		wantLayout(t, sub, Layout{Top: sub, GitDir: modules, ownTop: repo})
	})
}

// A directory is plain if neither it nor a parent has a .git, even if it looks like a bare repository.
func TestDiscoverPlain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gittest.Run(t, dir, "git", "init", "-q", "--bare", "bare")
	for _, name := range []string{"", "bare", "bare/objects"} {
		if l, err := find(filepath.Join(dir, name)); l != nil || err != nil {
			t.Errorf("%q: layout = %+v, %v", name, l, err)
		}
	}
}

// A directory that someone else prepared leads to no other repository and no other objects.
func TestDiscoverRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plant string // run in a clone, next to the user's repository ../private
		dir   string
		code  string // empty: the clone itself is found
	}{
		"look-alike": {plant: `git init -q --bare d; cd d; git config core.bare false; git config core.worktree .;
			mkdir -p objects/info; echo ~/.ssh > objects/info/alternates`, dir: "d"},
		".git file": {plant: `rm -rf .git; echo "gitdir: $PRIVATE/.git" > .git`,
			code: codeLeadsElsewhere},
		".git file to its worktree": {plant: `git -C ../private worktree add -q ../w; rm -rf .git; cp ../w/.git .git`,
			code: codeLeadsElsewhere},
		".git file to a submodule": {plant: `git -C ../private -c protocol.file.allow=always submodule --quiet add ` +
			`../private sub; rm -rf .git; echo "gitdir: $PRIVATE/.git/modules/sub" > .git`, code: codeLeadsElsewhere},
		"submodule leads elsewhere": {plant: `mkdir sub; echo "gitdir: $PRIVATE/.git" > sub/.git`, dir: "sub",
			code: codeLeadsElsewhere},
		"modules are a link": {plant: `mkdir sub; ln -s "$PRIVATE" .git/modules;
			echo "gitdir: ../.git/modules/.git" > sub/.git`, dir: "sub", code: codeLeadsElsewhere},
		"no back link": {plant: `mkdir sub .git/modules; cp -r "$PRIVATE/.git" .git/modules/sub;
			echo "gitdir: ../.git/modules/sub" > sub/.git`, dir: "sub", code: codeLeadsElsewhere},
		"own worktree directory": {plant: `mkdir -p x/worktrees/w; echo "$PRIVATE/.git" > x/worktrees/w/commondir;
			echo "$PWD/.git" > x/worktrees/w/gitdir; cp .git/HEAD x/worktrees/w; rm -rf .git;
			echo "gitdir: x/worktrees/w" > .git`, code: codeLeadsElsewhere},
		".git is a link": {plant: `rm -rf .git; ln -s "$PRIVATE/.git" .git`, code: codeLeadsElsewhere},
		"commondir":      {plant: `echo "$PRIVATE/.git" > .git/commondir`, code: codeLeadsElsewhere},
		"only commondir": {plant: `echo "$PRIVATE/.git" > .git/commondir; rm -r .git/objects .git/refs`,
			code: codeLeadsElsewhere},
		"objects are a link": {plant: `rm -rf .git/objects; ln -s "$PRIVATE/.git/objects" .git/objects`,
			code: codeLeadsElsewhere},
		"references are a link": {plant: `rm -rf .git/refs; ln -s "$PRIVATE/.git/refs" .git/refs`,
			code: codeLeadsElsewhere},
		"packs are a link": {plant: `rmdir .git/objects/pack;
			ln -s "$PRIVATE/.git/objects/pack" .git/objects/pack`, code: codeForeignObjects},
		"an object is a link": {plant: `mkdir .git/objects/00;
			ln -s /etc/hostname .git/objects/00/00000000000000000000000000000000000000`, code: codeForeignObjects},
		"HEAD is a link":          {plant: `ln -sf "$PRIVATE/.git/HEAD" .git/HEAD`, code: CodeBrokenRepository},
		"inside .git":             {plant: `:`, dir: ".git/objects", code: CodeBareRepository},
		"inside .git, look-alike": {plant: `git init -q --bare .git/x`, dir: ".git/x", code: CodeBareRepository},
		"working tree elsewhere":  {plant: `git config core.worktree ../private`, code: CodeBareRepository},
		"bare":                    {plant: `git config core.bare true`, code: CodeBareRepository},
		".git is a pipe":          {plant: `rm -rf .git; mkfifo .git`, code: CodeBrokenRepository},
		"commondir is a pipe": {plant: `git -c user.name=a -c user.email=a commit -q --allow-empty -m x;
			git worktree add -q ../w; rm .git/worktrees/w/commondir;
			mkfifo .git/worktrees/w/commondir`, dir: "../w", code: CodeBrokenRepository},
		"alternates are a pipe": {plant: `mkfifo .git/objects/info/alternates`, code: codeForeignObjects},
		"empty .git file":       {plant: `rm -rf .git; : > .git`, code: CodeBrokenRepository},
		"two lines":             {plant: `rm -rf .git; printf 'gitdir: a\nb\n' > .git`, code: CodeBrokenRepository},
		"circle of links":       {plant: `rm -rf .git; ln -s .git .git`, code: CodeBrokenRepository},
		"huge .git file":        {plant: `rm -rf .git; truncate -s 2M .git`, code: CodeBrokenRepository},
		"configuration a pipe": {plant: `git -c protocol.file.allow=always submodule --quiet add ../private sub;
			rm .git/modules/sub/config; mkfifo .git/modules/sub/config`, dir: "sub", code: CodeBrokenRepository},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			private, clone := filepath.Join(dir, "private"), filepath.Join(dir, "clone")
			gittest.FillRepo(t, private, map[string]string{"secret": "x\n"})
			gittest.FillRepo(t, clone, nil)
			gittest.Run(t, clone, "env", "PRIVATE="+private, "sh", "-ec", tc.plant)
			l, err := find(filepath.Join(clone, tc.dir))
			if tc.code == "" {
				if err != nil || l == nil || l.Top != clone || l.Prefix != tc.dir || len(l.borrowed) > 0 {
					t.Fatalf("found %+v (%v), want %s in %s without borrowed objects", l, err, tc.dir, clone)
				}
				return
			}
			wantCode(t, err, tc.code)
			if e := err.(*Error); e.Hint == "" || e.Param == "" {
				t.Errorf("the error names no path or no remedy: %+v", e)
			}
		})
	}
}

// Every part of a repository has to belong to the caller or root, regardless of safe.directory.
func TestDiscoverOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	global := filepath.Join(t.TempDir(), "gitconfig")
	expect.NoError(t, os.WriteFile(global, []byte("[safe]\n\tdirectory = *\n"), 0o600))
	t.Setenv("GIT_CONFIG_GLOBAL", global)
	const stranger = 12345
	for _, path := range []string{".", ".git", ".git/objects", ".git/refs"} {
		repo := gittest.NewRepo(t, map[string]string{"a": "a\n"})
		expect.NoError(t, os.Chown(filepath.Join(repo, path), stranger, stranger))
		t.Setenv("SUDO_UID", "")
		_, err := find(repo)
		wantCode(t, err, codeUnsafeOwnership)
		if !strings.Contains(err.Error(), "chown") {
			t.Errorf("no remedy: %v", err)
		}
		t.Setenv("SUDO_UID", "12345")
		if _, err := find(repo); err != nil {
			t.Errorf("%s of who used sudo: %v", path, err)
		}
	}
	linked := gittest.AddWorktree(t, gittest.NewRepo(t, map[string]string{"a": "a\n"}))
	t.Setenv("SUDO_UID", "")
	expect.NoError(t, syscall.Lchown(filepath.Join(linked, ".git"), stranger, stranger))
	_, err := find(linked)
	wantCode(t, err, codeUnsafeOwnership)
}

// The settings that are read of a configuration file are those that git reads.
func TestParseConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range []string{"", "[core]\n\tworktree = ../../../lib\n", "[CORE]\nWorkTree=\"a b\"\n",
		"[core] bare\n", "[core]\nbare = yes # x\n",
		"[core]\nbare =\n", "[core]\nworktree = a ; x\n[core " +
			"\"sub\"]\nworktree=no\n[x.y]\nworktree=no\n[core]\r\n\tbare = 1\r\n",
		"[core]\nworktree = \" a\\\"\\\\ \" \n", "[core]\nworktree = a\\\nb c  \n\n[core]\nbare=ON",
		"[core]\nworktree=x\nworktree",
		"[include]\npath=other\n[core]\nworktree = a\\tb\n",
		"; c\n# d\n[a-b \"c\\\\d\"]\n k1-x = 3\n[user]\n\tname = Ü \"x  \" y\n",
		"[alias]\n x = \"!f() { echo \\\"a\\\"; }; f\"\n y = !git log \\\n  --all\n[core]\n\tworktree = x\n",
		"[a]b=c[d]\ne=f=g\n",
		"[core]\nx = a\\qb\n", "[x]\n k = \"unterminated\n", "[core\n", "= x\n", "[core]\n_a = x\n",
		"[core]\nworktree x\n"} {
		gittest.Write(t, dir, map[string]string{"config": text, "other": "[core]\nbare = true\n"})
		cmd := exec.CommandContext(t.Context(), "git", "config", "--file", "config", "--no-includes", "--list", "-z")
		cmd.Dir = dir
		out, gitErr := cmd.Output()
		var want, got []string
		for setting := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			name, value, valued := strings.Cut(setting, "\n")
			if !valued {
				value = "true"
			}
			if strings.Count(name, ".") == 1 {
				want = append(want, name+"="+value)
			}
		}
		err := parseSettings(text, func(key, value string) {
			if strings.Count(key, ".") == 1 {
				got = append(got, key+"="+value)
			}
		})
		if (err == nil) != (gitErr == nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; git reads %q, %v", text, got, err, want, gitErr)
		}
	}
}
