// Package release tests what users install: the archives of a release and the layout of an installation.
package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Two builds of a release have the same bytes, their checksums are true, and holon runs with the agentd of its archive.
func TestArchives(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: builds four programs twice")
	}
	key := filepath.Join(t.TempDir(), "key")
	run(t, ".", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	a, b := build(t, key), build(t, key)
	names, err := filepath.Glob(filepath.Join(a, "*"))
	if err != nil || len(names) != 10 {
		t.Fatalf("a release has %q (%v), want two archives, debs, rpms and lists of modules, checksums and their signature",
			names, err)
	}
	for _, name := range names {
		first, second := read(t, name), read(t, filepath.Join(b, filepath.Base(name)))
		if !bytes.Equal(first, second) {
			t.Errorf("%s is different in two builds", filepath.Base(name))
		}
		if strings.HasSuffix(name, ".json") {
			var list struct {
				Packages []struct{ Name, VersionInfo string }
			}
			if err := json.Unmarshal(first, &list); err != nil || len(list.Packages) < 10 {
				t.Errorf("%s names %d packages (%v), want those that are linked in", name, len(list.Packages), err)
			}
			if tool := list.Packages[1]; tool.Name != "go" || !strings.HasPrefix(runtime.Version(), "go"+tool.VersionInfo) {
				t.Errorf("%s names %+v as toolchain, want %s", name, tool, runtime.Version())
			}
		}
	}
	run(t, a, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	signers := filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, []byte("releases@example.org "+string(read(t, key+".pub"))), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, a, nil, "sh", "-c", "ssh-keygen -q -Y verify -f "+signers+
		" -I releases@example.org -n holon-release -s SHA256SUMS.sig < SHA256SUMS")
	checkPackage(t, filepath.Join(a, "holon-v0.0.0-test-linux-amd64.deb"))
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

// checkPackage checks what a deb brings, where there is a program that shows it.
func checkPackage(t *testing.T, deb string) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("there is no dpkg-deb")
		return
	}
	files := run(t, ".", nil, "dpkg-deb", "--contents", deb)
	for _, want := range []string{"./usr/bin/holon", "./usr/libexec/holon/agentd", "./usr/share/man/man1/agentd.1",
		"./usr/share/man/man1/holon-run.1", "./usr/lib/systemd/system/holon.service", "./usr/lib/sysusers.d/holon.conf"} {
		if !strings.Contains(files, " "+want+"\n") {
			t.Errorf("the deb has no %s:\n%s", want, files)
		}
	}
	if version := run(t, ".", nil, "dpkg-deb", "--field", deb, "Version"); version != "0.0.0~test\n" {
		t.Errorf("the version of the deb is %q", version)
	}
}

// Nothing of an installation is left when it is undone.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: builds both programs")
	}
	dir := t.TempDir()
	run(t, "../..", nil, "make", "--silent", "install", "DESTDIR="+dir, "PREFIX=/usr")
	if page := read(t, filepath.Join(dir, "usr/share/man/man1/agentd.1")); !bytes.Contains(page, []byte("token\\-file")) {
		t.Errorf("agentd(1) says nothing of --token-file:\n%s", page)
	}
	run(t, ".", nil, filepath.Join(dir, "usr/bin/holon"), "--version")
	run(t, "../..", nil, "make", "--silent", "uninstall", "DESTDIR="+dir, "PREFIX=/usr")
	if left := run(t, dir, nil, "find", ".", "-type", "f"); left != "" {
		t.Errorf("left:\n%s", left)
	}
}

// build makes a release that is signed, and returns its directory.
func build(t *testing.T, key string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "../..", append(os.Environ(), "RELEASE_SSH_KEY="+key), ".ci/release", "v0.0.0-test", dir)
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
