package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/responses/stream"
	"holon/test/conform"
	"holon/test/torture/check"
)

const image = "holon/base:latest"

func needEngine(ctx context.Context, _ *lab) error {
	if out, err := exec.CommandContext(ctx, "docker", "image", "inspect", image).CombinedOutput(); err != nil {
		return fmt.Errorf("no Docker engine answers, or it has no image %s (make image): %w\n%s", image, err,
			bytes.TrimSpace(out))
	}
	return nil
}

// host is a state home with a repository to work on.
type host struct {
	r          *round
	home, repo string
	engine     string // DOCKER_HOST, "" for the default
	before     map[string]string
	at         instant
	model      string
	worked     bool // the command had written to the tree when it was struck
}

// instant is when a run is struck: so long after a file of the home appeared.
type instant struct {
	pattern string // "" for the start of holon
	after   time.Duration
}

func (r *round) newInstant() instant {
	patterns := []string{"", "runs/run_*/run.json", "cache/trees/*/*/claim", "runs/run_*/session.json",
		"ipc/*/ipc/agent.sock",
		"runs/*/session/output/turns/*/runtime.ndjson", "cache/trees/*/*/tree/made.txt", "cache/trees/*/*/tree/made.txt",
		"runs/run_*/events.ndjson", "runs/run_*/diff.patch", "runs/run_*/manifest.json"}
	at := instant{pattern: patterns[r.rng.IntN(len(patterns))], after: r.upTo(60 * time.Millisecond)}
	if at.pattern == "" || r.chance(3) {
		at.after = r.upTo(1200 * time.Millisecond)
	}
	return at
}

// newHost makes a home beneath data, a repository, and a scenario.
func (r *round) newHost(ctx context.Context, data string) (*host, error) {
	h := &host{r: r, home: filepath.Join(data, "h"), repo: r.path("repo"), at: r.newInstant(), model: r.path("x.yaml")}
	script := []any{}
	kinds := []string{}
	for i := range 1 + r.rng.IntN(3) {
		name := fmt.Sprintf("step_%d", i)
		kind, cmd := r.newCommand()
		kinds = append(kinds, kind)
		script = append(script, map[string]any{"text": "I run " + name + ".",
			"calls": []any{map[string]any{"tool": "ExecCommand",
				"arguments": map[string]any{"cmd": "echo " + name + " >> made.txt; " + cmd}}}})
	}
	r.tell("steps %s; strike %s after %q appears", strings.Join(kinds, " "), h.at.after, h.at.pattern)
	data2, err := json.Marshal(map[string]any{"rounds": append(script, map[string]any{"text": "Done."})})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(h.home, 0o700), os.WriteFile(h.model, data2, 0o644), os.MkdirAll(h.repo, 0o755),
		os.WriteFile(filepath.Join(h.repo, "a"), []byte("a\n"), 0o644)); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "first"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Env = h.repo, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	r.undo = append(r.undo, h.removeContainers)
	h.before, err = check.Listing(h.repo)
	return h, err
}

func (r *round) newCommand() (kind, cmd string) {
	switch r.rng.IntN(5) {
	case 0:
		return "slow", fmt.Sprintf("sleep 0.%d", 1+r.rng.IntN(6))
	case 1:
		return "flood", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", 1+r.rng.IntN(1<<20))
	case 2:
		return "files", "mkdir -p many; for i in $(seq 40); do echo $i > many/$i; done"
	case 3:
		return "deaf", "(trap '' TERM HUP; sleep 30) & sleep 0.2"
	}
	return "command", "echo out; exit 3"
}

// begin starts holon.
func (h *host) begin(name string, args ...string) (*process, error) {
	env := []string{"HOLON_HOME=" + h.home, "HOME=" + h.r.dir, "TMPDIR=" + os.TempDir(), "DOCKER_HOST=" + h.engine,
		"GIT_CONFIG_NOSYSTEM=1"}
	return h.r.start(name, env, h.repo, append([]string{filepath.Join(h.r.lab.bin, "holon")}, args...)...)
}

