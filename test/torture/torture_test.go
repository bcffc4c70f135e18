package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/clustertest"
	"holon/test/load"
)

// The fast tier plays every victim once or more, of a seed that draws them all in few rounds, and one daemon of agents,
// of trees and of sessions; the full one many rounds of seeds that are new each time and printed, and in small endurance
// and processes that share a ledger.
func TestTorture(t *testing.T) {
	random := fmt.Sprint(rand.Uint64N(1 << 32))
	tests := [][]string{
		{"-kind", kindRuns, "-rounds", "200", "-workers", "3", "-seed", random},
		{"-kind", kindAgents, "-rounds", "60", "-workers", "3", "-seed", random},
		{"-kind", kindTrees, "-rounds", "60", "-workers", "3", "-seed", random},
		{"-kind", kindSessions, "-rounds", "60", "-workers", "3", "-seed", random},
		{"-kind", kindEndurance, "-rounds", "1", "-messages", "100", "-seed", random},
		{"-kind", kindShared, "-rounds", "1", "-seed", random},
		{"-kind", kindAgents, "-rounds", "20", "-seed", random, "-link", "stream"},
		{"-kind", kindTrees, "-rounds", "20", "-seed", random, "-link", "stream"},
		{"-kind", kindSessions, "-only", "sessions-contained", "-rounds", "20", "-seed", random, "-link", "stream"},
	}
	if testing.Short() {
		tests = [][]string{
			{"-kind", kindRuns, "-rounds", "14", "-workers", "3", "-seed", "36"},
			{"-kind", kindAgents, "-rounds", "3", "-strikes", "3", "-seed", "1"},
			{"-kind", kindTrees, "-rounds", "2", "-strikes", "2", "-seed", "1"},
			{"-kind", kindSessions, "-only", "sessions", "-rounds", "3", "-strikes", "3", "-seed", "1"},
			{"-kind", kindTrees, "-rounds", "3", "-strikes", "3", "-seed", "3", "-link", "stream"},
			{"-kind", kindSessions, "-only", "sessions-contained", "-rounds", "3", "-strikes", "3", "-seed", "2", "-link", "stream"},
		}
	}
	playAll(t, tests)
}

// The full tier plays agents, trees and sessions in Pods, too.
func TestKubernetes(t *testing.T) {
	c := clustertest.Open(t)
	in := []string{"-kubeconfig", c.Kubeconfig, "-agentd-image", c.AgentdImage, "-image", c.Load(image), "-workers", "1",
		"-rounds", "5",
		"-strikes", "5", "-seed", fmt.Sprint(rand.Uint64N(1 << 32))}
	playAll(t, [][]string{
		append([]string{"-kind", kindAgents}, in...),
		append([]string{"-kind", kindTrees}, in...),
		append([]string{"-kind", kindSessions, "-only", "sessions-contained"}, in...),
	})
}

func playAll(t *testing.T, tests [][]string) {
	for _, args := range tests {
		t.Run(args[1], func(t *testing.T) {
			if testing.Short() {
				t.Parallel()
			}
			var out bytes.Buffer
			violations, err := run(t.Context(), args, &out, io.Discard)
			if err != nil || violations > 0 {
				t.Errorf("%d violations (%v)", violations, err)
			}
			t.Log("\n" + out.String())
		})
	}
}

// A round is the same whenever it is drawn from the same seed, up to what the
// scheduler does.
func TestSeed(t *testing.T) {
	draws := func(seed uint64, number int) string {
		dir := t.TempDir()
		r := &round{rng: rand.New(rand.NewPCG(seed, uint64(number))), dir: dir}
		v := draw(r.rng, victims())
		r.newWork(dir, dir, "")
		return v.name + " " + strings.Join(r.story, "; ")
	}
	first := draws(7, 3)
	if again := draws(7, 3); again != first {
		t.Errorf("once it is\n%s\nand then\n%s", first, again)
	}
	if other := draws(7, 4); other == first {
		t.Errorf("another round is the same: %s", other)
	}
}

// Over some rounds every victim is drawn.
func TestDraw(t *testing.T) {
	seen := map[string]bool{}
	for n := range 500 {
		seen[draw(rand.New(rand.NewPCG(1, uint64(n))), victims()).name] = true
	}
	for _, name := range names() {
		if !seen[name] {
			t.Errorf("%s is never hit", name)
		}
	}
}

// A violation is told with all that is needed to find its cause, and its
// directory is kept.
func TestViolation(t *testing.T) {
	l := &lab{dir: t.TempDir(), options: options{seed: 42}}
	play := func(play func(context.Context, *round)) *round {
		return l.play(t.Context(), 17, []victim{{kindRuns, "agentd", 1, nil, play}})
	}
	var out bytes.Buffer
	tally := &tally{options: l.options, out: &out, played: map[string]int{}}
	broken := play(func(_ context.Context, r *round) {
		r.tell("what was done")
		load.Failf("planted")
	})
	tally.add(broken)
	if tally.violations != 1 || !l.kept {
		t.Errorf("%d violations; kept: %v", tally.violations, l.kept)
	}
	for _, want := range []string{"planted", "what was done", "-seed 42 -first 17", broken.dir} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not tell %q:\n%s", want, out.String())
		}
	}
	if _, err := os.Stat(broken.dir); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func(context.Context, *round){
		"a panic":   func(context.Context, *round) { panic("planted") },
		"a process": func(_ context.Context, r *round) { leave(r) },
	} {
		if play(f).err == nil {
			t.Errorf("%s: got no violation, want one", name)
		}
	}
	if err := play(func(context.Context, *round) {}).err; err != nil {
		t.Error(err)
	}
}

// leave leaves a process that no undo knows of.
func leave(r *round) {
	r.start("left", nil, r.dir, "sleep", "5")
	r.undo = nil
}

// The engine's stand-in carries bytes both ways, cuts what is open, refuses
// while it is away, and leaves no socket.
func TestProxy(t *testing.T) {
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	target, err := net.Listen("unix", filepath.Join(dir, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	go func() {
		for {
			c, err := target.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	path := filepath.Join(dir, "p")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := openProxy(listener, "unix", target.Addr().String())
	talk := func() (net.Conn, error) {
		c, err := net.Dial("unix", path)
		if err != nil {
			return nil, err
		}
		_, err = c.Write([]byte("hello"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 5))
		}
		return c, err
	}
	c, err := talk()
	if err != nil {
		t.Fatal(err)
	}
	p.cut(true)
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("an open connection is not cut")
	}
	if _, err := talk(); err == nil {
		t.Error("it answers while it is away")
	}
	p.cut(false)
	if _, err := talk(); err != nil {
		t.Errorf("it does not come back: %v", err)
	}
	p.close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{{"-only", "moon"}, {"-rounds", "0"}, {"-kind", "moon"}, {"-again", "0"}, {"x"},
		{"-workers", "0"}, {"-strikes", "0"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	o, err := parse([]string{"-only", "agentd, disk", "-seed", "5"}, io.Discard)
	if err != nil || o.seed != 5 || strings.Join(o.only, " ") != "agentd disk" {
		t.Errorf("%+v, %v", o, err)
	}
}
