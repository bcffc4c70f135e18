package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner"
	"holon/runner/oneshot"
	"holon/state"
	"holon/test/expect"
)

// kill kills holon as nothing can be handled, and reaps it.
func (p *process) kill() {
	p.h.t.Helper()
	expect.NoError(p.h.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it was killed
	p.cancel()
}

// beginPausing starts a run that waits for the file "go" in its tree.
func (h *home) beginPausing(repo string) *process {
	h.t.Helper()
	return h.beginPlay(repo, "pausing")
}

// proceed lets a pausing run go on.
func (h *home) proceed() {
	h.t.Helper()
	trees, err := filepath.Glob(filepath.Join(h.dir, "cache/trees/*/0/tree"))
	if err != nil || len(trees) != 1 {
		h.t.Fatalf("%v, %v", trees, err)
	}
	expect.NoError(h.t, os.WriteFile(filepath.Join(trees[0], "go"), nil, 0o644))
	if os.Geteuid() == 0 { // the container's user removes it
		info, err := os.Stat(trees[0])
		expect.NoError(h.t, err)
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		expect.NoError(h.t, os.Chown(filepath.Join(trees[0], "go"), owner, owner))
	}
}

// ps lists the runs.
func (h *home) ps(args ...string) (views []oneshot.View) {
	h.t.Helper()
	r := h.run(h.dir, append([]string{"ps", "--json"}, args...)...)
	if r.code != 0 || json.Unmarshal([]byte(r.stdout), &views) != nil {
		h.t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	return views
}

// only is the one run of the home.
func (h *home) only() oneshot.View {
	h.t.Helper()
	views := h.ps("--all")
	if len(views) != 1 {
		h.t.Fatalf("there are %d runs, want 1: %+v", len(views), views)
	}
	return views[0]
}

// gc collects and returns what was found.
func (h *home) gc(args ...string) (found []oneshot.Finding) {
	h.t.Helper()
	r := h.run(h.dir, append([]string{"gc", "--json"}, args...)...)
	if r.code != 0 || json.Unmarshal([]byte(r.stdout), &found) != nil {
		h.t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	return found
}

// settled is the result of a run that another command than holon run ended.
func (h *home) settled(id string) result {
	h.t.Helper()
	r := result{dir: filepath.Join(h.dir, "runs", id)}
	data, err := os.ReadFile(filepath.Join(r.dir, state.ManifestFile))
	if err == nil {
		r.manifest, err = state.DecodeManifest(data)
	}
	expect.NoError(h.t, err)
	return r
}

// checkTidy checks that there is nothing to be done for anybody.
func (h *home) checkTidy() {
	h.t.Helper()
	if found := h.gc("--dry-run", "--force"); len(found) > 0 {
		h.t.Errorf("there is still something to do: %+v", found)
	}
	for _, pattern := range []string{"cache/trees/*/*/claim", "runs/*/session.json", "runs/.*", "ipc/*"} {
		if exists(h, pattern) {
			h.t.Errorf("%s is left", pattern)
		}
	}
	h.checkNothingLeft()
}

// age makes files two hours old.
func (h *home) age(pattern string) {
	h.t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.dir, pattern))
	expect.NoError(h.t, err)
	old := time.Now().Add(-2 * time.Hour)
	for _, path := range paths {
		expect.NoError(h.t, os.Chtimes(path, old, old))
	}
}

// Wherever holon is killed, the run gets one end, its work is saved, nothing is
// left, and the user's files are as they were.
func TestKilledInEveryPhase(t *testing.T) {
	for _, tc := range []struct {
		name, scenario string
		reach          func(h *home) bool
	}{
		{"at once", "slow", func(h *home) bool { return exists(h, "runs") }},
		{"preparing", "slow", func(h *home) bool { return exists(h, "runs/run_*/run.json") }},
		{"tree claimed", "slow", func(h *home) bool { return exists(h, "cache/trees/*/*/claim") }},
		{"recorded", "slow", func(h *home) bool { return exists(h, "runs/run_*/session.json") }},
		{"container made", "slow", func(h *home) bool { return len(h.containers()) > 0 }},
		{"listening", "slow", func(h *home) bool { return exists(h, "ipc/*/ipc/agent.sock") }},
		{"turn recorded", "slow", func(h *home) bool { return exists(h, "runs/*/session/output/turns/*/runtime.ndjson") }},
		{"working", "slow", func(h *home) bool { return exists(h, "cache/trees/*/*/tree/started") }},
		{"stopped", "failing", func(h *home) bool { return exists(h, "runs/run_*/events.ndjson") }},
		{"collected", "failing", func(h *home) bool { return exists(h, "runs/run_*/diff.patch") }},
		{"ended", "failing", func(h *home) bool { return exists(h, "runs/run_*/manifest.json") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			before := listFiles(t, repo)
			p := h.begin(repo, "run", "--model", scripted(t, tc.scenario), "x")
			await(t, tc.name, func() bool { return tc.reach(h) })
			p.kill()
			h.awaitCreated()
			h.age("runs/.*") // what was made halfway counts as left over after an hour
			worked := exists(h, "cache/trees/*/*/tree/made.txt")

			views := h.ps()
			h.gc("--force")
			if again := h.gc("--force"); len(again) > 0 {
				t.Errorf("the second gc found %+v", again)
			}
			h.checkTidy()
			if after := listFiles(t, repo); !slices.Equal(before, after) {
				t.Errorf("the user's files changed: %v", after)
			}
			all := h.ps("--all")
			if len(all) == 0 {
				if tc.name != "at once" {
					t.Error("the run is forgotten")
				}
				return
			}
			v := all[0]
			switch {
			case len(all) != 1:
				t.Fatalf("len(all) = %d (%+v), want 1; before the gc %+v", len(all), all, views)
			case v.Outcome == nil:
				t.Fatal("v.Outcome = nil, want a value")
			case !v.Status.Terminal():
				t.Fatal("v.Status.Terminal() = false, want true")
			}
			r := h.settled(v.ID)
			if r.manifest.Turn != nil {
				checkRecord(t, r)
			}
			if worked && !strings.Contains(r.read(t, oneshot.DiffFile), "made.txt") {
				t.Errorf("work is lost:\n%s", r.read(t, oneshot.DiffFile))
			}
			if tc.name == "working" && (r.manifest.Status != state.StatusInterrupted ||
				r.manifest.Outcome != state.OutcomeFailure) {
				t.Errorf("%s, %s", r.manifest.Status, r.manifest.Outcome)
			}
		})
	}
}

// awaitCreated waits for the containers that the engine was still making when holon was killed: they are announced, and
// only a collector that comes after them finds them. A holon killed before it asked the engine leaves no container.
func (h *home) awaitCreated() {
	h.t.Helper()
	announced, err := filepath.Glob(filepath.Join(h.dir, "containers", "*"))
	expect.NoError(h.t, err)
	for _, path := range announced {
		nonce := filepath.Base(path)
		if len(nonce) == 64 { // it is the id already
			continue
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if docker(h.t, "ps", "-aq", "--filter", "label=holon.create="+nonce) != "" {
				break
			}
		}
	}
}

// listFiles lists the files of a directory with their contents.
func listFiles(t *testing.T, dir string) (list []string) {
	t.Helper()
	describe(t, dir, func(path string, info os.FileInfo) string {
		line := path + " " + info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			expect.NoError(t, err)
			line += " " + string(data)
		}
		list = append(list, line)
		return ""
	})
	return list
}

