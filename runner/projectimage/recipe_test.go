package projectimage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		expect.NoError(t, os.WriteFile(at, []byte(text), 0o644))
	}
	return dir
}

// What docker is called with for a recipe.
func TestSteps(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		"build --tag TAG --file DIR/.holon/Dockerfile DIR": {".holon/Dockerfile": "FROM x\n"},
		"build --tag TAG --file - DIR <FROM a/b:1\n":       {".devcontainer.json": `{"image": "a/b:1", /* and */ "name": "n",}`},
		"build --tag TAG --file - DIR <FROM a\nUSER 0\nCOPY . /opt/project\nWORKDIR /opt/project\n" +
			"RUN [\"/bin/sh\",\"-c\",\"npm ci \\u0026\\u0026 x\"]\n": {
			".devcontainer/devcontainer.json": `{"image": "a", "postCreateCommand": "npm ci && x", "features": {}}`},
		"build --tag TAG --file DIR/.devcontainer/D --target t --build-arg A=1 DIR; " +
			"build --tag TAG --file - DIR <FROM TAG\nUSER 0\nCOPY . /opt/project\nWORKDIR /opt/project\n" +
			"RUN [\"a\",\"b\"]\nRUN [\"c\"]\n": {".devcontainer/D": "FROM x", ".devcontainer/devcontainer.json": `{
			"build": {"dockerfile": "D", "context": "..", "target": "t", "args": {"A": "1"}}, // comment
			"postCreateCommand": {"two": ["c"], "one": ["a", "b"]}}`},
	} {
		r, err := Find(project(t, files))
		expect.NoError(t, err)
		var got []string
		for _, s := range r.steps("DIR") {
			line := strings.Join(s.args, " ")
			if s.stdin != "" {
				line += " <" + s.stdin
			}
			got = append(got, strings.ReplaceAll(line, r.Tag, "TAG"))
		}
		expect.Equal(t, "calls", strings.Join(got, "; "), want)
	}
}

// The name follows the content of the recipe, of its directory and of files that name dependencies, and of no other.
func TestTag(t *testing.T) {
	t.Parallel()
	tag := func(more ...string) string {
		files := map[string]string{".holon/Dockerfile": "FROM x\n"}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		r, err := Find(project(t, files))
		expect.NoError(t, err)
		return r.Tag
	}
	expect.Equal(t, "the same", tag(), tag("main.go", "package main", ".env", "KEY=1"))
	seen := map[string]bool{tag(): true}
	for _, other := range []string{tag(".holon/Dockerfile", "FROM y\n"), tag(".holon/setup.sh", "x"), tag("go.sum", "x"),
		tag("package.json", "{}")} {
		if seen[other] {
			t.Errorf("%s stands for two contents", other)
		}
		seen[other] = true
	}
}

// A project without a recipe has none; one that cannot be built is refused, by what is wrong in it.
func TestRefused(t *testing.T) {
	t.Parallel()
	r, err := Find(project(t, map[string]string{"go.mod": "module x"}))
	if r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
	for text, want := range map[string]string{
		`{"image": "a", "features": {"ghcr.io/x/go:1": {}, "b": {}}}`: "features are not supported: b, ghcr.io/x/go:1",
		`{"dockerComposeFile": "c.yml"}`:                              "dockerComposeFile is not supported",
		`{"image": "${localEnv:IMAGE}"}`:                              "variables such as",
		`{"build": {"dockerfile": "../../etc/passwd"}}`:               "build.dockerfile has to be a file in .devcontainer",
		`{"build": {"dockerfile": "D", "context": "../.."}}`:          "build.dockerfile has to be a file in .devcontainer",
		`{"image": "a\nRUN x"}`:                                       "names neither an image",
		`{"image": "--x"}`:                                            "names neither an image",
		`{}`:                                                          "names neither an image",
		`{"image": "a", "postCreateCommand": 1}`:                      "postCreateCommand has to be",
		`{`:                                                           "",
	} {
		_, err := Find(project(t, map[string]string{".devcontainer/devcontainer.json": text, ".devcontainer/D": "FROM x"}))
		if !state.IsCode(err, CodeInvalidRecipe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	dir := project(t, map[string]string{"a": ""})
	expect.NoError(t, os.Mkdir(filepath.Join(dir, ".holon"), 0o755))
	expect.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, ".holon/Dockerfile")))
	if _, err := Find(dir); err == nil {
		t.Error("a link out of the repository is read")
	}
}

// Any text is a recipe or an error.
func FuzzDevcontainer(f *testing.F) {
	f.Add(`{"image": "a", "postCreateCommand": {"a": ["b"]}}`)
	f.Add(`{"build": {"dockerfile": "D", "context": "/.."}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r := &Recipe{File: ".devcontainer/devcontainer.json", files: map[string][]byte{
			".devcontainer/devcontainer.json": []byte(text), ".devcontainer/D": nil}}
		if r.readDevcontainer() != nil {
			return
		}
		for _, s := range r.steps("/dir") {
			if last := s.args[len(s.args)-1]; !strings.HasPrefix(last+"/", "/dir/") {
				t.Errorf("%q is built in %q", text, last)
			}
		}
	})
}
