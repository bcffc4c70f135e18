package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/responses/stream"
	"holon/test/conform"
	"holon/test/load"
	"holon/test/programs"
	"holon/test/torture/check"
)

const image = "holon/base:latest"

func needEngine(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "docker", "image", "inspect", image).CombinedOutput(); err != nil {
		return fmt.Errorf("no Docker engine answers, or it has no image %s (make image): %w\n%s", image, err,
			bytes.TrimSpace(out))
	}
	return nil
}

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
	pattern := one(r, "", "runs/run_*/run.json", "cache/trees/*/*/claim", "runs/run_*/session.json",
		"ipc/*/ipc/agent.sock", "runs/*/session/output/turns/*/runtime.ndjson", "cache/trees/*/*/tree/made.txt",
		"cache/trees/*/*/tree/made.txt", "runs/run_*/events.ndjson", "runs/run_*/diff.patch", "runs/run_*/manifest.json")
	at := instant{pattern: pattern, after: r.upTo(60 * time.Millisecond)}
	if at.pattern == "" || r.chance(3) {
		at.after = r.upTo(1200 * time.Millisecond)
	}
	return at
}

func (r *round) newHost(ctx context.Context, data string) *host {
	h := &host{r: r, home: filepath.Join(data, "h"), repo: r.path("repo"), at: r.newInstant(), model: r.path("x.yaml")}
	script := []any{}
	kinds := []string{}
	for i := range 1 + r.rng.IntN(3) {
		name := fmt.Sprintf("step_%d", i)
		kind, cmd := r.newCommand()
		kinds = append(kinds, kind)
		script = append(script, step("I run "+name, "ExecCommand", object{"cmd": "echo " + name + " >> made.txt; " + cmd}))
	}
	r.tell("steps %s; strike %s after %q appears", strings.Join(kinds, " "), h.at.after, h.at.pattern)
	scenario := load.Must(json.Marshal(map[string]any{"rounds": append(script, map[string]any{"text": "Done."})}))
	load.Check(errors.Join(os.MkdirAll(h.home, 0o700), os.WriteFile(h.model, scenario, 0o644),
		os.MkdirAll(h.repo, 0o755), os.WriteFile(filepath.Join(h.repo, "a"), []byte("a\n"), 0o644)))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "first"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Env = h.repo, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			load.Failf("git %s: %w\n%s", args[0], err, out)
		}
	}
	r.later(func() error { return load.RemoveContainers(h.home) }) // of a round that failed; another has none
	h.before = load.Must(check.Listing(h.repo))
	return h
}

// forge tries to change what agentd keeps and to end it, and says in the tree what worked.
const forge = `for f in $HOLON_OUTPUT_DIR/../turn.json $HOLON_OUTPUT_DIR/../events.ndjson $HOLON_OUTPUT_DIR/../x ` +
	`/holon/state/open /holon/state/responses/resp_x.ndjson /holon/state/tasks/task_x.json; do ` +
	`(echo '{}' > $f) 2>/dev/null && echo $f >> forged.txt; done; ` +
	`for s in TERM QUIT STOP KILL; do kill -$s 1 2>/dev/null && echo $s >> forged.txt; done; pkill -9 agentd`

func (r *round) newCommand() (kind, cmd string) {
	switch r.rng.IntN(6) {
	case 0:
		return "slow", fmt.Sprintf("sleep 0.%d", 1+r.rng.IntN(6))
	case 1:
		return "flood", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", 1+r.rng.IntN(1<<20))
	case 2:
		return "files", "mkdir -p many; for i in $(seq 40); do echo $i > many/$i; done"
	case 4:
		return "forge", forge
	case 3:
		return "deaf", "(trap '' TERM HUP; sleep 30) & sleep 0.2"
	}
	return "command", "echo out; exit 3"
}

func (h *host) begin(name string, args ...string) *load.Process {
	env := []string{"HOLON_HOME=" + h.home, "HOME=" + h.r.dir, "TMPDIR=" + os.TempDir(), "DOCKER_HOST=" + h.engine,
		"GIT_CONFIG_NOSYSTEM=1", "HOLON_LINK=" + h.r.lab.link}
	return h.r.start(name, env, h.repo, append([]string{load.Must(programs.Path("holon"))}, args...)...)
}

func (h *host) run(name string, args ...string) (code int, printed []byte) {
	p := h.begin(name, args...)
	return load.Must(p.Wait()), p.Tail()
}

// strikeable begins a run and waits for the instant, or the end of the run.
func (h *host) strikeable(ctx context.Context, more ...string) *load.Process {
	p := h.begin("run", append(append([]string{"run"}, more...), "--model", "scripted/"+h.model, "x")...)
	for end := time.Now().Add(load.Patience); h.at.pattern != "" && time.Now().Before(end); {
		found, err := filepath.Glob(filepath.Join(h.home, h.at.pattern))
		if err != nil || len(found) > 0 {
			break
		}
		select {
		case <-p.Done:
			return p
		case <-time.After(2 * time.Millisecond):
		}
	}
	pause(ctx, h.at.after)
	made, _ := filepath.Glob(filepath.Join(h.home, "cache/trees/*/*/tree/made.txt")) // the pattern is right
	h.worked = len(made) > 0
	return p
}

