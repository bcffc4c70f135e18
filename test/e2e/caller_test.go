package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/test/expect"
	"holon/test/programs"
)

// caller is somebody who is not root, with access to the engine.
const caller = 4321

// callerHome is a home of caller's.
func callerHome(t *testing.T) *home {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else; every other test here has a caller who is not root")
	}
	path, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !ok {
		path = "/var/run/docker.sock"
	}
	socket, err := os.Stat(path)
	if err != nil {
		t.Skipf("whom the engine lets in is not known: %v", err)
	}
	return userHome(t, &syscall.Credential{Uid: caller, Gid: caller,
		Groups: []uint32{socket.Sys().(*syscall.Stat_t).Gid}})
}

// userHome is a home of a user. The programs belong to the user of the tests, as installed ones belong to root.
func userHome(t *testing.T, who *syscall.Credential) *home {
	t.Helper()
	h := newHome(t)
	h.who = who
	bin, err := os.MkdirTemp("", "holon-e2e-bin-")
	expect.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(bin) })
	h.bin = filepath.Join(bin, "holon")
	expect.NoError(t, errors.Join(os.Chmod(bin, 0o755), programs.Copy("holon", h.bin),
		programs.Copy("agentd", filepath.Join(bin, "agentd"))))
	return h
}

// own gives the home and all that is in it to its user.
func (h *home) own() {
	h.t.Helper()
	if h.who == nil {
		return
	}
	err := filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(h.who.Uid), int(h.who.Gid))
	})
	expect.NoError(h.t, err)
}

// A caller who is not root is the container's user, under a name and with a home,
// and owns all that comes of it.
func TestCallerIsTheUser(t *testing.T) {
	h := callerHome(t)
	repo := filepath.Join(h.dir, "repo")
	expect.NoError(t, os.Mkdir(repo, 0o755))
	sh(t, repo, "git init -q -b main && echo a > a && git add a && git commit -qm base")
	scenario := filepath.Join(h.dir, "who.yaml")
	const text = `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: 'id -u; id -g; whoami; touch "$HOME/x" && echo home; umask 077; ` +
		`echo b > b; mkdir d && echo c > d/c; touch /etc/x /holon/bin/x; git status --short | wc -l'}}]
  - text: Done.
`
	expect.NoError(t, os.WriteFile(scenario, []byte(text), 0o644))
	h.own()
	r := h.run(repo, "run", "--model", "scripted/"+scenario, "who am I")
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	logs, err := filepath.Glob(filepath.Join(r.dir, "tools", "*", "stdout.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %v, %v", logs, err)
	}
	said, err := os.ReadFile(logs[0])
	if want := fmt.Sprintf("%d\n65532\nagent\nhome\n2\n", caller); err != nil || string(said) != want {
		t.Errorf("the command said %q, want %q (%v)", said, want, err)
	}
	checkChanged(t, r, "added b", "added d/c")
	if a := h.run(repo, "apply", "last"); a.code != 0 {
		t.Fatalf("apply: exit code %d\n%s", a.code, a.stderr)
	}
	if c := h.run(repo, "checkout", "last"); c.code != 0 {
		t.Fatalf("checkout: exit code %d\n%s", c.code, c.stderr)
	}
	err = filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != caller {
			t.Errorf("%s belongs to %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	expect.NoError(t, err)
	if g := h.run(repo, "gc"); g.code != 0 || !strings.Contains(g.stdout+g.stderr, "nothing") {
		t.Errorf("gc: exit code %d\n%s%s", g.code, g.stdout, g.stderr)
	}
}
