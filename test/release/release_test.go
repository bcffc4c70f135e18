// Package release tests what users install: the archives of a release and the layout of an installation.
package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Two builds of a release have the same bytes, their checksums are true, and holon runs with the agentd of its archive.
func TestArchives(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: builds four programs twice")
	}
	a, b := build(t), build(t)
	names, err := filepath.Glob(filepath.Join(a, "*"))
	if err != nil || len(names) != 5 {
		t.Fatalf("a release has %q (%v), want two archives, two lists of modules and checksums", names, err)
	}
	for _, name := range names {
		first, second := read(t, name), read(t, filepath.Join(b, filepath.Base(name)))
		if !bytes.Equal(first, second) {
			t.Errorf("%s is different in two builds", filepath.Base(name))
		}
		if strings.HasSuffix(name, ".json") {
			var list struct{ Packages []struct{ Name string } }
			if err := json.Unmarshal(first, &list); err != nil || len(list.Packages) < 10 {
				t.Errorf("%s names %d packages (%v), want those that are linked in", name, len(list.Packages), err)
			}
		}
	}
	run(t, a, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	where := t.TempDir()
	archive := "holon-v0.0.0-test-linux-" + strings.TrimSpace(run(t, ".", nil, "go", "env", "GOARCH"))
	run(t, where, nil, "tar", "--extract", "--file", filepath.Join(a, archive+".tar.gz"))
	holon := filepath.Join(where, archive, "bin", "holon")
	if got := run(t, where, nil, holon, "--version"); got != "holon v0.0.0-test\n" {
		t.Errorf("holon --version prints %q", got)
	}
	read(t, filepath.Join(where, archive, "share", "man", "man1", "holon-run.1"))
	if err := os.Mkdir(filepath.Join(where, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOLON_HOME="+filepath.Join(where, "home"), "HOLON_AGENTD=")
	if got := run(t, filepath.Join(where, "work"), env, holon, "run", "--engine", "local", "--model", "scripted/demo",
		"--quiet", "x"); got == "" {
		t.Error("a run with the programs of the archive answers nothing")
	}
}

// build makes a release and returns its directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "../..", nil, ".ci/release", "v0.0.0-test", dir)
	return dir
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, problems.String())
	}
	return string(out)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
