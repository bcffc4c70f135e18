package toolchain_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"holon/internal/toolchain"
	"holon/test/expect"
)

// A project needs each program once, for the first file that it is for; what brings a program along replaces it.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for files, want := range map[string]string{
		"":                                     "",
		"README.md main.c":                     "",
		"go.mod Makefile":                      "go:go.mod make:Makefile",
		"package.json package-lock.json":       "node:package.json npm:package-lock.json",
		"pyproject.toml setup.py conftest.py":  "python3:pyproject.toml pytest:conftest.py",
		"conftest.py .venv/bin/pytest":         "",
		"pom.xml":                              "mvn:pom.xml",
		"pom.xml mvnw":                         "java:mvnw",
		"build.gradle gradlew":                 "java:gradlew",
		"go.mod in/sub/go.mod in/sub/Gemfile":  "go:go.mod bundle:in/sub/Gemfile",
		"in/sub/Cargo.toml":                    "cargo:in/sub/Cargo.toml",
		"elsewhere/Cargo.toml":                 "",
		"yarn.lock package.json":               "node:package.json yarn:yarn.lock",
		"yarn.lock package.json .yarnrc.yml":   "node:package.json",
		"Makefile makefile in/sub/GNUmakefile": "make:Makefile",
	} {
		tree := fstest.MapFS{}
		for _, name := range strings.Fields(files) {
			tree[name] = &fstest.MapFile{}
		}
		var got []string
		for _, n := range toolchain.Needs(tree, ".", "in/sub") {
			got = append(got, n.Program+":"+n.File)
		}
		expect.Equal(t, files, strings.Join(got, " "), want)
	}
}

// A program is asked for once, the shell among them.
func TestPrograms(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range toolchain.Programs() {
		if seen[name] {
			t.Errorf("%s is named twice", name)
		}
		seen[name] = true
	}
	if !seen["sh"] || !seen["go"] || !seen["java"] {
		t.Errorf("the programs are %v", toolchain.Programs())
	}
}
