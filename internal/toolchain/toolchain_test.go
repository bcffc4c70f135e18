package toolchain_test

import (
	"os"
	"path/filepath"
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

// An image that a recipe of the project made gets what it lacks by that recipe.
func TestRemedy(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]bool{"holon/project:0a1b": true, "holon/base:latest": false, "": false,
		"holon/projects:1": false} {
		expect.Equal(t, image, strings.Contains(toolchain.Remedy(image), "recipe"), want)
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

// The lowest version that a file asks for is read where it is simple.
func TestRequires(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ file, text, want string }{
		{"go.mod", "module x\n\ngo 1.24.1\n\ntoolchain go1.25.0\n", "1.24.1"},
		{"go.mod", "module x // go 1.2\n", ""},
		{"pyproject.toml", "[project]\nrequires-python = \">=3.12,<4\"\n", "3.12"},
		{"pyproject.toml", "[project]\nrequires-python = \"<4\"\n", ""},
		{"package.json", `{"engines": {"npm": ">=9", "node": "^20.1 || >=18.2"}}`, "18.2"},
		{"package.json", `{"engines": {"node": "<21"}}`, ""},
		{"package.json", `{"node": ">=99"}`, ""},
		{"Cargo.toml", "rust-version = \"1.99\"\n", ""},
	} {
		tree := fstest.MapFS{tc.file: &fstest.MapFile{Data: []byte(tc.text)}}
		expect.Equal(t, tc.text, toolchain.Need{File: tc.file}.Requires(tree), tc.want)
	}
	for _, older := range [][2]string{{"1.19.8", "1.24"}, {"1.9", "1.10"}, {"1.23rc1", "1.24"}, {"18.20.4", "20"}} {
		if !toolchain.Older(older[0], older[1]) || toolchain.Older(older[1], older[0]) {
			t.Errorf("%s is not older than %s", older[0], older[1])
		}
	}
	if toolchain.Older("1.24", "1.24.1") || toolchain.Older("3.11", "3.11") || toolchain.Older("3.11", "") {
		t.Error("a version that may do counts as older")
	}
}

// The first version that is too new for a file is read where it is simple, and a version meets both bounds or does not.
func TestBelow(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]string{">=18 <21": "21", ">= 18.2 <= 20": "21", "<=20.3.9": "20.3.10", "<v21": "21",
		">=14 <15 || >=18 <21.5": "21.5", ">=18 <21 || >=24": "", "^18": "", ">=18": "", "": ""} {
		tree := fstest.MapFS{"a/package.json": &fstest.MapFile{Data: []byte(`{"engines": {"node": "` + node + `"}}`)}}
		expect.Equal(t, node, toolchain.Need{File: "a/package.json"}.Below(tree), want)
	}
	expect.Equal(t, "another file", toolchain.Need{File: "go.mod"}.Below(fstest.MapFS{}), "")
	for _, tc := range []struct{ version, lowest, below, want string }{
		{"20.19.1", "18", "21", ""}, {"21.0.0", "18", "21", "below 21"}, {"22.1.0", "", "21", "below 21"},
		{"16.3.0", "18", "21", "18"}, {"20.3.10", "", "20.3.10", "below 20.3.10"}, {"99.0.0", "18", "", ""}, {"", "18", "21", ""},
	} {
		expect.Equal(t, tc.version, toolchain.Unmet(tc.version, tc.lowest, tc.below), tc.want)
	}
}

// What an image says of its programs without running them.
func TestVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	link := func(to, name string) string {
		expect.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		expect.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
		return filepath.Join(dir, name)
	}
	write("lib/go-1.19/VERSION", "go1.19.8\ntime x\n")
	write("include/node/node_version.h", "#define NODE_MAJOR_VERSION 18\n#define NODE_MINOR_VERSION 20\n"+
		"#define NODE_PATCH_VERSION 4\n")
	expect.Equal(t, "go", toolchain.Version("go", link(write("lib/go-1.19/bin/go", ""), "bin/go")), "1.19.8")
	expect.Equal(t, "node", toolchain.Version("node", write("bin/node", "")), "18.20.4")
	expect.Equal(t, "python3", toolchain.Version("python3", link(write("bin/python3.11", ""), "bin/python3")), "3.11")
	expect.Equal(t, "a python without a number", toolchain.Version("python3", write("other/python3", "")), "")
	expect.Equal(t, "none", toolchain.Version("go", filepath.Join(dir, "nothing")), "")
}

// pytest counts where it is to be installed, not where another package's name begins with it.
func TestNamedPytest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ file, text, want string }{
		{"requirements.txt", "requests\npytest==8.1\n", "requirements.txt"},
		{"dev-requirements.txt", "pytest\r\n", "dev-requirements.txt"},
		{"requirements.txt", "pytest-cov\n# pytest\n", ""},
		{"pyproject.toml", "[project.optional-dependencies]\ntest = [\"x\",\"pytest>=7\"]\n", "pyproject.toml"},
		{"pyproject.toml", "[tool.pytest.ini_options]\n", "pyproject.toml"},
		{"pyproject.toml", "[tool.poetry.dev-dependencies]\npytest = \"^7\"\n", "pyproject.toml"},
		{"pyproject.toml", "name = \"mypytest\"\n", ""},
	} {
		tree := fstest.MapFS{tc.file: &fstest.MapFile{Data: []byte(tc.text)}}
		got := ""
		for _, n := range toolchain.Needs(tree, ".") {
			if n.Program == "pytest" {
				got = n.File
			}
		}
		expect.Equal(t, tc.file+": "+tc.text, got, tc.want)
	}
}