// run runs holon to its end.
func (h *host) run(name string, args ...string) (code int, err error) {
	p, err := h.begin(name, args...)
	if err != nil {
		return 0, err
	}
	return p.wait()
}

// reach waits for the instant, or the end of p.
func (h *host) reach(ctx context.Context, p *process) error {
	for end := time.Now().Add(patience); h.at.pattern != "" && time.Now().Before(end); {
		found, err := filepath.Glob(filepath.Join(h.home, h.at.pattern))
		if err != nil || len(found) > 0 {
			break
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(2 * time.Millisecond):
		}
	}
	err := pause(ctx, h.at.after)
	made, _ := filepath.Glob(filepath.Join(h.home, "cache/trees/*/*/tree/made.txt")) // the pattern is right
	h.worked = len(made) > 0
	return err
}

func (h *host) start() (*process, error) {
	return h.begin("run", "run", "--model", "scripted/"+h.model, "x")
}

// playHolon kills holon, and at times those that take up its run, or stops it
// for a while.
func playHolon(ctx context.Context, r *round) error {
	h, err := r.newHost(ctx, r.dir)
	if err != nil {
		return err
	}
	freeze, way, again, after := r.chance(5), r.rng.IntN(3), r.chance(3), r.upTo(700*time.Millisecond)
	p, err := h.start()
	if err != nil {
		return err
	}
	if err := h.reach(ctx, p); err != nil {
		return err
	}
	if freeze {
		r.tell("SIGSTOP of holon for 2 s")
		_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		if code, err := p.wait(); err != nil || code != 0 {
			return fmt.Errorf("holon ended with %d after it had been stopped: %w\n%s", code, err,
				tail(r.path("run.log"), 2000))
		}
		return h.inspect(ctx)
	}
	p.kill()
	command := [][]string{{"attach", "last"}, {"stop", "last"}, {"gc", "--force"}}[way]
	r.tell("then holon %s, killed too: %v", strings.Join(command, " "), again)
	if again {
		p, err := h.begin("again", command...)
		if err != nil {
			return err
		}
		if err := pause(ctx, after); err != nil {
			return err
		}
		p.kill()
	}
	if _, err := h.run("recovery", command...); err != nil { // there may be nothing to attach to
		return err
	}
	return h.inspect(ctx)
}

// playContainer kills the container under a holon that watches.
func playContainer(ctx context.Context, r *round) error {
	h, err := r.newHost(ctx, r.dir)
	if err != nil {
		return err
	}
	how := [][]string{{"kill"}, {"rm", "-f"}, {"stop", "--time", "5"}, {"restart", "--time", "1"}}[r.rng.IntN(4)]
	p, err := h.start()
	if err != nil {
		return err
	}
	if err := h.reach(ctx, p); err != nil {
		return err
	}
	r.tell("docker %s", strings.Join(how, " "))
	ids, err := h.containers(ctx)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		_ = exec.CommandContext(ctx, "docker", append(how, ids...)...).Run() // it may be gone, or not started yet
	}
	if _, err := p.wait(); err != nil {
		return err
	}
	return h.inspect(ctx)
}

// playEngine cuts every connection to the engine, for a while or for good.
func playEngine(ctx context.Context, r *round) error {
	h, err := r.newHost(ctx, r.dir)
	if err != nil {
		return err
	}
	proxy, err := openProxy(r.path("e"), engineSocket())
	if err != nil {
		return err
	}
	defer proxy.close()
	h.engine = "unix://" + r.path("e")
	away := r.upTo(900 * time.Millisecond)
	if r.chance(4) {
		away = 5 * time.Second
	}
	p, err := h.start()
	if err != nil {
		return err
	}
	if err := h.reach(ctx, p); err != nil {
		return err
	}
	r.tell("the engine is away for %s", away)
	proxy.cut(true)
	if err := pause(ctx, away); err != nil {
		return err
	}
	proxy.cut(false)
	if _, err := p.wait(); err != nil {
		return err
	}
	h.engine = ""
	proxy.close()
	return h.inspect(ctx)
}

