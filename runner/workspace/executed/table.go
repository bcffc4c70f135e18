// Package executed finds changed files that programs execute without being asked to: hooks, editor tasks, shell
// environments, definitions of builds. It compares names with one table as the most forgiving file system
// compares them, in the tree as the change leaves it, and runs nothing.
package executed

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"holon/internal/gitname"
)

// entry is an entry of the table: a program, and patterns of the files that it executes. A pattern matches at
// any depth, without regard to case, and one that ends in a slash also matches everything below the
// directory. * stands for part of one name.
type entry struct {
	program  string
	patterns []string
	// content, when set, returns the part of a file that the program executes: a file in which it stays the
	// same is left out. ok is false for content that cannot be parsed.
	content func(data []byte) (text string, ok bool)
}

// table names the files that programs act on when a directory is opened or entered, when git works in it, when packages
// are installed, or when it is pushed. Sources, tests and build files that only a person's own command reads (Makefile,
// CMakeLists.txt, pom.xml, conftest.py) are not among them: changing these is the daily work of an agent.
var table = []entry{
	{program: "git", patterns: strings.Fields(`.git/ .gitattributes .gitmodules .gitconfig .lfsconfig .config/git/`)},
	{program: "git, as hooks", patterns: strings.Fields(hookNames + `
		hooks/update .githooks/ .git-hooks/ .husky/ .huskyrc* .lefthook/`)},
	{program: "managers of git hooks", patterns: strings.Fields(`
		.pre-commit-config.y*ml .pre-commit-hooks.y*ml lefthook*.y*ml .lefthook*.y*ml lefthook*.toml .lefthook*.toml
		lefthook*.json .lefthook*.json
		.overcommit.yml captainhook.json grumphp.yml .lintstagedrc* lint-staged.config.* .simple-git-hooks.*
		simple-git-hooks.* .commitlintrc* commitlint.config.*`)},
	{program: "other version control", patterns: strings.Fields(`.hg/ .hgrc .svn/ .jj/ .sl/ .bzr/ _darcs/ .pijul/`)},
	{program: "holon", patterns: strings.Fields(`.holon/`)},
	{program: "coding agents", patterns: strings.Fields(`
		.claude/ .cursor/ .gemini/ .codex/ .windsurf/ .cline/ .clinerules/ .roo/ .continue/ .amazonq/ .kiro/ .junie/
		.opencode/ .qwen/ .trae/ .factory/ .goose/ .augment/ .agents/ .agent/ .mcp.json mcp.json opencode.json*
		.crush.json crush.json .aider.conf.yml`)},
	{program: "coding agents, as instructions", patterns: strings.Fields(`
		agents.md agents.*.md agent.md claude.md claude.*.md gemini.md qwen.md crush.md warp.md codex.md jules.md
		.cursorrules .windsurfrules .clinerules* .roorules* .roomodes .kilocoderules* .kilocode/ .goosehints .rules
		.aider* .augment-guidelines .openhands/ .openhands_instructions replit.md copilot-instructions.md
		.github/instructions/ .github/prompts/ .github/chatmodes/ .github/agents/ .github/skills/ skill.md
		*.instructions.md *.prompt.md *.chatmode.md *.agent.md`)},
	{program: "Visual Studio Code and its kin", patterns: strings.Fields(`
		.vscode/ *.code-workspace .devcontainer/ .devcontainer.json .vs/`)},
	{program: "editors", patterns: strings.Fields(`
		.idea/ .fleet/ .zed/ .nova/ .helix/ .nvim/ .vim/ .exrc _exrc .vimrc _vimrc .gvimrc .nvimrc .nvim.lua .lvimrc
		.local.vimrc .dir-locals*.el *.sublime-project .externaltoolbuilders/ nbproject/ .luarc.json`)},
	{program: "language servers and linters that editors start", patterns: strings.Fields(`
		.eslintrc* eslint.config.* .prettierrc* prettier.config.* .stylelintrc* stylelint.config.* .pylintrc
		pylintrc pylintrc.toml .flake8 setup.cfg tox.ini mypy.ini rust-analyzer.toml .rubocop.yml package.swift ` +
		`mix.exs rebar.config* directory.build.*`)},
	{program: "shells on entering", patterns: strings.Fields(`
		.envrc .env .rvmrc .autoenv* .tool-versions mise*.toml .mise*.toml .mise/ mise/config.toml .nvmrc
		.node-version .python-version .ruby-version .java-version .sdkmanrc rust-toolchain rust-toolchain.toml`)},
	{program: "shells and sessions of a home", patterns: strings.Fields(`
		.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
		.zlogout .config/fish/ .config/autostart/ .config/systemd/ .ssh/`)},
	{program: "debuggers and interpreters on starting", patterns: strings.Fields(`
		.gdbinit *-gdb.py .lldbinit .pdbrc .pythonrc .pythonstartup sitecustomize.py usercustomize.py *.pth .ipython/
		.jupyter/ .irbrc .pryrc .byebugrc .rdbgrc .perldb .rprofile .renviron .rdata .octaverc .iex.exs .ghci .ocamlinit
		.user.ini .htaccess`)},
	{program: "npm and its kin", content: packageScripts, patterns: strings.Fields(`package.json composer.json`)},
	{program: "package managers", patterns: strings.Fields(`
		.npmrc .yarnrc .yarnrc.yml .yarn/ .pnp.* .pnpmfile.* pnpm-workspace.yaml bunfig.toml binding.gyp setup.py
		pyproject.toml pip.conf .pypirc uv.toml gemfile *.gemspec .bundle/ nuget.config`)},
	{program: "build tools on opening or fetching", patterns: strings.Fields(`
		build.rs cargo.toml .cargo/ *.gradle *.gradle.kts gradle/wrapper/ .mvn/ .bazelrc .bazelversion ` +
		`.bazeliskrc tools/bazel
		.buckconfig* pants.toml .terraform/ .terraformrc`)},
	{program: "GitHub, Gitea and Forgejo", patterns: strings.Fields(`
		.github/workflows/ .github/actions/ action.y*ml .gitea/ .forgejo/`)},
	{program: "GitLab", patterns: strings.Fields(`.gitlab-ci.y*ml *.gitlab-ci.y*ml .gitlab/`)},
	{program: "services that build what is pushed", patterns: strings.Fields(`
		.circleci/ .travis.y*ml .drone.* jenkinsfile* .jenkins/ azure-pipelines*.y*ml .azure-pipelines/ .azuredevops/
		bitbucket-pipelines.yml .woodpecker.y*ml .woodpecker/ .buildkite/ appveyor.yml .appveyor.yml .cirrus.*
		.semaphore/ .teamcity/ .tekton/ .build.yml .builds/ buildspec.y*ml cloudbuild.y*ml codemagic.yaml bitrise.yml
		netlify.toml vercel.json .readthedocs.y*ml .gitpod.yml .replit .codesandbox/ .idx/ renovate.json*
		zuul.yaml .zuul.yaml .zuul.d/ .packit.yaml buildkite.yml amplify.yml codefresh.yml .prow.yaml .vsts-ci.yml`)},
}

