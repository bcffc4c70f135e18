package workspace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// agree is a person who read the files that programs execute.
func agree([]Warning) error { return nil }

// sampleOf returns a path that a pattern must name.
func sampleOf(pattern string) string {
	pattern = strings.ReplaceAll(pattern, "*", "x")
	if strings.HasSuffix(pattern, "/") {
		pattern += "deep/file"
	}
	return pattern
}

// attacks are paths that must be in the table, whatever its patterns are, by what
// acts on them.
var attacks = map[string]string{
	"git":                   `.gitattributes sub/.git/config .gitmodules .gitconfig`,
	"git, as hooks":         `hooks/pre-commit tools/git/post-checkout x.git/hooks/update .husky/pre-push .husky/_/h`,
	"managers of git hooks": `.pre-commit-config.yaml lefthook.yml lefthook-local.yaml`,
	"other version control": `.hg/hgrc`,
	"holon":                 `.holon/config.yaml`,
	"coding agents": `
		.claude/settings.json .claude/hooks/x.sh .cursor/mcp.json .gemini/settings.json .codex/config.toml .mcp.json`,
	"Visual Studio Code and its kin": `
		.vscode/tasks.json .vscode/settings.json .vscode/launch.json .devcontainer/devcontainer.json a.code-workspace`,
	"editors": `.idea/runConfigurations/x.xml .zed/tasks.json .vimrc .exrc .nvimrc .dir-locals.el`,
	"language servers and linters that editors start": `eslint.config.mjs`,
	"shells on entering":                              `.envrc .tool-versions .mise.toml mise.local.toml`,
	"shells and sessions of a home":                   `.bashrc .ssh/authorized_keys`,
	"debuggers and interpreters on starting":          `.gdbinit sitecustomize.py lib/evil.pth`,
	"npm and its kin":                                 `package.json composer.json`,
	"package managers":                                `.npmrc .yarnrc.yml .pnpmfile.cjs setup.py pyproject.toml Gemfile`,
	"build tools on opening or fetching":              `build.rs .bazelrc build.gradle.kts`,
	"GitHub, Gitea and Forgejo":                       `.github/workflows/ci.yml .github/actions/x/action.yml`,
	"GitLab":                                          `.gitlab-ci.yml`,
	"services that build what is pushed": `
		.circleci/config.yml Jenkinsfile azure-pipelines.yml .woodpecker.yaml .woodpecker/a.yaml .drone.yml
		.buildkite/pipeline.yml bitbucket-pipelines.yml`,
}

// Every pattern of the table names what it should, as other file systems write it
// and at any depth, and every entry has an attack of its own.
func TestExecuted(t *testing.T) {
	variants := func(name string) []string {
		return []string{name, strings.ToUpper(name), "a/b/" + name, name + ".",
			strings.ReplaceAll(name, "s", "ſ"), strings.ReplaceAll(name, "g", "g\u200d")}
	}
	for i := range executedTable {
		entry := &executedTable[i]
		for _, pattern := range entry.patterns {
			if pattern != strings.ToLower(pattern) {
				t.Errorf("%s: patterns are in lower case", pattern)
			}
			for _, name := range variants(sampleOf(pattern)) {
				if executedEntry(folded(name)) == nil {
					t.Errorf("%s does not name %q", pattern, name)
				}
			}
		}
		if attacks[entry.program] == "" {
			t.Errorf("%s: there is no attack", entry.program)
		}
	}
	for program, names := range attacks {
		for _, attack := range strings.Fields(names) {
			for _, name := range variants(attack) {
				if entry := executedEntry(folded(name)); entry == nil || entry.program != program {
					t.Errorf("%q: %+v, want %s", name, entry, program)
				}
			}
		}
	}
	for _, name := range []string{"main.go", "src/hooks/useState.ts", "hooks/index.js", "update", "src/update",
		"docs/git.md", "package-lock.json", "my-package.json", "github/workflows/ci.yml",
		"Makefile", "AGENTS.md", "config", "HEAD", "refs/x", "environment.yml", "a.env", "x.vimrc",
		"requirements.txt"} {
		if entry := executedEntry(folded(name)); entry != nil {
			t.Errorf("%q is executed by %s", name, entry.program)
		}
	}
}