// playHolon kills holon, and at times those that take up its run, or stops it
// for a while.
func playHolon(ctx context.Context, r *round) {
	h := r.newHost(ctx, r.dir)
	freeze, again, after := r.chance(5), r.chance(3), r.upTo(700*time.Millisecond)
	command := one(r, []string{"attach", "last"}, []string{"stop", "last"}, []string{"gc", "--force"})
	p := h.strikeable(ctx)
	if freeze {
		r.tell("SIGSTOP of holon for 2 s")
		p.Signal(syscall.SIGSTOP)
		pause(ctx, 2*time.Second)
		p.Signal(syscall.SIGCONT)
		if code := load.Must(p.Wait()); code != 0 {
			load.Failf("holon ended with %d after it had been stopped\n%s", code, p.Tail())
		}
		h.inspect(ctx)
		return
	}
	p.Kill()
	r.tell("then holon %s, killed too: %v", strings.Join(command, " "), again)
	if again {
		p := h.begin("again", command...)
		pause(ctx, after)
		p.Kill()
	}
	h.run("recovery", command...) // there may be nothing to attach to
	h.inspect(ctx)
}

func playContainer(ctx context.Context, r *round) {
	h := r.newHost(ctx, r.dir)
	how := one(r, []string{"kill"}, []string{"rm", "-f"}, []string{"stop", "--time", "5"},
		[]string{"restart", "--time", "1"})
	p := h.strikeable(ctx)
	r.tell("docker %s", strings.Join(how, " "))
	if ids := load.Must(load.Containers(ctx, h.home, "")); len(ids) > 0 {
		_ = exec.CommandContext(ctx, "docker", append(how, ids...)...).Run() // it may be gone, or not started yet
	}
	load.Must(p.Wait())
	h.inspect(ctx)
}

func playEngine(ctx context.Context, r *round) {
	h := r.newHost(ctx, r.dir)
	proxy := openProxy(load.Must(net.Listen("unix", r.path("e"))), "unix", engineSocket())
	defer proxy.close()
	h.engine = "unix://" + r.path("e")
	away := r.upTo(900 * time.Millisecond)
	if r.chance(4) {
		away = 5 * time.Second
	}
	p := h.strikeable(ctx)
	r.tell("the engine is away for %s", away)
	proxy.cut(true)
	pause(ctx, away)
	proxy.cut(false)
	load.Must(p.Wait())
	h.engine = ""
	proxy.close()
	h.inspect(ctx)
}

func playHome(ctx context.Context, r *round) {
	data := r.path("d")
	r.mount("tmpfs", data, "tmpfs", "size=96m")
	h := r.newHost(ctx, data)
	kill, hold := r.chance(2), r.upTo(800*time.Millisecond)
	p := h.strikeable(ctx, "--disk", "0")
	h.worked = false // there may have been no space for it
	r.tell("the disk is full for %s; holon killed: %v", hold, kill)
	fill(filepath.Join(data, "filler"), int64(r.rng.IntN(3))*64<<10)
	pause(ctx, hold)
	if kill {
		p.Kill()
		h.run("full", "gc", "--force")
	} else if r.chance(2) { // to its end with a full disk
		load.Must(p.Wait())
	}
	load.Check(os.Remove(filepath.Join(data, "filler")))
	load.Must(p.Wait())
	h.inspect(ctx)
}

// inspect collects what is left, and checks that then nothing is, that every run
// has one end, and that the user's files are as they were.
func (h *host) inspect(ctx context.Context) {
	if code, printed := h.run("gc", "gc", "--force"); code != 0 {
		load.Failf("holon gc --force ended with %d\n%s", code, printed)
	}
	if code, printed := h.run("gc2", "gc", "--force"); code != 0 || !bytes.Contains(printed, []byte("nothing to do")) {
		load.Failf("the second holon gc --force ended with %d\n%s", code, printed)
	}
	if ids := load.Must(load.Containers(ctx, h.home, "")); len(ids) > 0 {
		load.Failf("containers are left: %v", ids)
	}
	load.Check(errors.Join(check.Tidy(h.home), check.NoSocket(h.home), check.NoTemporary(h.home), check.NoLock(h.home),
		check.NoProcess(h.r.mark, h.home), check.Unchanged(h.repo, h.before)))
	runs := load.Must(filepath.Glob(filepath.Join(h.home, "runs/run_*")))
	if h.worked && len(runs) != 1 {
		load.Failf("there are %d runs and one had begun to work", len(runs))
	}
	for _, dir := range runs {
		h.inspectRun(dir)
	}
}

func (h *host) inspectRun(dir string) {
	if load.Must(check.Run(dir)).Turn != nil {
		h.r.turns++
		events := load.Must(os.ReadFile(filepath.Join(dir, "events.ndjson")))
		load.Check(conform.CheckStream(events, stream.NDJSON))
	}
	patch, err := os.ReadFile(filepath.Join(dir, "diff.patch"))
	if bytes.Contains(patch, []byte("forged.txt")) {
		load.Failf("a command changed what agentd keeps, or ended it")
	}
	if h.worked && !bytes.Contains(patch, []byte("made.txt")) {
		load.Failf("the work of the run is not in its patch: %w", err)
	}
	for i := range 3 {
		if n := bytes.Count(patch, fmt.Appendf(nil, "\n+step_%d\n", i)); n > 1 {
			load.Failf("the command of step %d ran %d times", i, n)
		}
	}
}
