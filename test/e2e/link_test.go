package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// inContainer runs a shell command in the one running container of the home, as the user of the agent's commands, in
// the working tree, and reports whether it succeeded.
func (h *home) inContainer(command string) bool {
	h.t.Helper()
	user := cmp.Or(os.Geteuid(), 65532)
	if h.who != nil {
		user = int(h.who.Uid)
	}
	return exec.CommandContext(h.t.Context(), "docker", "exec", "-u", strconv.Itoa(user), h.agent(), "sh", "-c",
		"cd /holon/workspaces/* && "+command).Run() == nil
}

// agent is the container that runs.
func (h *home) agent() string {
	h.t.Helper()
	return strings.TrimSpace(docker(h.t, "ps", "-q", "--filter", "label=holon.role=agent", "--filter",
		"label=holon.home="+h.dir))
}

// A run whose container shares no directory with the host is like another: its tools of the host, its result, and what
// is left when holon is killed and the run is attached to.
func TestStreamLink(t *testing.T) {
	t.Parallel()
	playApart(newHome(t, "HOLON_LINK=stream").apart())
}

// playApart plays a run whose holon is killed, and one whose result lands together with that of its continuation. The
// home has the repository "repo" and the scenario pausing.
func playApart(h *home, flags ...string) {
	t := h.t
	t.Helper()
	repo := filepath.Join(h.dir, "repo")
	begin := func(more ...string) *process {
		args := append([]string{"run", "--model", "scripted/" + h.dir + "/pausing.yaml", "--timeout", "5m"}, flags...)
		p := h.begin(repo, append(append(args, more...), "count")...)
		await(t, "the agent's command", func() bool { return h.inContainer("test -e started") })
		return p
	}

	p := begin()
	p.kill()
	attached := h.begin(repo, "attach", "last")
	await(t, "the command to go on", func() bool { return h.inContainer("touch go") })
	r := attached.wait()
	if r.code != 0 || !strings.Contains(r.stdout, "It ended by itself.") {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	patch := h.run(repo, "diff", "last")
	if strings.Count(patch.stdout, "+run\n") != 1 {
		t.Errorf("the change is not that of one run:\n%s", patch.stdout)
	}

	for _, more := range [][]string{nil, {"--continue=last"}} {
		p := begin(more...)
		expect.Equal(t, "the file is in the tree of the container", h.inContainer("grep -q b link && touch go"), true)
		if r := p.wait(); r.code != 0 || r.manifest.Status != state.StatusCompleted {
			t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	expect.Equal(t, "exit code of apply", h.run(repo, "apply", "last").code, 0)
	landed, err := os.ReadFile(filepath.Join(repo, "runs.txt"))
	expect.NoError(t, err)
	expect.Equal(t, "what landed", string(landed), "run\nrun\n")
}

// apart fills a home for playApart.
func (h *home) apart() *home {
	repo := filepath.Join(h.dir, "repo")
	scenario, err := os.ReadFile("testdata/pausing.yaml")
	expect.NoError(h.t, errors.Join(err, os.Mkdir(repo, 0o755),
		os.WriteFile(filepath.Join(h.dir, "pausing.yaml"), scenario, 0o644)))
	sh(h.t, repo, "git init -q -b main; echo a > a; mkdir d; echo b > d/b; ln -s d/b link; git add .; git commit -qm base")
	h.own()
	return h
}

// cutter is a proxy before the engine's socket that can end the streams of commands in containers.
type cutter struct {
	path    string
	refuses atomic.Bool // to let files be read
	mu      sync.Mutex
	open    []net.Conn
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	engine := strings.TrimPrefix(cmp.Or(os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://")
	dir, err := os.MkdirTemp("", "cut") // short, as paths of sockets must be
	expect.NoError(t, err)
	c := &cutter{path: filepath.Join(dir, "s")}
	listener, err := net.Listen("unix", c.path)
	expect.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.pass(near, engine) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
		os.RemoveAll(dir)
	})
	return c
}

// pass forwards one connection. That of a stream begins with its request.
func (c *cutter) pass(near net.Conn, engine string) {
	defer near.Close()
	far, err := net.Dial("unix", engine)
	if err != nil {
		return
	}
	defer far.Close()
	first := make([]byte, 4096)
	n, err := near.Read(first)
	line, _, _ := strings.Cut(string(first[:n]), "\r\n")
	if strings.Contains(line, "/exec/") && strings.Contains(line, "/start") {
		c.mu.Lock()
		c.open = append(c.open, near, far)
		c.mu.Unlock()
	}
	go func() {
		for err == nil && !(c.refuses.Load() && bytes.HasPrefix(first[:n], []byte("GET ")) &&
			bytes.Contains(first[:n], []byte("/archive?"))) {
			if _, err = far.Write(first[:n]); err == nil {
				n, err = near.Read(first)
			}
		}
		if _ = far.(*net.UnixConn).CloseWrite(); err == nil {
			far.Close()
		}
	}()
	_, _ = io.Copy(near, far)
}

// cut ends the streams, and returns how many there were.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		conn.Close()
	}
	n := len(c.open) / 2
	c.open = nil
	return n
}

// A turn goes on when its stream is cut in the middle, and the next stream brings each of its events once.
func TestStreamThatIsCut(t *testing.T) {
	t.Parallel()
	c := newCutter(t)
	h, repo := newHome(t, "HOLON_LINK=stream", "DOCKER_HOST=unix://"+c.path), repository(t, "echo a > a")
	p := h.begin(repo, "run", "--model", scripted(t, "pausing"), "--timeout", "5m", "count")
	await(t, "the agent's command", func() bool { return h.inContainer("test -e started") })
	if c.cut() == 0 {
		t.Error("there was no stream to cut")
	}
	await(t, "the next stream", func() bool { return c.streams() > 0 })
	await(t, "the command to go on", func() bool { return h.inContainer("touch go") })
	r := p.wait()
	if r.code != 0 || strings.Count(r.stdout, "It ended by itself.") != 1 || strings.Count(r.stderr, "Working.") != 1 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	checkRecord(t, r)
	if patch := h.run(repo, "diff", "last"); strings.Count(patch.stdout, "+run\n") != 1 {
		t.Errorf("the change is not that of one run:\n%s", patch.stdout)
	}
}

// What a container wrote stays in it while it cannot be fetched, and is taken later.
func TestStreamFetchedLater(t *testing.T) {
	if testing.Short() {
		t.Skip("holon tries for a while to fetch it")
	}
	t.Parallel()
	c := newCutter(t)
	h, repo := newHome(t, "HOLON_LINK=stream", "DOCKER_HOST=unix://"+c.path), repository(t, "echo a > a")
	p := h.begin(repo, "run", "--model", scripted(t, "pausing"), "--timeout", "5m", "count")
	await(t, "the agent's command", func() bool { return h.inContainer("test -e started") })
	c.refuses.Store(true)
	docker(t, "kill", h.agent())
	if r := p.wait(); r.code == 0 {
		t.Errorf("a run whose container was killed succeeded\n%s%s", r.stdout, r.stderr)
	}
	expect.Equal(t, "containers, of which one has the files", len(h.containers()), 2)
	c.refuses.Store(false)
	h.gc()
	patch := h.run(repo, "diff", "last")
	if strings.Count(patch.stdout, "+run\n") != 1 {
		t.Errorf("the change is not whole:\n%s%s", patch.stdout, patch.stderr)
	}
}

func (c *cutter) streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) / 2
}