// A run whose holon was killed goes on when it is attached to, as if nothing had
// happened; nothing of it is run twice, and no other run is in its way.
func TestUserAttach(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.beginPausing(repo)
	p.kill()
	v := h.only()
	if v.Status != state.StatusOrphaned || v.Container != "running" {
		t.Fatalf("%+v", v)
	}
	switch found := h.gc(); {
	case len(found) != 1:
		t.Errorf("a young orphan was not left alone: len(found) = %d (%+v), want 1", len(found), found)
	case !found[0].Kept:
		t.Error("a young orphan was not left alone: found[0].Kept = false, want true")
	case found[0].What != v.ID:
		t.Errorf("a young orphan was not left alone: found[0].What = %q, want %q", found[0].What, v.ID)
	}
	if other := h.play(0, repo, "failing"); other.manifest.Status != state.StatusCompleted {
		t.Errorf("the next run was hindered: %s", other.manifest.Status)
	}

	first := h.begin(repo, "attach", v.ID)
	await(t, "the lease", func() bool {
		return slices.ContainsFunc(h.ps(), func(v oneshot.View) bool { return v.Status == state.StatusRunning })
	})
	second := h.begin(repo, "attach", v.ID) // watches, until it has to go on with the run
	first.kill()                            // and that may happen again
	await(t, "the lease again", func() bool {
		return slices.ContainsFunc(h.ps(), func(v oneshot.View) bool { return v.Status == state.StatusRunning })
	})
	third := h.begin(repo, "attach", v.ID)
	h.proceed()
	if r := second.wait(); r.code != 0 || !strings.Contains(r.stdout, "It ended by itself.") {
		t.Errorf("the attach that watched: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r := third.wait()
	if r.code != 0 || !strings.Contains(r.stdout, "It ended by itself.") {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	checkRecord(t, r)
	checkChanged(t, r, "added late.txt", "added runs.txt", "added started")
	if patch := r.read(t, oneshot.DiffFile); strings.Count(patch, "\n+run\n") != 1 {
		t.Errorf("the command did not run once:\n%s", patch)
	}
	if again := h.run(repo, "attach", v.ID); again.code != 4 {
		t.Errorf("attach to a run that has ended: exit code %d\n%s", again.code, again.stderr)
	}
	h.checkTidy()
}

// The work of a container that vanished unwatched is collected.
func TestAttachToTheDead(t *testing.T) {
	for name, end := range map[string][]string{"killed": {"kill"}, "removed": {"rm", "-f"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			h.beginPausing(repo).kill()
			docker(t, append(end, h.containers()...)...)
			r := h.run(repo, "attach", "last")
			if r.code != 1 || r.failure(t).Code != string(runner.CodeContainerGone) {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
			rec := checkRecord(t, r)
			if r.manifest.Status != state.StatusInterrupted || !rec.Status.Terminal() {
				t.Errorf("manifest %s, record %s", r.manifest.Status, rec.Status)
			}
			checkChanged(t, r, "added runs.txt", "added started")
			h.checkTidy()
		})
	}
}

// A turn that ended unwatched has the end that agentd reports. Where there is no agentd any more, nobody saw one: what
// stands in the files of the container is claimed.
func TestEndedUnwatched(t *testing.T) {
	for name, gone := range map[string]bool{"reported": false, "claimed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endedUnwatched(t, gone)
		})
	}
}

func endedUnwatched(t *testing.T, gone bool) {
	h, repo := newHome(t), repository(t, "echo a > a")
	h.beginPausing(repo).kill()
	h.proceed()
	await(t, "the end of the turn", func() bool {
		// the pattern is right
		found, _ := filepath.Glob(filepath.Join(h.dir, "runs/*/session/output/turns/*/turn.json"))
		if len(found) != 1 {
			return false
		}
		data, err := os.ReadFile(found[0])
		rec, decodeErr := turns.DecodeRecord(data)
		return err == nil && decodeErr == nil && rec.Status.Terminal()
	})
	want := state.StatusCompleted
	if gone {
		docker(t, append([]string{"rm", "-f"}, h.containers()...)...)
		want = state.StatusCancelled
	}
	h.run(repo, "stop", "last")
	r := h.settled(h.only().ID)
	checkRecord(t, r)
	expect.Equal(t, "status", r.manifest.Status, want)
	checkChanged(t, r, "added late.txt", "added runs.txt", "added started")
	h.checkTidy()
}

// holon stop ends a run that lives, one whose holon hangs, and one whose holon
// was killed; their work is kept.
func TestStop(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(p *process)
		args    []string
		want    state.Status
	}{
		{"alive", func(*process) {}, nil, state.StatusCancelled},
		{"killed", func(p *process) { p.kill() }, nil, state.StatusCancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t), repository(t, "echo a > a")
			p := h.beginPausing(repo)
			tc.prepare(p)
			r := h.run(repo, append([]string{"stop", "last"}, tc.args...)...)
			if r.code != 0 || !strings.Contains(r.stdout, string(tc.want)) {
				t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if tc.name == "alive" {
				if ended := p.wait(); ended.code != 130 {
					t.Errorf("the run's exit code is %d\n%s", ended.code, ended.stderr)
				}
			}
			got := h.settled(h.only().ID)
			checkOneEnd(t, got)
			checkChanged(t, got, "added runs.txt", "added started")
			if again := h.run(repo, "stop", "last"); again.code != 0 {
				t.Errorf("a second stop: exit code %d\n%s", again.code, again.stderr)
			}
			h.checkTidy()
		})
	}
}

