package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// patience bounds everything that is waited for. It says when a test gives up,
// not how fast anything has to be.
const patience = 2 * time.Minute

// home is a state home with the programs that use it.
type home struct {
	t   *testing.T
	dir string
	env []string            // on top of the clean environment
	who *syscall.Credential // who calls; nil: who runs the tests
	bin string              // holon; "": the one of the build
}

// newHome makes a home whose leftovers are checked when the test is over. It is
// not in t.TempDir, whose paths are too long for sockets.
func newHome(t *testing.T, env ...string) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "holon-e2e-")
	expect.NoError(t, err)
	return homeIn(t, dir, env...)
}

// homeIn is newHome with a directory that the test chose and that is removed.
func homeIn(t *testing.T, dir string, env ...string) *home {
	t.Helper()
	h := &home{t: t, dir: dir, env: env}
	t.Cleanup(func() {
		h.checkNothingLeft()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return h
}

// checkNothingLeft fails the test if something of a run outlived it.
func (h *home) checkNothingLeft() {
	h.t.Helper()
	if ids := h.containers(); len(ids) > 0 {
		h.t.Errorf("containers are left: %v", ids)
		for _, id := range ids {
			docker(h.t, "rm", "-f", id)
		}
	}
	for _, pattern := range []string{"ipc/*", "runs/*/session", "runs/.new-*", "runs/.probe-*", "local/*"} {
		found, err := filepath.Glob(filepath.Join(h.dir, pattern))
		if err != nil || len(found) > 0 {
			h.t.Errorf("files are left: %v (%v)", found, err)
		}
	}
	leases, _ := filepath.Glob(filepath.Join(h.dir, "runs/*/lease")) // the pattern is right
	for _, path := range leases {
		f, err := os.Open(path)
		if err != nil {
			h.t.Error(err)
			continue
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			h.t.Errorf("%s is still held: %v", path, err)
		}
		_ = f.Close() // only locked
	}
}

// containers lists the containers of this home, running or not.
func (h *home) containers() []string {
	h.t.Helper()
	return strings.Fields(docker(h.t, "ps", "-aq", "--no-trunc", "--filter", "label=holon.role", "--filter",
		"label=holon.home="+h.dir))
}

// docker runs the Docker client and returns what it printed.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	// Cleaning up comes after the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// process is a running holon.
type process struct {
	h      *home
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr lockedBuffer
	cancel context.CancelFunc
}

// result is a holon that has ended.
type result struct {
	code           int
	stdout, stderr string
	dir            string // of the run's results, "" when there is no run
	manifest       *state.Manifest
}

// begin starts holon in dir.
func (h *home) begin(dir string, args ...string) *process {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	p := &process{h: h, cancel: cancel, cmd: exec.CommandContext(ctx, cmp.Or(h.bin, programs.Must("holon")), args...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.stdout, &p.stderr
	p.cmd.Env = append([]string{"HOLON_HOME=" + h.dir, "HOME=" + h.dir, "PATH=" + os.Getenv("PATH"),
		"TMPDIR=" + os.TempDir(), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, h.env...)
	p.cmd.Env = append(p.cmd.Env, gitEnv...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) } // let it clean up
	p.cmd.WaitDelay = time.Minute
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.who}
	if err := p.cmd.Start(); err != nil {
		cancel()
		h.t.Fatal(err)
	}
	return p
}

// wait waits for the end and reads what the run left.
func (p *process) wait() result {
	t := p.h.t
	t.Helper()
	defer p.cancel()
	if err := p.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatalf("holon: %v\n%s", err, p.stderr.String())
		}
	}
	r := result{code: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String()}
	for line := range strings.Lines(r.stderr) {
		if dir, ok := strings.CutPrefix(line, "results  "); ok {
			r.dir = strings.TrimSpace(dir)
		}
	}
	if r.dir == "" {
		return r
	}
	data, err := os.ReadFile(filepath.Join(r.dir, state.ManifestFile))
	if err == nil {
		r.manifest, err = state.DecodeManifest(data)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, r.stderr)
	}
	if r.manifest.ExitCode != r.code {
		t.Errorf("exit code %d, the manifest says %d", r.code, r.manifest.ExitCode)
	}
	return r
}

// run runs holon to its end.
func (h *home) run(dir string, args ...string) result {
	h.t.Helper()
	return h.begin(dir, args...).wait()
}

// play runs a scenario of testdata on dir and expects an exit code.
func (h *home) play(code int, dir, scenario string, args ...string) result {
	h.t.Helper()
	r := h.run(dir, append([]string{"run", "--model", scripted(h.t, scenario), "do what the scenario says"},
		args...)...)
	if r.code != code {
		h.t.Fatalf("exit code %d, want %d\n%s", r.code, code, r.stderr)
	}
	return r
}

// beginPlay starts a scenario and waits until its command has made the file
// "started" in the working tree.
func (h *home) beginPlay(dir, scenario string, args ...string) *process {
	h.t.Helper()
	p := h.begin(dir, append([]string{"run", "--model", scripted(h.t, scenario), "do what the scenario says"},
		args...)...)
	await(h.t, "the agent's command", func() bool {
		found, _ := filepath.Glob(filepath.Join(h.dir, "cache/trees/*/*/tree/started")) // the pattern is right
		return len(found) > 0
	})
	return p
}

// signal sends sig to holon.
func (p *process) signal(sig os.Signal) {
	p.h.t.Helper()
	expect.NoError(p.h.t, p.cmd.Process.Signal(sig))
}

// scripted is the model that plays a file of testdata.
func scripted(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name+".yaml"))
	expect.NoError(t, err)
	return "scripted/" + path
}

// await waits until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// failure is the error of a manifest; the test ends when there is none.
func (r result) failure(t *testing.T) state.Failure {
	t.Helper()
	if r.manifest == nil || r.manifest.Error == nil {
		t.Fatalf("no manifest with an error:\n%s", r.stderr)
	}
	return *r.manifest.Error
}

// read returns a file of the results.
func (r result) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
