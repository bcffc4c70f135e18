// Package toolchain says which programs a project needs, by the names of its files, and in which version, as far as a
// few of them say so simply. What the other files say may need more.
package toolchain

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Shell is the program by which agents run commands.
const Shell = "sh"

// ProjectImages is the repository of the images that projects have by recipes of their own.
const ProjectImages = "holon/project"

// Remedy says how an image gets what it lacks.
func Remedy(image string) string {
	if strings.HasPrefix(image, ProjectImages+":") {
		return "add what is missing to the recipe of the project's image, and build it: holon image build"
	}
	return "choose an image that has what is missing with --image, or build one: holon image build"
}

// rules are the programs that files are for. A rule does not count where there is a file of the name unless, which
// brings the program along.
var rules = []struct{ file, program, unless string }{
	{"go.mod", "go", ""},
	{"package.json", "node", ""},
	{"package-lock.json", "npm", ""},
	{"pnpm-lock.yaml", "pnpm", ""},
	{"yarn.lock", "yarn", ".yarnrc.yml"},
	{"bun.lock", "bun", ""},
	{"bun.lockb", "bun", ""},
	{"deno.json", "deno", ""},
	{"pyproject.toml", "python3", ""},
	{"setup.py", "python3", ""},
	{"requirements.txt", "python3", ""},
	{"uv.lock", "uv", ".venv"},
	{"poetry.lock", "poetry", ".venv"},
	{"conftest.py", "pytest", ".venv"},
	{"pytest.ini", "pytest", ".venv"},
	{"Cargo.toml", "cargo", ""},
	{"pom.xml", "mvn", "mvnw"},
	{"mvnw", "java", ""},
	{"build.gradle", "gradle", "gradlew"},
	{"build.gradle.kts", "gradle", "gradlew"},
	{"gradlew", "java", ""},
	{"Gemfile", "bundle", ""},
	{"composer.json", "php", ""},
	{"mix.exs", "mix", ""},
	{"CMakeLists.txt", "cmake", ""},
	{"meson.build", "meson", ""},
	{"Makefile", "make", ""},
	{"makefile", "make", ""},
	{"GNUmakefile", "make", ""},
}

// Need is a program, and the path of a file that it is for.
type Need struct{ Program, File string }

// Needs returns the programs that the files in some directories of a tree are for, each once. A directory that is not
// there has none.
func Needs(tree fs.FS, dirs ...string) (needs []Need) {
	for _, dir := range dirs {
		has := func(name string) bool {
			_, err := fs.Stat(tree, path.Join(dir, name))
			return err == nil
		}
		for _, r := range rules {
			known := slices.ContainsFunc(needs, func(n Need) bool { return n.Program == r.program })
			if !known && has(r.file) && (r.unless == "" || !has(r.unless)) {
				needs = append(needs, Need{r.program, path.Join(dir, r.file)})
			}
		}
		known := slices.ContainsFunc(needs, func(n Need) bool { return n.Program == "pytest" })
		if file := pytest(tree, dir); !known && file != "" && !has(".venv") {
			needs = append(needs, Need{"pytest", file})
		}
	}
	return needs
}

// Programs returns the names of all programs that a project may need, and the shell.
func Programs() []string {
	names := []string{Shell}
	for _, r := range rules {
		if !slices.Contains(names, r.program) {
			names = append(names, r.program)
		}
	}
	return names
}

// Files returns the names of files that name what a project depends on, and of those that pin its versions.
func Files() []string {
	names := []string{"Cargo.lock", "Gemfile.lock", "composer.lock", "go.sum", "npm-shrinkwrap.json", "setup.cfg"}
	for _, r := range rules {
		names = append(names, r.file)
	}
	return names
}