// A directory that becomes a repository, and links, are looked up in the result.
func TestExecutedInResult(t *testing.T) {
	isolate(t)
	base := map[string]string{
		// bare already
		"docs/api/HEAD": "ref: refs/heads/main\n", "docs/api/refs/.keep": "", "docs/api/objects/.keep": "",
		"docs/api/page.md": "text\n",
		"half/HEAD":        "ref: refs/heads/main\n", "half/config": "[core]\n", // becomes one
		"work/HEAD": "ref: refs/heads/main\n", // becomes a linked one
		".husky":    "-> tools/scripts", "tools/scripts/lint.sh": "#!/bin/sh\n", ".github/workflows": "-> ../ci",
		"ci/build.yml": "a\n",
		"loops/hooks":  "-> .", ".idea": "-> way/real", "way": "-> deep", "deep/real/run.xml": "a\n",
		"web/package.json": `{"name":"a","scripts":{"test":"x"}}`,
		"app/package.json": `{"name":"a","scripts":{"test":"x"}}`, "src/hooks/use.ts": "a\n", "tool": "a\n",
	}
	for name, made := range map[string]func(t *testing.T) string{
		"repository": func(t *testing.T) string { return newRepo(t, base) },
		"directory":  func(t *testing.T) string { dir := t.TempDir(); write(t, dir, base); return dir },
	} {
		t.Run(name, func(t *testing.T) {
			tree := acquire(t, Options{Dir: made(t), IncludeDirty: true})
			write(t, tree.WorkDir(), map[string]string{
				"docs/api/config":    "[core]\n\tworktree = .\n[filter \"x\"]\n\tclean = id\n",
				"docs/api/hooks/any": "#!/bin/sh\n", "docs/api/page.md": "more\n",
				"half/objects/.keep": "", "half/refs/.keep": "", "work/commondir": "../half\n",
				"tools/scripts/lint.sh": "#!/bin/sh\nid\n", "ci/build.yml": "b\n", "other/.vscode": "-> ../cfg",
				"cfg/tasks.json": "{}", "deep/real/run.xml": "b\n", "loops/a.txt": "x", "src/hooks/use.ts": "b\n",
				"web/package.json": `{"name":"a","scripts":{"test":"x","preinstall":"id"}}`,
				"app/package.json": `{"name":"a","version":"2","scripts":{"test":"x"}}`,
				"new/package.json": `{"name":"b"}`, "broken/package.json": `{"scripts":`,
			})
			run(t, tree.WorkDir(), "sh", "-ec", "chmod +x tool; mkdir moved; mv src/hooks/use.ts moved/.envrc")
			diff, err := tree.Diff(t.Context(), DiffOptions{Patch: filepath.Join(t.TempDir(), "patch")})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range diff.Warnings {
				if w.Code == WarnExecuted {
					got = append(got, w.Path)
				}
			}
			want := []string{"broken/package.json", "cfg/tasks.json", "ci/build.yml", "deep/real/run.xml",
				"docs/api/config", "docs/api/hooks/any", "half/objects/.keep", "half/refs/.keep", "moved/.envrc",
				"other/.vscode",
				"tools/scripts/lint.sh", "web/package.json", "work/commondir"}
			if !slices.Equal(got, want) {
				t.Errorf("executed: %q, want %q", got, want)
			}
		})
	}
}

// Apply and Checkout write nothing of a change with files that programs execute
// unless they are told to.
func TestExecutedNeedsConfirmation(t *testing.T) {
	isolate(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "x/refs/.keep": "", "x/objects/.keep": ""})
	tree := acquire(t, Options{Dir: repo})
	o := finished(t, repo, tree, func(dir string) {
		write(t, dir, map[string]string{"a.txt": "b\n", ".envrc": "id\n", "x/config": "[core]\n"})
	})
	write(t, repo, map[string]string{"x/HEAD": "ref: refs/heads/main\n"}) // the person's own, later
	before := userFiles(t, repo)
	options := ApplyOptions{Dir: repo, Patch: o.Diff.Patch, Objects: o.Objects, Warnings: o.Diff.Warnings}
	_, err := Apply(t.Context(), options)
	wantRefusal(t, err, CodeExecutedFiles)
	if e, ok := errors.AsType[*Error](err); !ok || !slices.Equal(e.Paths, []string{".envrc", "x/config"}) ||
		!strings.Contains(e.Error(), ".envrc") || !strings.Contains(e.Error(), "--allow-executed") {
		t.Errorf("%v, %q", err, e.Paths)
	}
	_, err = Checkout(t.Context(), o)
	wantRefusal(t, err, CodeExecutedFiles)
	no := errors.New("no")
	options.Confirm = func([]Warning) error { return no }
	if _, err := Apply(t.Context(), options); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if after := userFiles(t, repo); after != before || run(t, repo, "git", "branch", "--list", "holon/*") != "" {
		t.Errorf("something was written:\n%s\n%s", before, after)
	}
	options.Confirm, o.Confirm = agree, agree
	if result := checkedOut(t, o); !exists(filepath.Join(result.Path, ".envrc")) {
		t.Error("the file is not checked out")
	}
	o.Confirm = nil // it is there: nothing is written
	if !checkedOut(t, o).Existing {
		t.Error("the existing working tree is made again")
	}
	if result, err := Apply(t.Context(), options); err != nil || len(result.Written) != 3 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Finding nothing in a large change of a large tree is quick.
func BenchmarkExecuted(b *testing.B) {
	isolate(b)
	repo := newRepo(b, map[string]string{"a": "a\n"})
	var files []resultFile
	for i := range 100_000 {
		files = append(files, resultFile{path: fmt.Sprintf("src/module%d/internal/pkg/file%d.go", i%100, i),
			id: hex.EncodeToString(make([]byte, 20))})
	}
	for i := range 10_000 {
		files[i].changed = true
	}
	g := repository{dir: filepath.Join(repo, ".git")}.git()
	for b.Loop() {
		if found, err := executed(b.Context(), g, files); err != nil || len(found) != 0 {
			b.Fatal(found, err)
		}
	}
}
