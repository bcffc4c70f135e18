package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// server is a running program that serves a socket.
type server struct {
	socket string
	ready  time.Duration // from the spawn to the first answer
	pid    int
	stop   func() error
	state  string // agentd: its directories
	output string
}

// serve starts cmd and waits until it answers path at socket.
func (r *rig) serve(ctx context.Context, cmd *exec.Cmd, socket, path string) (*server, error) {
	began := time.Now()
	stop, err := r.start(cmd)
	if err != nil {
		return nil, err
	}
	if err := awaitAnswer(ctx, socket, path); err != nil {
		return nil, errors.Join(err, stop())
	}
	return &server{socket: socket, ready: time.Since(began), pid: cmd.Process.Pid, stop: stop}, nil
}

// serveFloor starts the server that only answers.
func (r *rig) serveFloor(ctx context.Context) (*server, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "floor.sock")
	return r.serve(ctx, exec.CommandContext(ctx, r.floor, "serve", socket), socket, "/")
}

// serveRelay starts the relay in front of the model.
func (r *rig) serveRelay(ctx context.Context, more ...string) (*server, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	socket, turns := filepath.Join(dir, "relay.sock"), filepath.Join(dir, "turns")
	if err := os.Mkdir(turns, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{"relay", socket, turns, r.model + "/responses"}, more...)
	return r.serve(ctx, exec.CommandContext(ctx, r.floor, args...), socket, "/health")
}

// skillCount is the number of skills in the directory that agentd is given.
const skillCount = 10

