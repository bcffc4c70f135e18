package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

func (r Rig) testLife(t *testing.T) {
	b := r.open(t)
	for _, code := range []int{0, 3, 255} {
		exit, _ := b.run(t, b.spec("exit", strconv.Itoa(code)))
		expect.Equal(t, "exit", exit, engine.Exit{Code: code})
	}

	h := b.create(t, b.spec("serve"))
	b.wantState(t, h, engine.StatusCreated)
	expect.NoError(t, b.Start(t.Context(), h))
	b.wantState(t, h, engine.StatusRunning)
	wantCode(t, b.Start(t.Context(), h), engine.CodeConflict)
	expect.NoError(t, b.Stop(t.Context(), h, patience))
	b.wantState(t, h, engine.StatusExited)
	wantCode(t, b.Start(t.Context(), h), engine.CodeConflict)

	info, err := b.Check(t.Context())
	if err != nil || info.Engine != b.Name() {
		t.Errorf("Check = %+v, %v, want engine %s", info, err, b.Name())
	}
}

// wantState fails unless the container has the status, and an exit if it has ended.
func (b *bench) wantState(t *testing.T, h engine.Handle, status engine.Status) {
	t.Helper()
	state := b.inspect(t, h)
	if ended := status == engine.StatusExited; state.Status != status || (state.Exit != nil) != ended {
		t.Errorf("status %s, exit %+v, want %s", state.Status, state.Exit, status)
	}
}

func (r Rig) testWait(t *testing.T) {
	b := r.open(t)
	h := b.create(t, b.spec("exit", "5"))
	type result struct {
		exit engine.Exit
		err  error
	}
	results := make(chan result, 3)
	for range cap(results) { // some before, some perhaps after the start
		go func() {
			exit, err := b.Wait(t.Context(), h)
			results <- result{exit, err}
		}()
	}
	expect.NoError(t, b.Start(t.Context(), h))
	for range cap(results) {
		if got := <-results; got.err != nil || got.exit.Code != 5 {
			t.Errorf("Wait = %+v, %v", got.exit, got.err)
		}
	}
	expect.Equal(t, "exit after the end", b.wait(t, h).Code, 5)

	ctx, cancel := context.WithCancel(t.Context())
	created := b.create(t, b.spec("serve"))
	go cancel()
	if _, err := b.Wait(ctx, created); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Wait = %v", err)
	}
}

func (r Rig) testStop(t *testing.T) {
	b := r.open(t)
	graceful := b.startReady(t, b.spec("serve"))
	expect.NoError(t, b.Stop(t.Context(), graceful, patience))
	b.wantGraceful(t, graceful)

	forced := b.startReady(t, b.spec("stubborn"))
	expect.NoError(t, b.Stop(t.Context(), forced, 0))
	expect.Equal(t, "forced exit", b.wait(t, forced), engine.Exit{Code: 137})

	removed := b.create(t, b.spec("serve"))
	expect.NoError(t, b.Remove(t.Context(), removed))
	for name, h := range map[string]engine.Handle{"exited": graceful, "created": b.create(t, b.spec("serve")),
		"removed": removed} {
		t.Log("stop one that is ", name)
		expect.NoError(t, b.Stop(t.Context(), h, 0))
	}
}

// wantGraceful fails unless the program ended as it does on SIGTERM.
func (b *bench) wantGraceful(t *testing.T, h engine.Handle) {
	t.Helper()
	if exit := b.wait(t, h); exit.Code != 7 || !strings.HasSuffix(b.logs(t, h), "bye\n") {
		t.Errorf("graceful exit = %+v, log %q", exit, b.logs(t, h))
	}
}

func (r Rig) testRemove(t *testing.T) {
	b := r.open(t)
	exited := b.start(t, b.spec("exit", "0"))
	b.wait(t, exited)
	for name, h := range map[string]engine.Handle{
		"created": b.create(t, b.spec("serve")), "running": b.startReady(t, b.spec("stubborn")), "exited": exited,
	} {
		for range 2 {
			t.Log("remove one that was ", name)
			expect.NoError(t, b.Remove(t.Context(), h))
		}
		_, err := b.Inspect(t.Context(), h)
		wantCode(t, err, engine.CodeNotFound)
		_, err = b.Wait(t.Context(), h)
		wantCode(t, err, engine.CodeNotFound)
		_, err = b.Logs(t.Context(), h, 1)
		wantCode(t, err, engine.CodeNotFound)
		wantCode(t, b.Start(t.Context(), h), engine.CodeNotFound)
	}

	// A name is free again, and an old handle does not mean the new program.
	old := b.create(t, b.spec("serve"))
	expect.NoError(t, b.Remove(t.Context(), old))
	spec := b.spec("serve")
	spec.Name = old.Name
	b.create(t, spec)
	_, err := b.Inspect(t.Context(), old)
	wantCode(t, err, engine.CodeNotFound)

	b.testRemoveWakes(t, b.create(t, b.spec("serve")))
	b.testRemoveWakes(t, b.startReady(t, b.spec("stubborn")))
}

