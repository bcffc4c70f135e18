package enginetest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holon/runner/engine"
	"holon/test/expect"
)

func (r Rig) testProgram(t *testing.T) {
	b := r.open(t)
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "in"), []byte("hello"), 0o644))
	target := "/data/with space,and=comma:colon"
	if r.Pods {
		target = strings.ReplaceAll(target, ":", ";")
	}
	mounts := []engine.Mount{{Source: dir, Target: target}}
	spec := b.spec("cat", b.Path(mounts, mounts[0].Target+"/in"))
	spec.Mounts = mounts
	if exit, out := b.run(t, spec); exit.Code != 0 || out != "hello" {
		t.Errorf("cat = %+v %q", exit, out)
	}

	spec = b.spec("report")
	spec.Env = []string{"EMPTY=", "TEXT=a b=c\nd"}
	report := b.report(t, spec)
	if !slices.Contains(report.Env, "EMPTY=") || !slices.Contains(report.Env, "TEXT=a b=c\nd") ||
		report.WorkDir != "/" {
		t.Errorf("env %q, working directory %q", report.Env, report.WorkDir)
	}
	if report.UID != os.Getuid() || report.GID != os.Getgid() {
		t.Errorf("user = %d:%d, want the caller's", report.UID, report.GID)
	}
	if os.Getuid() == 0 {
		spec = b.spec("report")
		spec.User = &engine.User{UID: 12345, GID: 23456}
		report := b.report(t, spec)
		if report.UID != 12345 || report.GID != 23456 || slices.ContainsFunc(report.Groups, func(g int) bool {
			return g != 23456
		}) {
			t.Errorf("user = %d:%d %v, want 12345:23456 alone", report.UID, report.GID, report.Groups)
		}
	}

	missing := b.spec()
	missing.Args = []string{"/does/not/exist"}
	h := b.create(t, missing)
	wantCode(t, b.Start(t.Context(), h), engine.CodeCannotRun)
	expect.NoError(t, b.Remove(t.Context(), h))
}

func (r Rig) testRefusals(t *testing.T) {
	b := r.open(t)
	dir := t.TempDir()
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	expect.NoError(t, errors.Join(os.Symlink("/", link), unix.Mkfifo(fifo, 0o600)))
	mount := func(source, target string) func(*engine.Spec) {
		return func(s *engine.Spec) { s.Mounts = []engine.Mount{{Source: source, Target: target}} }
	}
	for name, test := range map[string]struct {
		change func(*engine.Spec)
		code   engine.Code
		param  string
	}{
		"no name":          {func(s *engine.Spec) { s.Name = "" }, engine.CodeInvalidSpec, "name"},
		"name with a path": {func(s *engine.Spec) { s.Name = "../x" }, engine.CodeInvalidSpec, "name"},
		"no program":       {func(s *engine.Spec) { s.Args = nil }, engine.CodeInvalidSpec, "args"},
		"env without =":    {func(s *engine.Spec) { s.Env = []string{"KEY"} }, engine.CodeInvalidSpec, "env"},
		"negative user":    {func(s *engine.Spec) { s.User = &engine.User{UID: -1} }, engine.CodeInvalidSpec, "user"},
		"little memory":    {func(s *engine.Spec) { s.Memory = 1 << 20 }, engine.CodeResourceLimit, "memory"},
		"negative memory":  {func(s *engine.Spec) { s.Memory = -5 }, engine.CodeResourceLimit, "memory"},
		"little cpu":       {func(s *engine.Spec) { s.NanoCPUs = 1 }, engine.CodeResourceLimit, "cpus"},
		"bad network":      {func(s *engine.Spec) { s.Network = "a b" }, engine.CodeInvalidSpec, "network"},
		"no source":        {mount(filepath.Join(dir, "missing"), "/data"), engine.CodeInvalidSpec, "mounts"},
		"relative source":  {mount("data", "/data"), engine.CodeInvalidSpec, "mounts"},
		"link as source":   {mount(link, "/data"), engine.CodeInvalidSpec, "mounts"},
		"pipe as source":   {mount(fifo, "/data"), engine.CodeInvalidSpec, "mounts"},
		"device as source": {mount("/dev/null", "/data"), engine.CodeInvalidSpec, "mounts"},
		"mount over /":     {mount(dir, "/"), engine.CodeInvalidSpec, "mounts"},
		"mount over /proc": {mount(dir, "/proc/sys"), engine.CodeInvalidSpec, "mounts"},
		"unclean target":   {mount(dir, "/data/../proc"), engine.CodeInvalidSpec, "mounts"},
		"two at one target": {func(s *engine.Spec) {
			s.Mounts = []engine.Mount{{Source: dir, Target: "/a"}, {Source: dir, Target: "/a"}}
		}, engine.CodeInvalidSpec, "mounts"},
	} {
		spec := b.spec("exit", "0")
		test.change(&spec)
		_, err := b.Create(t.Context(), spec)
		typed, ok := errors.AsType[*engine.Error](err)
		if !ok || typed.Code != test.code || typed.Param != test.param || typed.Hint == "" ||
			strings.Contains(typed.Error(), "\n") {
			t.Errorf("%s: error = %#v, want code %s, param %s and a hint", name, err, test.code, test.param)
		}
	}

	h := b.create(t, b.spec("serve"))
	twin := b.spec("serve")
	twin.Name = h.Name
	_, err := b.Create(t.Context(), twin)
	wantCode(t, err, engine.CodeConflict)
	b.inspect(t, h) // the first is as it was
}

func (r Rig) testConcurrency(t *testing.T) {
	b := r.open(t)
	const n = 8
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			h, err := b.Create(t.Context(), b.spec("exit", strconv.Itoa(i)))
			if err == nil {
				err = b.Start(t.Context(), h)
			}
			var exit engine.Exit
			if err == nil {
				exit, err = b.Wait(t.Context(), h)
			}
			if err != nil || exit.Code != i {
				t.Errorf("program %d: %+v, %v", i, exit, err)
			}
		})
	}
	group.Wait()

	same := b.spec("serve")
	won := make(chan engine.Handle, n)
	for range n {
		group.Go(func() {
			h, err := b.Create(t.Context(), same)
			if err == nil {
				won <- h
			} else {
				wantCode(t, err, engine.CodeConflict)
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		t.Fatalf("%d of %d creates with one name won", len(won), n)
	}
	h := <-won
	b.inspect(t, h)
	for range n { // all succeed, and it is gone when the first returns
		group.Go(func() {
			if err := b.Remove(t.Context(), h); err != nil {
				t.Errorf("Remove: %v", err)
			}
			_, err := b.Inspect(t.Context(), h)
			wantCode(t, err, engine.CodeNotFound)
		})
	}
	group.Wait()
}

// testCancel cuts creates off at many moments. What is there afterwards is
// exactly what was handed out.
func (r Rig) testCancel(t *testing.T) {
	b := r.open(t)
	handed := map[engine.Handle]bool{}
	step := cmp.Or(r.CreateTime, 15*time.Millisecond) / 30
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*step)
		h, err := b.Create(ctx, b.spec("serve"))
		cancel()
		switch {
		case err == nil:
			handed[h] = true
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("cancelled Create = %v", err)
		}
	}
	found, err := b.List(t.Context(), b.labels)
	expect.NoError(t, err)
	for _, s := range found {
		if !handed[s.Handle] {
			t.Errorf("a cancelled Create left %s", s.Handle.Name)
		}
	}
	if len(found) != len(handed) {
		t.Errorf("%d programs, %d were handed out", len(found), len(handed))
	}
}