// Many who clean up at once settle each run once, and never a live one.
func TestConcurrentCollectors(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	h.beginPausing(repo).kill()
	live := h.begin(repo, "run", "--model", scripted(t, "slow"), "x")
	await(t, "the live run", func() bool { return exists(h, "cache/trees/*/1/tree/started") })
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { h.gc("--force") })
	}
	group.Wait()
	views := h.ps("--all")
	switch {
	case len(views) != 2:
		t.Fatalf("len(views) = %d (%+v), want 2", len(views), views)
	case views[0].Status != state.StatusRunning:
		t.Fatalf("views[0].Status = %q, want %q", views[0].Status, state.StatusRunning)
	case views[1].Status != state.StatusInterrupted:
		t.Fatalf("views[1].Status = %q, want %q", views[1].Status, state.StatusInterrupted)
	}
	live.signal(syscall.SIGTERM)
	if r := live.wait(); r.code != 130 {
		t.Errorf("the live run ended with %d\n%s", r.code, r.stderr)
	}
	checkOneEnd(t, h.settled(views[1].ID))
	h.checkTidy()
}

// checkOneEnd checks a run whose turn ended in good order with its container: the run has the end of the turn.
func checkOneEnd(t *testing.T, r result) {
	t.Helper()
	checkRecord(t, r)
	for _, w := range r.manifest.Warnings {
		if strings.Contains(w, "claim") {
			t.Errorf("the record has another end: %s", w)
		}
	}
}

