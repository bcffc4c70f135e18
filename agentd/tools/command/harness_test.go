package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) {
	memory.Use()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. No test takes that long unless it fails.
const patience = 30 * time.Second

// harness is the family as a session has it.
type harness struct {
	reg   *tools.Registry
	env   tools.Env
	sup   *process.Supervisor
	tasks *tasks.Manager // nil without tasks
	out   string
	n     int
}

type option int

const (
	withoutTasks option = iota
	shortLogs           // of 50,000 bytes
	shared              // other code of the test starts processes too
)

func newHarness(t testing.TB, options ...option) *harness {
	t.Helper()
	sup := process.New(process.Options{Exclusive: !slices.Contains(options, shared)})
	h := &harness{out: t.TempDir(), sup: sup}
	o := Options{Starter: sup}
	if slices.Contains(options, shortLogs) {
		o.StreamBytes = 50_000
	}
	if !slices.Contains(options, withoutTasks) {
		h.tasks = tasks.New(tasks.Options{Dir: filepath.Join(t.TempDir(), "tasks")})
		o.Tasks = h.tasks
	}
	t.Cleanup(func() {
		if h.tasks != nil {
			if err := h.tasks.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	list, err := New(o)
	expect.NoError(t, err)
	if h.reg, err = tools.NewRegistry(list...); err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, dir := range []string{filepath.Join(h.out, "tools"), filepath.Join(tree, "sub")} {
		expect.NoError(t, os.Mkdir(dir, 0o700))
	}
	h.env = tools.Env{
		TurnID: "turn_1", SessionID: "sess_1", WorkDir: tree, LogDir: filepath.Join(h.out, "tools"),
		Environ: process.Environ(os.Environ()),
	}
	return h
}

func (h *harness) run(t testing.TB, args map[string]any) tools.Outcome {
	t.Helper()
	return h.call(t, t.Context(), execName, args)
}

func (h *harness) runCtx(t testing.TB, ctx context.Context, args map[string]any) tools.Outcome {
	t.Helper()
	return h.call(t, ctx, execName, args)
}

func (h *harness) call(t testing.TB, ctx context.Context, name string, args map[string]any) tools.Outcome {
	t.Helper()
	raw, err := json.Marshal(args)
	expect.NoError(t, err)
	h.n++
	o := h.reg.Run(ctx, h.env, tools.Call{ID: fmt.Sprintf("call_%d", h.n), Name: name, Arguments: raw})
	if o.Fault != nil {
		t.Fatalf("%v: %v", args, o.Fault)
	}
	return o
}

// result decodes the canonical result of a call that worked.
func result[T any](t testing.TB, o tools.Outcome) T {
	t.Helper()
	if o.Canonical.Error != nil {
		t.Fatalf("%+v", o.Canonical.Error)
	}
	v, ok := decoded[T](o.Canonical)
	if !ok {
		t.Fatalf("result %s", o.Canonical.Result)
	}
	return v
}

// refused checks the error of a call that names a field and a remedy. call says which call it was.
func refused(t *testing.T, call string, e *tools.Error, kind, field string) {
	t.Helper()
	switch {
	case e == nil:
		t.Errorf("%s succeeded, want an error of kind %s", call, kind)
	case e.Kind != kind:
		t.Errorf("%s: the error is of kind %q, want %q", call, e.Kind, kind)
	case e.Details["field"] != field:
		t.Errorf("%s: the error names the field %v, want %q", call, e.Details["field"], field)
	case e.RecoveryHint == "":
		t.Errorf("%s: the error has no hint", call)
	}
}