// The disk quota of such a run ends its turn while it goes on, whatever its commands do about the measurement.
func TestStreamDisk(t *testing.T) {
	for _, model := range []string{"waiting", "unlinked", "inodes", "meddling"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t, "HOLON_LINK=stream"), repository(t, "echo a > a")
			r := h.run(repo, "run", "--model", scripted(t, model), "--disk", "20m", "go on")
			if r.code != 1 || r.manifest == nil || r.manifest.Status != state.StatusIncomplete {
				t.Fatalf("exit code %d\n%s", r.code, r.stderr)
			}
			expect.Equal(t, "the code", r.failure(t).Code, "disk_quota")
			checkPartial(t, r, "")
			h.checkTidy()
		})
	}
}

// Files of nothing but holes, which take no disk, take no time either.
func TestStreamHoles(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t, "HOLON_LINK=stream"), repository(t, "echo a > a")
	scenario := filepath.Join(h.dir, "holes.yaml")
	expect.NoError(t, os.WriteFile(scenario, []byte(`rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: `+
		`"for i in $(seq 100); do truncate -s 9G hole$i; done; echo b > b"}}]}, {text: Done.}]`), 0o644))
	h.own()
	r := h.run(repo, "run", "--model", "scripted/"+scenario, "--disk", "100m", "go on")
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	if patch := h.run(repo, "diff", "last").stdout; !strings.Contains(patch, "+b\n") || strings.Contains(patch, "hole") {
		t.Errorf("the change is\n%s", patch)
	}
	h.checkTidy()
}

// An agent whose model is changed while its container lives is answered by the new one.
func TestStreamModelChange(t *testing.T) {
	t.Parallel()
	h := newHome(t, "HOLON_LINK=stream")
	model := func(name string) string {
		path := filepath.Join(h.dir, name+".yaml")
		expect.NoError(t, os.WriteFile(path, []byte("rounds: [{text: I am "+name+".}]"), 0o644))
		return "scripted/" + path
	}
	serve := h.begin(h.dir, "serve", "--model", model("one"))
	await(t, "the daemon", func() bool { return h.run(h.dir, "agent", "create", "other").code == 0 })
	ask := func(want string) {
		t.Helper()
		if r := h.run(h.dir, "prompt", "--agent", "other", "--follow", "who are you?"); !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, the answer is not %q: %s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	ask("I am one.")
	expect.Equal(t, "exit code", h.run(h.dir, "agent", "model", "set", "--agent", "other", model("two")).code, 0)
	ask("I am two.")
	serve.signal(syscall.SIGTERM)
	expect.Equal(t, "exit code of serve", serve.wait().code, 0)
	h.run(h.dir, "agent", "remove", "other")
}