// newSkills makes a directory of small skills.
func (r *rig) newSkills() (string, error) {
	dir, err := r.newDir()
	if err != nil {
		return "", err
	}
	for i := range skillCount {
		skill := filepath.Join(dir, fmt.Sprintf("skill-%d", i))
		if err := os.Mkdir(skill, 0o755); err != nil {
			return "", err
		}
		text := fmt.Sprintf("---\nname: skill-%d\ndescription: Does the task number %d when it is asked for.\n---\n"+
			"\n%s", i, i, strings.Repeat("Do it step by step.\n", 100))
		if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// serveAgentd starts agentd as a process of the host, in front of the model.
func (r *rig) serveAgentd(ctx context.Context, skills string, flags ...string) (*server, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "agent.sock")
	cmd := exec.CommandContext(ctx, r.agentd, "serve", "--socket", socket, "--input-dir", filepath.Join(dir, "input"),
		"--output-dir", filepath.Join(dir, "output"), "--state-dir", filepath.Join(dir, "state"),
		"--workspace-dir", filepath.Join(dir, "workspace"), "--skills-dir", skills, "--model", modelName)
	cmd.Args = append(cmd.Args, flags...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OPENAI_BASE_URL=" + r.model,
		"OPENAI_API_KEY=sk-bench-0123456789abcdef"}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	s, err := r.serve(ctx, cmd, socket, "/health")
	if err != nil {
		text, _ := os.ReadFile(log.Name()) // explains err, if it is there
		return nil, fmt.Errorf("start agentd: %w\n%s", err, text)
	}
	s.state, s.output = filepath.Join(dir, "state"), filepath.Join(dir, "output")
	return s, nil
}

// measureSpawn is P2: from the spawn to the first answer, outside a container.
func measureSpawn(ctx context.Context, r *rig) ([]row, error) {
	skills, err := r.newSkills()
	if err != nil {
		return nil, err
	}
	sample := func(serve func(ctx context.Context) (*server, error)) func(ctx context.Context) ([]time.Duration,
		error) {
		return func(ctx context.Context) ([]time.Duration, error) {
			s, err := serve(ctx)
			if err != nil {
				return nil, err
			}
			return []time.Duration{s.ready}, s.stop()
		}
	}
	figures, err := compare(ctx, plan{rounds: r.opts.rounds, samples: r.perRound(50, 3), block: 1},
		subject{"server that only answers", sample(r.serveFloor)},
		subject{"agentd", sample(func(ctx context.Context) (*server, error) { return r.serveAgentd(ctx, skills) })})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("spawn → /health, %d skills", skillCount)
	return []row{timed("P2", what, "server that only answers", figures[1], figures[0], 0).ratioGoal(2)}, nil
}

// measureMemory is P10: the memory of agentd when it is ready, and when it
// idles after some turns.
func measureMemory(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	skills, err := r.newSkills()
	if err != nil {
		return nil, err
	}
	var floors, ready, idle []float64
	for range r.opts.rounds {
		floor, err := r.serveFloor(ctx)
		if err != nil {
			return nil, err
		}
		r.later(floor.stop)
		ours, err := r.serveAgentd(ctx, skills)
		if err != nil {
			return nil, err
		}
		r.later(ours.stop)
		first, err := ours.resident()
		if err != nil {
			return nil, err
		}
		if err := r.useAndRest(ctx, ours); err != nil {
			return nil, err
		}
		last, err := ours.resident()
		if err != nil {
			return nil, err
		}
		base, err := floor.resident()
		if err != nil {
			return nil, err
		}
		floors, ready, idle = append(floors, base), append(ready, first), append(idle, last)
		if err := errors.Join(ours.stop(), floor.stop()); err != nil {
			return nil, err
		}
	}
	memory := func(what string, ours []float64) row {
		f, o := median(floors), median(ours)
		return row{ID: "P10", What: what, Against: "server that only answers", Unit: unitMB, Floor: f, Ours: o,
			Ratio: o / f}
	}
	return []row{memory("resident memory when ready", ready),
		memory("resident memory, idle after 50 turns", idle).absoluteGoal(20)}, nil
}

// useAndRest runs turns and then leaves the server alone for a moment.
func (r *rig) useAndRest(ctx context.Context, s *server) error {
	client := unixClient(s.socket)
	defer client.CloseIdleConnections()
	for range r.samples(50, 10) {
		if _, err := streamTurn(ctx, client); err != nil {
			return err
		}
	}
	return rest(ctx, 2*time.Second)
}

// measureIdle is the memory of a stream whose model is silent: a thousand of
// them are open at once.
func measureIdle(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	n := r.samples(1000, 100)
	relay, agentd, err := r.pair(ctx, n)
	if err != nil {
		return nil, err
	}
	floor, err := relay.idleStreams(ctx, n)
	if err != nil {
		return nil, err
	}
	ours, err := agentd.idleStreams(ctx, n)
	if err != nil {
		return nil, err
	}
	return []row{row{ID: "P10", What: fmt.Sprintf("resident memory for each of %d idle streams", n),
		Against: "relay, durable", Unit: unitKB, Floor: floor, Ours: ours, Ratio: ours / floor}.absoluteGoal(96)}, nil
}

// idleStreams returns how much memory a stream takes that waits for its model,
// in kilobytes.
func (t *target) idleStreams(ctx context.Context, n int) (each float64, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if _, err := t.stream(ctx, ask{Model: modelName, Input: "Say something."}, false); err != nil {
		return 0, err
	}
	before, err := t.resident()
	if err != nil {
		return 0, err
	}
	_, _, err = parallel(ctx, n, 16, func(_ context.Context, _ int) error { // the streams outlive this
		resp, err := t.do(ctx, http.MethodPost, "/responses",
			ask{Model: "openai/fake-1-600000000", Input: "Say something.", Stream: true,
				Holon: map[string]any{"on_disconnect": "cancel"}})
		if err != nil {
			return err
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := rest(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	after, err := t.resident()
	return (after - before) * 1000 / float64(n), err
}

// resident returns VmRSS in megabytes.
func (s *server) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib * 1024 / 1e6, nil
		}
	}
	return 0, fmt.Errorf("process %d tells no VmRSS", s.pid)
}

// measureSize is P11: the size of the program.
func measureSize(_ context.Context, r *rig) ([]row, error) {
	ours, err := os.Stat(r.agentd)
	if err != nil {
		return nil, err
	}
	floor, err := os.Stat(r.floor)
	if err != nil {
		return nil, err
	}
	f, o := float64(floor.Size())/1e6, float64(ours.Size())/1e6
	return []row{row{ID: "P11", What: "static binary, stripped", Against: "the floors in one binary", Unit: unitMB,
		Floor: f, Ours: o, Ratio: o / f}.absoluteGoal(25)}, nil
}
