package workspace

import (
	"path"
	"slices"
	"strings"
)

// WarnExecuted marks a changed file that some program acts on without being
// asked to run it: git, an editor, a shell or a service that builds what is
// pushed. The change is complete all the same.
const WarnExecuted = "executed_file"

// Names of files that programs act on when a directory is opened or entered,
// when git works in it, or when it is pushed; in lower case. Build files that
// run when a person builds are not among them, since changing these is the
// daily work of an agent.
var (
	executedNames = []string{
		".gitattributes", ".gitmodules", ".lfsconfig", // git
		".envrc", ".rvmrc", "mise.toml", ".mise.toml", ".autoenv.zsh", // shells, on entering
		".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".gdbinit", ".lldbinit", // editors, debuggers
		".mcp.json", ".devcontainer.json",
		".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".huskyrc", // hooks that are installed
		".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".bazelrc", ".pypirc", "pip.conf", // package managers: where from, what runs
		".gitlab-ci.yml", ".travis.yml", ".drone.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile", ".woodpecker.yml", "appveyor.yml", ".cirrus.yml",
	}
	executedDirs = []string{
		".github/workflows", ".github/actions", ".gitea", ".forgejo", ".gitlab", ".circleci", ".buildkite", ".woodpecker",
		".vscode", ".idea", ".fleet", ".zed", ".devcontainer", ".husky", ".githooks", ".cargo", ".yarn", ".bundle",
	}
)

// isExecuted reports whether programs act on the file at a path of a tree.
func isExecuted(name string) bool {
	name = strings.ToLower(name)
	base := path.Base(name)
	if slices.Contains(executedNames, base) || strings.HasSuffix(base, ".code-workspace") {
		return true
	}
	return slices.ContainsFunc(executedDirs, func(dir string) bool {
		return strings.HasPrefix(name, dir+"/") || strings.Contains(name, "/"+dir+"/")
	})
}

// warnExecuted adds what a person should look at before anything else.
func (d *Diff) warnExecuted() {
	var found warningList
	heads := map[string]bool{} // directories that may be bare repositories, in which git obeys the file config
	for _, change := range d.Files {
		if dir, name := splitPath(change.Path); name == "HEAD" && change.Mode != "" {
			heads[dir] = true
		}
	}
	for _, change := range d.Files {
		dir, name := splitPath(change.Path)
		if change.Mode != "" && (isExecuted(change.Path) || name == "config" && heads[dir]) {
			found.add(Warning{Code: WarnExecuted, Path: change.Path, Message: "programs act on this file by themselves; read it before you use the change"})
		}
	}
	d.Warnings = append(d.Warnings, found.list()...)
}
