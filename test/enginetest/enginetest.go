// Package enginetest is the suite that every engine passes, against the real
// thing. It runs a small program of its own in the engine and compares what
// the engine says with what the program sees.
package enginetest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/runner/engine/link"
	"holon/state"
	"holon/test/enginetest/report"
	"holon/test/expect"
	"holon/test/programs"
)

// patience bounds every wait for something that should happen at once.
const patience = 60 * time.Second

type Rig struct {
	// New opens the engine; every call sees the same programs, as a restarted
	// host would. The suite closes what it opens.
	New func(t *testing.T) engine.Engine
	// Image holds Program; "" where the engine has no images.
	Image string
	// Program is the path by which the engine runs the suite's program.
	Program string
	// Runtime runs the containers, "" for the engine's default.
	Runtime string
	// Contains says that programs run in containers: the hardening of package engine is to be checked, the engine must
	// be an engine.Pauser, but for Pods, and closing one does not end the programs of another, so that tests run at the
	// same time.
	Contains bool
	// Streams says that programs have copies of their mounts (engine.LinkStream).
	Streams bool
	// Pods says that containers are those of Pods: nothing pauses them, process 1 is not the program, and a mount's
	// target has no colon.
	Pods bool
	// Axes are what the engine of containers reports instead of the defaults, by the names of engine.Isolation. Those
	// that are not hard enforced are weaker than asked for, and what the program sees of them is not compared.
	Axes map[string]engine.Axis
	// NanoCPUs are those of programs for which a test asks for none: an engine may reserve a part of them; 0: the default.
	NanoCPUs int64
	// CreateTime is about how long a Create takes, within which some are cut off.
	CreateTime time.Duration
}

// weaker reports whether the engine promises less of an axis than was asked for.
func (r Rig) weaker(axis string) bool {
	a, differs := r.Axes[axis]
	return differs && a.Level != engine.HardEnforced
}

// Program is the path of the suite's program, static, which any user may run. Main builds it.
var Program string

// Main builds Program, runs the tests of an engine's package, which share it, and checks that no goroutine is left. It
// calls cleanup, if there is one, and ends the process.
func Main(m *testing.M, cleanup func() error) {
	dir, err := os.MkdirTemp("", "enginetest-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the suite's program:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		if cleanup != nil {
			if err := cleanup(); err != nil {
				fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
				code = max(code, 1)
			}
		}
		os.Exit(code)
	}))
}

func build(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // a program of another user has to reach it
		return err
	}
	Program = filepath.Join(dir, "probe")
	return programs.Copy("probe", Program)
}

func Run(t *testing.T, rig Rig) {
	type test struct {
		name string
		run  func(*testing.T)
	}
	tests := []test{
		{"Life", rig.testLife}, {"Wait", rig.testWait}, {"Stop", rig.testStop}, {"Remove", rig.testRemove},
		{"List", rig.testList}, {"Recover", rig.testRecover}, {"Logs", rig.testLogs}, {"Program", rig.testProgram},
		{"Refusals", rig.testRefusals}, {"Concurrency", rig.testConcurrency}, {"Cancel", rig.testCancel},
		{"Pause", rig.testPause},
	}
	if rig.Contains {
		tests = append(tests, test{"Defaults", rig.testDefaults}, test{"Loosened", rig.testLoosened},
			test{"Separated", rig.testSeparated}, test{"ReadOnlyMount", rig.testReadOnlyMount},
			test{"OutOfMemory", rig.testOutOfMemory}, test{"TooManyProcesses", rig.testTooManyProcesses})
	} else {
		tests = append(tests, test{"NoConfinement", rig.testNoConfinement})
	}
	if rig.Streams && testing.Short() { // the rest differs in nothing
		tests = slices.DeleteFunc(tests, func(t test) bool {
			return !slices.Contains([]string{"Life", "Remove", "List", "Recover", "Cancel", "Separated", "ReadOnlyMount"},
				t.name)
		})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if rig.Contains {
				t.Parallel()
			}
			test.run(t)
		})
	}
}

// bench is one test's view of the rig: an engine, and a label that marks all
// it creates, so that the end of the test can see that nothing is left.
type bench struct {
	engine.Engine
	rig    Rig
	labels map[string]string
}

func (r Rig) open(t *testing.T) *bench {
	t.Helper()
	e := r.New(t)
	b := &bench{Engine: e, rig: r, labels: map[string]string{"holon.enginetest": rand.Text()}}
	t.Cleanup(func() {
		// t.Context is done by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		left, err := b.List(ctx, b.labels)
		if err != nil {
			t.Errorf("List: %v", err)
		}
		for _, s := range left {
			if err := b.Remove(ctx, s.Handle); err != nil {
				t.Errorf("Remove %s: %v", s.Handle.Name, err)
			}
		}
		if left, err = b.List(ctx, b.labels); err != nil || len(left) != 0 {
			t.Errorf("left after removing all: %v, %v", left, err)
		}
		expect.NoError(t, e.Close())
	})
	return b
}

// spec is a spec that runs the suite's program with args.
func (b *bench) spec(args ...string) engine.Spec {
	return engine.Spec{
		Name: "enginetest-" + strings.ToLower(rand.Text()), Image: b.rig.Image, Runtime: b.rig.Runtime,
		Labels: b.labels, Args: append([]string{b.rig.Program}, args...), NanoCPUs: b.rig.NanoCPUs,
	}
}

func (b *bench) create(t *testing.T, spec engine.Spec) engine.Handle {
	t.Helper()
	h, err := b.Create(t.Context(), spec)
	expect.NoError(t, err)
	return h
}

func (b *bench) start(t *testing.T, spec engine.Spec) engine.Handle {
	t.Helper()
	h := b.create(t, spec)
	expect.NoError(t, b.Start(t.Context(), h))
	return h
}

// startReady starts a program that prints "ready" and waits for that.
func (b *bench) startReady(t *testing.T, spec engine.Spec) engine.Handle {
	t.Helper()
	h := b.start(t, spec)
	eventually(t, "the program's first line", func() bool { return strings.Contains(b.logs(t, h), "ready") })
	return h
}

func (b *bench) wait(t *testing.T, h engine.Handle) engine.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := b.Wait(ctx, h)
	expect.NoError(t, err)
	return exit
}

func (b *bench) inspect(t *testing.T, h engine.Handle) engine.State {
	t.Helper()
	state, err := b.Inspect(t.Context(), h)
	expect.NoError(t, err)
	return state
}

func (b *bench) logs(t *testing.T, h engine.Handle) string {
	t.Helper()
	logs, err := b.Logs(t.Context(), h, 1<<20)
	expect.NoError(t, err)
	return string(logs)
}

// run runs a program, and brings back what it wrote where that is not written here.
func (b *bench) run(t *testing.T, spec engine.Spec) (engine.Exit, string) {
	t.Helper()
	h := b.start(t, spec)
	exit := b.wait(t, h)
	if b.rig.Streams {
		expect.NoError(t, link.Open(b.Engine.(link.Engine), h, nil, false, "").Fetch(t.Context(), spec, transfer.Limits{}))
	}
	return exit, b.logs(t, h)
}

func (b *bench) report(t *testing.T, spec engine.Spec) report.Report {
	t.Helper()
	exit, out := b.run(t, spec)
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || exit.Code != 0 {
		t.Fatalf("report: exit %+v, %v\n%s", exit, err, out)
	}
	return r
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come within %v", what, patience)
		}
	}
}

func wantCode(t *testing.T, err error, code engine.Code) {
	t.Helper()
	if !state.IsCode(err, code) {
		t.Errorf("error = %v, want code %s", err, code)
	}
}
