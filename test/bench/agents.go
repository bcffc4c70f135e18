package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holon/runner/agent/tools"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
	"holon/test/load"
	"holon/test/torture/check"
)

// baseImage has a shell, which the image of the floor has not.
const baseImage = "holon/base:latest"

// playing starts a daemon whose agents play a scenario: for a message that has one of the words, the calls of the word.
func (r *rig) playing(ctx context.Context, words map[string][]object, roots []string, env ...string) *load.Server {
	var cases []object
	for word, calls := range words {
		cases = append(cases, object{"when": object{"user": object{"matches": word + `\.[^\n]*(\n[^\n]*){0,2}$`}},
			"calls": calls})
	}
	script := object{"rounds": []object{{"cases": append(cases, object{"text": "Said."})}, {"text": "Done."}}}
	dir := r.newDir()
	file := filepath.Join(dir, "words.yaml")
	load.Check(os.WriteFile(file, load.Must(json.Marshal(script)), 0o644))
	s := load.Must(load.New(load.Options{Dir: dir, Model: "scripted/" + file, Engine: r.opts.docker, Roots: roots,
		Env: append([]string{"HOLON_AGENTD=" + r.agentd, "HOLON_MAX_CONTAINERS=64"}, env...)}))
	r.later(func() (err error) {
		if s.PID() != 0 {
			err = s.End()
		}
		s.Close()
		return errors.Join(err, load.RemoveContainers(s.Home))
	})
	load.Check(s.Start(ctx))
	return s
}

// message gives an agent a message of the operator, and waits until its turn is settled.
func message(ctx context.Context, s *load.Server, agent, text string) {
	m := load.Must(s.Client.Prompt(ctx, agent, wire.Prompt{Text: text}, ""))
	load.Check(load.Eventually(ctx, load.Patience, func() error {
		got, err := s.Client.Message(ctx, agent, m.MessageID)
		if err == nil && got.Entry.Status != ledger.Processed {
			err = fmt.Errorf("%s of %s is %s: %s", m.MessageID, agent, got.Entry.Status, got.Entry.Reason)
		}
		return err
	}))
}

// ways are those of the messages of an agent, from the ledger.
func ways(ctx context.Context, s *load.Server, agent string) (all []check.Way) {
	led := load.Must(check.OpenLedger(s.Ledger()))
	defer led.Close()
	for _, w := range load.Must(led.Ways(ctx)) {
		if w.Agent == agent && !w.Begun.IsZero() {
			all = append(all, w)
		}
	}
	return all
}

// measureSpawnAgent is P29: from the call of SpawnAgent, which admits the child's message, to the first event of the
// child's turn, against the same of a new agent of the operator.
func measureSpawnAgent(ctx context.Context, r *rig) []row {
	s := r.playing(ctx, map[string][]object{"spawn": {{"tool": tools.NameSpawn,
		"arguments": object{"initial_message": "Say something."}}}}, nil, "HOLON_IMAGE="+r.image, "HOLON_IDLE_STOP=1s")
	load.Check(s.Create(ctx, "parent"))
	message(ctx, s, "parent", "Say something.")
	n, seen := 0, map[string]bool{}
	got := compare(ctx, r.plan(25, 3, 1), subject{"new agent", func(ctx context.Context) []float64 {
		n++
		agent := fmt.Sprint("cold-", n)
		load.Check(s.Create(ctx, agent))
		message(ctx, s, agent, "Say something.")
		return began(ctx, s, agent)
	}}, subject{"child", func(ctx context.Context) []float64 {
		message(ctx, s, "parent", "Please spawn.")
		return began(ctx, s, newest(ctx, s, seen))
	}})
	return []row{versus("P29", "SpawnAgent → the child's first event (turn_started)",
		"a new agent, admitted → turn_started", unitMS, got[1][0], got[0][0]).ratioGoal(1.15)}
}

// began waits until the first message of an agent is in its turn and its container gone, and returns how long the turn
// took to begin.
func began(ctx context.Context, s *load.Server, agent string) []float64 {
	var all []check.Way
	load.Check(load.Eventually(ctx, load.Patience, func() error {
		if all = ways(ctx, s, agent); len(all) == 0 {
			return fmt.Errorf("no turn of %s has begun", agent)
		}
		ids, err := load.Containers(ctx, s.Home, agent)
		if err == nil && len(ids) > 0 {
			err = fmt.Errorf("the container of %s is there", agent)
		}
		return err
	}))
	return []float64{ms(all[0].Begun.Sub(all[0].Admitted))}
}