// gc removes what is ours and belongs to no run. A container that only has our
// labels, as an image or docker commit gives them, is not ours.
func TestStrangers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const nonce = "made-by-a-holon-that-was-killed"
	run := func(label string) string {
		return strings.TrimSpace(docker(t, "run", "-d", "--network", "none", "--label", "holon.role=agent", "--label",
			"holon.run="+state.NewRunID(),
			"--label", "holon.home="+h.dir, "--label", label, "--entrypoint", "sleep", baseImage, "600"))
	}
	for _, dir := range []string{"containers", "runs/.new-1", "ipc/" + state.NewRunID()} {
		expect.NoError(t, os.MkdirAll(filepath.Join(h.dir, dir), 0o700))
	}
	h.age("runs/.new-1")
	h.age("ipc/*")
	expect.NoError(t, os.WriteFile(filepath.Join(h.dir, "containers", nonce), nil, 0o600))
	ours, stranger := run("holon.create="+nonce), run("holon.create=another")
	t.Cleanup(func() { docker(t, "rm", "-f", stranger) })
	if dry := h.gc("--dry-run"); len(dry) != 3 || len(h.containers()) != 2 {
		t.Errorf("a dry run found %+v; containers %v", dry, h.containers())
	}
	if found := h.gc(); len(found) != 3 {
		t.Errorf("found %+v, want the container %s, the sockets and the directory", found, ours)
	}
	if left := h.containers(); !slices.Equal(left, []string{stranger}) {
		t.Errorf("containers %v are left, want %s alone", left, stranger)
	}
	docker(t, "rm", "-f", stranger)
	h.checkTidy()
}