// playHome fills the disk of the state home.
func playHome(ctx context.Context, r *round) error {
	data := r.path("d")
	if err := r.mount("tmpfs", data, "tmpfs", "size=96m"); err != nil {
		return err
	}
	h, err := r.newHost(ctx, data)
	if err != nil {
		return err
	}
	kill, hold := r.chance(2), r.upTo(800*time.Millisecond)
	p, err := h.begin("run", "run", "--disk", "0", "--model", "scripted/"+h.model, "x")
	if err != nil {
		return err
	}
	if err := h.reach(ctx, p); err != nil {
		return err
	}
	h.worked = false // there may have been no space for it
	r.tell("the disk is full for %s; holon killed: %v", hold, kill)
	if err := fill(filepath.Join(data, "filler"), int64(r.rng.IntN(3))*64<<10); err != nil {
		return err
	}
	if err := pause(ctx, hold); err != nil {
		return err
	}
	if kill {
		p.kill()
		if _, err := h.run("full", "gc", "--force"); err != nil {
			return err
		}
	} else if r.chance(2) { // to its end with a full disk
		if _, err := p.wait(); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(data, "filler")); err != nil {
		return err
	}
	if _, err := p.wait(); err != nil {
		return err
	}
	return h.inspect(ctx)
}

// containers lists those of the home, running or not.
func (h *host) containers(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "docker", "ps", "-aq", "--no-trunc", "--filter",
		"label=holon.home="+h.home).Output()
	return strings.Fields(string(out)), err
}

// removeContainers is for a round that failed; another has none.
func (h *host) removeContainers() error {
	ids, err := h.containers(context.Background()) // also when the round was interrupted
	if err != nil || len(ids) == 0 {
		return err
	}
	return exec.Command("docker", append([]string{"rm", "-f"}, ids...)...).Run()
}

// inspect collects what is left, and checks that then nothing is, that every run
// has one end, and that the user's files are as they were.
func (h *host) inspect(ctx context.Context) error {
	if code, err := h.run("gc", "gc", "--force"); err != nil || code != 0 {
		return fmt.Errorf("holon gc --force ended with %d: %w\n%s", code, err, tail(h.r.path("gc.log"), 2000))
	}
	if code, err := h.run("gc2", "gc", "--force"); err != nil || code != 0 ||
		!bytes.Contains(tail(h.r.path("gc2.log"), 2000), []byte("nothing to do")) {
		return fmt.Errorf("the second holon gc --force ended with %d: %w\n%s", code, err,
			tail(h.r.path("gc2.log"), 2000))
	}
	ids, err := h.containers(ctx)
	if err == nil && len(ids) > 0 {
		err = fmt.Errorf("containers are left: %v", ids)
	}
	if err := errors.Join(err, check.Tidy(h.home), check.NoSocket(h.home), check.NoTemporary(h.home),
		check.NoLock(h.home),
		check.NoProcess(h.r.mark, h.home), check.Unchanged(h.repo, h.before)); err != nil {
		return err
	}
	runs, err := filepath.Glob(filepath.Join(h.home, "runs/run_*"))
	if err != nil {
		return err
	}
	if h.worked && len(runs) != 1 {
		return fmt.Errorf("there are %d runs and one had begun to work", len(runs))
	}
	for _, dir := range runs {
		if err := h.inspectRun(dir); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) inspectRun(dir string) error {
	m, err := check.Run(dir)
	if err != nil {
		return err
	}
	if m.Turn != nil {
		h.r.turns++
		events, err := os.ReadFile(filepath.Join(dir, "events.ndjson"))
		if err != nil {
			return err
		}
		if err := conform.CheckStream(bytes.NewReader(events), stream.NDJSON); err != nil {
			return err
		}
	}
	patch, err := os.ReadFile(filepath.Join(dir, "diff.patch"))
	if err != nil && h.worked {
		return fmt.Errorf("the work of the run is lost: %w", err)
	}
	if h.worked && !bytes.Contains(patch, []byte("made.txt")) {
		return errors.New("the work of the run is not in its patch")
	}
	for i := range 3 {
		if n := bytes.Count(patch, fmt.Appendf(nil, "\n+step_%d\n", i)); n > 1 {
			return fmt.Errorf("the command of step %d ran %d times", i, n)
		}
	}
	return nil
}