// newest waits for a child that was not seen.
func newest(ctx context.Context, s *load.Server, seen map[string]bool) (child string) {
	load.Check(load.Eventually(ctx, load.Patience, func() error {
		led := load.Must(check.OpenLedger(s.Ledger()))
		defer led.Close()
		for _, id := range load.Must(led.Agents(ctx)) {
			if state.IsChild(id) && !seen[id] {
				child, seen[id] = id, true
				return nil
			}
		}
		return errors.New("there is no new child")
	}))
	return child
}

// measureUse is P30: an agent is to work in a repository in which it worked before.
func measureUse(ctx context.Context, r *rig) []row {
	repo := r.newRepository(ctx, 5000)
	s := r.playing(ctx, nil, []string{repo.dir}, "HOLON_IMAGE="+r.image)
	load.Check(s.Create(ctx, "one"))
	use := func(ctx context.Context) { load.Check(s.Workspace(ctx, "one", "use", object{"path": repo.dir})) }
	use(ctx)
	message(ctx, s, "one", "Say something.")
	got := compare(ctx, r.plan(50, 5, 1), subject{"git", func(ctx context.Context) []float64 {
		return laps(func() { git(ctx, repo.dir, "rev-parse", "--show-toplevel") })[:1]
	}}, subject{"use", func(ctx context.Context) []float64 {
		load.Check(s.Workspace(ctx, "one", "exit", object{}))
		return laps(func() { use(ctx) })[:1]
	}})
	return []row{versus("P30", "use of a repository of 5,000 files that was used before", "git rev-parse", unitMS,
		got[1][0], got[0][0]).absoluteGoal(60)}
}

// measureClaim is P31: how long an operator's prompt waits for its claim while eight children compute.
func measureClaim(ctx context.Context, r *rig) []row {
	busy := object{"tool": "ExecCommand", "arguments": object{"cmd": "timeout 120 sh -c 'while :; do :; done'",
		"yield_time_ms": 180_000}}
	var spawns []object
	for range 8 {
		spawns = append(spawns, object{"tool": tools.NameSpawn, "arguments": object{"initial_message": "Do compute."}})
	}
	s := r.playing(ctx, map[string][]object{"compute": {busy}, "spawn": spawns}, nil, "HOLON_IMAGE="+baseImage)
	load.Check(s.Create(ctx, "parent"))
	n := r.samples(100, 10)
	ask := func() float64 {
		before := len(ways(ctx, s, "parent"))
		for range n {
			message(ctx, s, "parent", "Say something.")
		}
		var waited []time.Duration
		for _, w := range ways(ctx, s, "parent")[before:] {
			waited = append(waited, w.Claimed.Sub(w.Admitted))
		}
		slices.Sort(waited)
		return ms(waited[len(waited)*99/100])
	}
	message(ctx, s, "parent", "Say something.")
	alone := ask()
	message(ctx, s, "parent", "Please spawn.")
	load.Check(load.Eventually(ctx, load.Patience, func() error {
		ids, err := load.Containers(ctx, s.Home, "")
		if err == nil && len(ids) < 9 {
			err = fmt.Errorf("%d of 8 children have a container", len(ids)-1)
		}
		return err
	}))
	return []row{versus("P31", "eight children compute: an operator's prompt → claimed, p99", "without children", unitMS,
		[]float64{ask()}, []float64{alone}).absoluteGoal(2000)}
}

// measureBest is P32: four attempts and their checks, against one.
func measureBest(ctx context.Context, r *rig) []row {
	repo, script := r.newRepository(ctx, 100), filepath.Join(r.dir, "attempt.yaml")
	load.Check(os.WriteFile(script, []byte(`{"rounds":[{"delay":"5s","text":"I write.","calls":[{"tool":"ExecCommand",`+
		`"arguments":{"cmd":"echo one > made"}}]},{"text":"Done."}]}`), 0o644))
	run := func(name string, more ...string) subject {
		args := append([]string{"run", "--quiet", "--image", baseImage, "--check", "test -e made", "--model",
			"scripted/" + script}, append(more, "x")...)
		return subject{name, func(ctx context.Context) []float64 { return r.command(ctx, repo.dir, r.holon, args...) }}
	}
	got := compare(ctx, r.plan(5, 3, 1), run("one"), run("four", "--best-of", "4"))
	return []row{versus("P32", "holon run --best-of 4 --check", "the same once, 5 s", unitMS, got[1][0],
		got[0][0]).ratioGoal(1.3)}
}
