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

// The builds of a release have the same bytes, its checksums are true and signed, and holon runs with the agentd of its
// archive. What differs by architecture is the compiler's, so that the second build is of one.
func TestArchives(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: builds four programs, and two again")
	}
	keys := newSigners(t)
	a := build(t, "", keys.env...)
	names := namesIn(t, a)
	if want := 9 + len(keys.env); len(names) != want {
		t.Fatalf("a release has %q, want two archives, debs, rpms and lists of modules, checksums and their signatures", names)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".json") {
			checkModules(t, filepath.Join(a, name))
		}
	}
	run(t, a, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	keys.verify(t, a)
	b := build(t, runtime.GOARCH)
	again := namesIn(t, b)
	if len(again) != 5 {
		t.Fatalf("a release of %s has %q, want an archive, a deb, an rpm, a list of modules and checksums", runtime.GOARCH, again)
	}
	for _, name := range again {
		if name != "SHA256SUMS" && !bytes.Equal(read(t, filepath.Join(a, name)), read(t, filepath.Join(b, name))) {
			t.Errorf("%s is different in two builds", name)
		}
	}
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

// checkModules checks a list of the modules that are linked in.
func checkModules(t *testing.T, name string) {
	t.Helper()
	var list struct {
		Packages []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(read(t, name), &list); err != nil || len(list.Packages) < 10 {
		t.Fatalf("%s names %d packages (%v), want those that are linked in", name, len(list.Packages), err)
	}
	if tool := list.Packages[1]; tool.Name != "go" || !strings.HasPrefix(runtime.Version(), "go"+tool.VersionInfo) {
		t.Errorf("%s names %+v as toolchain, want %s", name, tool, runtime.Version())
	}
}

// signers are the keys of a release: of SSH, and of minisign where there is that program.
type signers struct {
	dir string
	env []string // of .ci/release
}

func newSigners(t *testing.T) signers {
	t.Helper()
	s := signers{dir: t.TempDir()}
	run(t, s.dir, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "ssh")
	s.env = []string{"RELEASE_SSH_KEY=" + filepath.Join(s.dir, "ssh")}
	signer := "releases@example.org " + string(read(t, filepath.Join(s.dir, "ssh.pub")))
	if err := os.WriteFile(filepath.Join(s.dir, "allowed"), []byte(signer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Log("there is no minisign")
		return s
	}
	run(t, s.dir, nil, "minisign", "-G", "-W", "-p", "mini.pub", "-s", "mini")
	s.env = append(s.env, "RELEASE_MINISIGN_KEY="+filepath.Join(s.dir, "mini"))
	return s
}

// verify checks the signatures of a release as those who download it do.
func (s signers) verify(t *testing.T, release string) {
	t.Helper()
	run(t, release, nil, "sh", "-c", "ssh-keygen -q -Y verify -f "+filepath.Join(s.dir, "allowed")+
		" -I releases@example.org -n holon-release -s SHA256SUMS.sig < SHA256SUMS")
	if len(s.env) > 1 {
		run(t, release, nil, "minisign", "-V", "-q", "-p", filepath.Join(s.dir, "mini.pub"), "-m", "SHA256SUMS")
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

// build makes a release for architectures ("": all), with more variables, and returns its directory.
func build(t *testing.T, architectures string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "../..", append(append(os.Environ(), "RELEASE_ARCHITECTURES="+architectures), env...), ".ci/release", "v0.0.0-test",
		dir)
	return dir
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
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