func (b *bench) testRemoveWakes(t *testing.T, h engine.Handle) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		exit, err := b.Wait(ctx, h)
		if err == nil && exit.Code == 0 {
			err = errors.New("exit code 0 for a removed program")
		}
		waited <- err
	}()
	time.Sleep(50 * time.Millisecond) // most likely the waiter waits by now; either order must do
	expect.NoError(t, b.Remove(t.Context(), h))
	if err := <-waited; err != nil && !state.IsCode(err, engine.CodeNotFound) {
		t.Errorf("Wait during Remove = %v", err)
	}
}

func (r Rig) testList(t *testing.T) {
	b := r.open(t)
	run := b.spec("serve")
	run.Labels = map[string]string{"holon.enginetest": b.labels["holon.enginetest"], "kind": "a b=c,d"}
	running := b.startReady(t, run)
	created := b.create(t, b.spec("serve"))
	for _, test := range []struct {
		labels map[string]string
		want   []engine.Handle
	}{
		{b.labels, []engine.Handle{running, created}},
		{run.Labels, []engine.Handle{running}},
		{map[string]string{"holon.enginetest": b.labels["holon.enginetest"], "kind": "other"}, nil},
		{map[string]string{"holon.enginetest": "another"}, nil},
	} {
		found, err := b.List(t.Context(), test.labels)
		expect.NoError(t, err)
		for _, s := range found {
			if !slices.Contains(test.want, s.Handle) || s.CreatedAt.IsZero() {
				t.Errorf("List(%v) has %+v", test.labels, s)
			}
		}
		if len(found) != len(test.want) {
			t.Errorf("List(%v) = %d programs, want %d", test.labels, len(found), len(test.want))
		}
	}
	found, err := b.List(t.Context(), run.Labels)
	if err != nil || len(found) != 1 || found[0].Status != engine.StatusRunning ||
		found[0].Labels["kind"] != "a b=c,d" {
		t.Errorf("List = %+v, %v", found, err)
	}
	_, err = b.List(t.Context(), nil)
	wantCode(t, err, engine.CodeInvalidSpec)
}

// testRecover takes a stored handle up again with another instance of the
// engine, as a restarted host does.
func (r Rig) testRecover(t *testing.T) {
	b := r.open(t)
	stored, err := json.Marshal(b.startReady(t, b.spec("serve")))
	expect.NoError(t, err)
	second := &bench{Engine: r.New(t), rig: r, labels: b.labels}
	defer func() { expect.NoError(t, second.Close()) }()
	var h engine.Handle
	expect.NoError(t, json.Unmarshal(stored, &h))
	if state := second.inspect(t, h); state.Status != engine.StatusRunning || state.Labels["holon.enginetest"] == "" {
		t.Errorf("recovered state = %+v", state)
	}
	expect.Contains(t, "logs", second.logs(t, h), "ready")
	if found, err := second.List(t.Context(), b.labels); err != nil || len(found) != 1 || found[0].Handle != h {
		t.Errorf("List = %v, %v", found, err)
	}
	expect.NoError(t, second.Stop(t.Context(), h, patience))
	expect.Equal(t, "exit", b.wait(t, h).Code, 7)
	expect.NoError(t, second.Remove(t.Context(), h))
	_, err = second.Inspect(t.Context(), h)
	wantCode(t, err, engine.CodeNotFound)
}

func (r Rig) testLogs(t *testing.T) {
	b := r.open(t)
	const size = 500_005
	h := b.start(t, b.spec("print", strconv.Itoa(size)))
	b.wait(t, h)
	for _, limit := range []int64{0, 1, 4, 1000, 64 << 10} {
		logs, err := b.Logs(t.Context(), h, limit)
		if err != nil || int64(len(logs)) != limit {
			t.Fatalf("Logs(%d) = %d bytes, %v", limit, len(logs), err)
		}
	}
	// The order within a stream is kept, the order between the two is not. The last
	// line on stdout starts at 500000 and is cut after five characters.
	logs := b.logs(t, h)
	if stdout := strings.Replace(logs, "done", "", 1); len(stdout) != len(logs)-4 ||
		!strings.HasSuffix(stdout, "000499980\n000499990\n00050") {
		t.Errorf("end of the log = %q", logs[max(0, len(logs)-40):])
	}
}
