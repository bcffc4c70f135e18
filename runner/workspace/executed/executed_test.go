package executed

import (
	"strings"
	"testing"
)

// sampleOf returns a path that a pattern must name.
func sampleOf(pattern string) string {
	pattern = strings.ReplaceAll(pattern, "*", "x")
	if strings.HasSuffix(pattern, "/") {
		pattern += "deep/file"
	}
	return pattern
}

// attacks are paths that must be in the table, by the program that acts on them.
var attacks = map[string]string{
	"git":                   `.gitattributes sub/.git/config .gitmodules .gitconfig`,
	"git, as hooks":         `hooks/pre-commit tools/git/post-checkout x.git/hooks/update .husky/pre-push .husky/_/h`,
	"managers of git hooks": `.pre-commit-config.yaml lefthook.yml lefthook-local.yaml`,
	"other version control": `.hg/hgrc`,
	"holon":                 `.holon/config.yaml`,
	"coding agents": `
		.claude/settings.json .claude/hooks/x.sh .cursor/mcp.json .gemini/settings.json .codex/config.toml .mcp.json`,
	"coding agents, as instructions": `
		AGENTS.md sub/AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md .cursorrules .windsurfrules .goosehints
		.github/copilot-instructions.md .github/instructions/go.md go.instructions.md skills/x/SKILL.md`,
	"Visual Studio Code and its kin": `
		.vscode/tasks.json .vscode/settings.json .vscode/launch.json .devcontainer/devcontainer.json a.code-workspace`,
	"editors": `.idea/runConfigurations/x.xml .zed/tasks.json .vimrc .exrc .nvimrc .dir-locals.el`,
	"language servers and linters that editors start": `eslint.config.mjs`,
	"shells on entering":                              `.envrc .tool-versions .mise.toml mise.local.toml`,
	"shells and sessions of a home":                   `.bashrc .ssh/authorized_keys`,
	"debuggers and interpreters on starting":          `.gdbinit sitecustomize.py lib/evil.pth`,
	"npm and its kin":                                 `package.json composer.json`,
	"package managers": `.npmrc .yarnrc.yml .pnpmfile.cjs setup.py ` +
		`pyproject.toml Gemfile`,
	"build tools on opening or fetching": `build.rs .bazelrc build.gradle.kts`,
	"GitHub, Gitea and Forgejo":          `.github/workflows/ci.yml .github/actions/x/action.yml`,
	"GitLab":                             `.gitlab-ci.yml`,
	"services that build what is pushed": `
		.circleci/config.yml Jenkinsfile azure-pipelines.yml .woodpecker.yaml .woodpecker/a.yaml .drone.yml
		.buildkite/pipeline.yml bitbucket-pipelines.yml`,
}

// Every pattern of the table names what it should, as other file systems write it
// and at any depth, and every entry has an attack of its own.
func TestExecuted(t *testing.T) {
	t.Parallel()
	variants := func(name string) []string {
		return []string{name, strings.ToUpper(name), "a/b/" + name, name + ".",
			strings.ReplaceAll(name, "s", "ſ"), strings.ReplaceAll(name, "g", "g\u200d")}
	}
	for i := range table {
		entry := &table[i]
		for _, pattern := range entry.patterns {
			if pattern != strings.ToLower(pattern) {
				t.Errorf("%s: patterns are in lower case", pattern)
			}
			for _, name := range variants(sampleOf(pattern)) {
				if entryFor(folded(name)) == nil {
					t.Errorf("%s does not name %q", pattern, name)
				}
			}
		}
		if attacks[entry.program] == "" {
			t.Errorf("%s has no attack", entry.program)
		}
	}
	for program, names := range attacks {
		for _, attack := range strings.Fields(names) {
			for _, name := range variants(attack) {
				if entry := entryFor(folded(name)); entry == nil || entry.program != program {
					t.Errorf("%q: %+v, want %s", name, entry, program)
				}
			}
		}
	}
	for _, name := range []string{"main.go", "src/hooks/useState.ts", "hooks/index.js", "update", "src/update",
		"docs/git.md", "package-lock.json", "my-package.json", "github/workflows/ci.yml",
		"Makefile", "docs/agents-guide.md", "src/claude.go", "rules",
		"config", "HEAD", "refs/x", "environment.yml", "a.env", "x.vimrc",
		"requirements.txt"} {
		if entry := entryFor(folded(name)); entry != nil {
			t.Errorf("%q is executed by %s", name, entry.program)
		}
	}
}
