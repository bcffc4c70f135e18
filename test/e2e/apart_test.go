package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/test/expect"
)

// TestEngineApart is TestStreamLink with an engine in a mount namespace of its own, in which there is no directory of
// holon.
func TestEngineApart(t *testing.T) {
	const script = `mount --make-rprivate / && mount -t tmpfs apart "$1" && shift && exec "$@"`
	startApart(t, func(dir string) *exec.Cmd {
		return exec.Command("unshare", "--mount", "--net", "sh", "-c", script, "sh", os.TempDir(), "dockerd", "--host",
			os.Getenv("DOCKER_HOST"), "--data-root", dir+"/data", "--exec-root", dir+"/run", "--pidfile", dir+"/pid",
			"--bridge=none", "--iptables=false")
	})
	playApart(newHome(t, "HOLON_LINK=stream").apart())

	r := newHome(t).run(repository(t, "echo a > a"), "run", "--model", "scripted/demo", "x")
	if r.code != 2 || !strings.Contains(r.stderr, "--link stream") {
		t.Errorf("with mounts: exit code %d\n%s", r.code, r.stderr)
	}
}

// engineUser is the user of engines without root, whom .ci/with-engine makes.
const engineUser = "holon-ci"

// A Docker engine without root is reached by a stream. Where it has no control groups, runs have to accept that.
func TestEngineWithoutRoot(t *testing.T) {
	h := withoutRoot(t, "rootlesskit")
	if strings.TrimSpace(docker(t, "info", "--format", "{{.CgroupDriver}}")) != "none" {
		playApart(h)
		return
	}
	playWeaker(h, "pids,memory,cpu", "")
}

// So is Podman, which takes fewer limits and does not show others.
func TestPodmanWithoutRoot(t *testing.T) {
	h := withoutRoot(t, "podman", "ENGINE=podman")
	h.env = append(h.env, "HOLON_IMAGE=localhost/"+baseImage)
	playWeaker(h, "capabilities,pids,memory,cpu,open_files,file_size,core_dumps,tmpfs,ipc,cgroup,masked_paths,init",
		"user,privilege_separation")
}

// withoutRoot starts an engine as an ordinary user, who has a home filled for playApart.
func withoutRoot(t *testing.T, program string, env ...string) *home {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("there is no " + program)
	}
	socket := startApart(t, func(dir string) *exec.Cmd {
		cmd := exec.Command("../../.ci/with-engine", "cat")
		cmd.Env = append(os.Environ(), append(env, "ENGINE_USER="+engineUser, "ENGINE_DIR="+dir)...)
		return cmd
	})
	info, err := os.Stat(socket)
	expect.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t).Uid
	return userHome(t, &syscall.Credential{Uid: owner, Gid: owner}).apart()
}

// playWeaker is playApart with an engine that is weaker in some axes of a program with one user, and in more of one
// with two: the doctor names them, and a run is refused unless it accepts them.
func playWeaker(h *home, one, two string) {
	t := h.t
	t.Helper()
	repo, all := filepath.Join(h.dir, "repo"), strings.Trim(one+","+two, ",")
	for accepted, failed := range map[string]int{two: strings.Count(one, ",") + 1, all: 0} {
		r := h.run(repo, "doctor", "--model", "scripted/demo", "--accept-weaker", accepted)
		if strings.Count(r.stdout, "failed\t") != failed {
			t.Errorf("doctor --accept-weaker %q:\n%s%s", accepted, r.stdout, r.stderr)
		}
	}
	r := h.run(repo, "run", "--model", "scripted/demo", "x")
	if r.code != 4 || !strings.Contains(r.stderr, "or --accept-weaker ") {
		t.Errorf("without limits: exit code %d\n%s", r.code, r.stderr)
	}
	playApart(h, "--accept-weaker", all)
}

// startApart starts an engine that keeps all in a directory, and that DOCKER_HOST names, with the base image. It ends
// when its standard input does, or by SIGTERM.
func startApart(t *testing.T, command func(dir string) *exec.Cmd) (socket string) {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); testing.Short() || err != nil || os.Geteuid() != 0 {
		t.Skip("the full tier plays it, as root, where there is a dockerd")
	}
	dir, err := os.MkdirTemp("/var/tmp", "holon-apart-")
	expect.NoError(t, err)
	t.Cleanup(func() { // Podman cleans up after containers by processes of its own
		await(t, "the end of what writes to the engine's directory", func() bool { return os.RemoveAll(dir) == nil })
	})
	image, err := os.CreateTemp(t.TempDir(), "image")
	expect.NoError(t, err)
	defer image.Close()
	docker(t, "save", "-o", image.Name(), baseImage)

	socket = dir + "/docker.sock"
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	log, err := os.Create(image.Name() + ".log")
	expect.NoError(t, err)
	defer log.Close()
	engine := command(dir)
	engine.Stdout, engine.Stderr = log, log
	input, err := engine.StdinPipe()
	expect.NoError(t, err)
	expect.NoError(t, engine.Start())
	t.Cleanup(func() {
		expect.NoError(t, input.Close())
		_ = engine.Process.Signal(syscall.SIGTERM) // or it has ended
		_ = engine.Wait()                          // it was ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the engine's log: %s", text)
		}
	})
	await(t, "the engine", func() bool { return exec.Command("docker", "version").Run() == nil })
	docker(t, "load", "-i", image.Name())
	return socket
}