// hookNames are git's hooks, wherever core.hooksPath leads. Other files of a
// directory called hooks are sources: React has hooks too.
const hookNames = `
	applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg
	post-commit pre-rebase post-checkout post-merge pre-push pre-receive proc-receive post-receive post-update
	reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman
	post-index-change p4-*`

// folded returns the names of a path as the most forgiving file systems compare them.
func folded(name string) []string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = foldedName(part)
	}
	return parts
}

func foldedName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		name = strings.ToUpper(gitname.DropIgnorable(name)) // the long s and the Kelvin sign are s and k to some
	}
	return strings.ToLower(strings.TrimRight(name, ". "))
}

// pattern is one pattern of the table, split into names.
type pattern struct {
	parts []string
	below bool // it also matches everything below, and a file or link in the place of the directory
	entry *entry
}

// patterns are those of the table by their first name, "" for a first name with a *: trees have many files, so that
// looking them up has to be quick.
var patterns = sync.OnceValue(func() map[string][]pattern {
	all := make(map[string][]pattern)
	for i := range table {
		for _, text := range table[i].patterns {
			name, below := strings.CutSuffix(text, "/")
			p := pattern{parts: strings.Split(name, "/"), below: below, entry: &table[i]}
			first := p.parts[0]
			if strings.Contains(first, "*") {
				first = ""
			}
			all[first] = append(all[first], p)
		}
	}
	return all
})

// entryFor returns the table's entry for a path of folded names, or nil.
func entryFor(parts []string) *entry {
	for i, part := range parts {
		for _, first := range []string{part, ""} {
			for _, p := range patterns()[first] {
				if p.names(parts[i:]) {
					return p.entry
				}
			}
		}
	}
	return nil
}

func (p *pattern) names(parts []string) bool {
	if len(p.parts) > len(parts) || !p.below && len(p.parts) < len(parts) {
		return false
	}
	return slices.EqualFunc(p.parts, parts[:len(p.parts)], fits)
}

func fits(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // the table's patterns are well-formed
	return ok
}
