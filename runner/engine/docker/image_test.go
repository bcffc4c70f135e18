package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

// Labels and variables of an image never override ours, and an image that declares
// a volume is refused.
func TestHostileImage(t *testing.T) {
	e := connect(t)
	base := suiteImage(t, e)
	hostile := commit(t, e, base, `LABEL holon.role=agent holon.run=run_other holon.agent=agent_other `+
		`holon.more=x other=kept`,
		`ENV HOLON_MODEL=scripted/evil HOLON_TOKEN=x KEPT=1`)
	h, err := e.Create(t.Context(), engine.Spec{Name: "holon-" + tag(), Image: hostile, Args: []string{"/probe"},
		Env: []string{"HOLON_TOKEN=ours"}, Labels: map[string]string{"holon.run": "run_ours"}})
	expect.NoError(t, err)
	defer remove(t, e, h)
	made, err := e.api.ContainerInspect(t.Context(), h.ID)
	expect.NoError(t, err)
	want := map[string]string{"holon.role": "", "holon.run": "run_ours", "holon.agent": "", "holon.more": "",
		"other": "kept"}
	for key, value := range want {
		if got := made.Config.Labels[key]; got != value {
			t.Errorf("label %s = %q, want %q", key, got, value)
		}
	}
	env := strings.Join(made.Config.Env, "\n")
	switch {
	case strings.Contains(env, "HOLON_MODEL="):
		t.Errorf(`env = %q, want it without "HOLON_MODEL="`, env)
	case !strings.Contains(env, "HOLON_TOKEN=ours"):
		t.Errorf(`env = %q, want it to contain "HOLON_TOKEN=ours"`, env)
	case !strings.Contains(env, "KEPT=1"):
		t.Errorf(`env = %q, want it to contain "KEPT=1"`, env)
	}

	volumes := commit(t, e, base, `VOLUME /data /tmp`)
	spec := engine.Spec{Name: "holon-" + tag(), Image: volumes, Args: []string{"/probe"}}
	_, err = e.Create(t.Context(), spec)
	switch {
	case !state.IsCode(err, engine.CodeInvalidSpec):
		t.Errorf("Create with an open volume: err = %v, want the code %q", err, engine.CodeInvalidSpec)
	case !strings.Contains(err.Error(), "/data"):
		t.Errorf(`Create with an open volume: err.Error() = %q, want it to contain "/data"`, err.Error())
	case strings.Contains(err.Error(), "/tmp"):
		t.Errorf(`Create with an open volume: err.Error() = %q, want it without "/tmp"`, err.Error())
	}
	spec.Mounts = []engine.Mount{{Source: t.TempDir(), Target: "/data"}}
	covered, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create with every volume covered: %v", err)
	}
	remove(t, e, covered)
}

func TestImageNames(t *testing.T) {
	e := connect(t)
	for _, name := range []string{"", "../containers/x", "a b", "a?force=1", "-x", "UPPER", "a\nb",
		strings.Repeat("x", 5000)} {
		_, err := e.Create(t.Context(), engine.Spec{Name: "holon-" + tag(), Image: name, Args: []string{"/probe"}})
		if !state.IsCode(err, engine.CodeInvalidSpec) {
			t.Errorf("Create with image %.40q: %v, want %s", name, err, engine.CodeInvalidSpec)
		}
	}
}

// List finds the containers that were made with the same register and no others,
// even if those have the same labels.
func TestForeignContainer(t *testing.T) {
	dir := t.TempDir()
	plain := connect(t)
	e := &Engine{api: plain.api, register: register{dir}}
	img := suiteImage(t, e)
	labels := map[string]string{"holon.home": dir, "holon.run": "run_1"}
	ours, err := e.Create(t.Context(), engine.Spec{Name: "holon-" + tag(), Image: img, Args: []string{"/probe"},
		Labels: labels})
	expect.NoError(t, err)
	made, err := plain.api.ContainerInspect(t.Context(), ours.ID)
	expect.NoError(t, err)
	// An image can repeat every label of our container, including its nonce.
	foreign, err := plain.api.ContainerCreate(t.Context(), &container.Config{Image: img, Labels: made.Config.Labels},
		nil, nil, nil, "holon-"+tag())
	expect.NoError(t, err)
	defer remove(t, plain, engine.Handle{Version: engine.HandleVersion, Engine: name, ID: foreign.ID, Name: "foreign"})

	only := func(when string) {
		t.Helper()
		found, err := e.List(t.Context(), labels)
		if err != nil || len(found) != 1 || found[0].Handle.ID != ours.ID {
			t.Errorf("%s: List = %+v, %v, want %s alone", when, found, err, ours.ID)
		}
	}
	only("with the id noted")
	nonce := made.Config.Labels[createLabel]
	remove(t, plain, engine.Handle{Version: engine.HandleVersion, Engine: name, ID: foreign.ID, Name: "foreign"})
	expect.NoError(t, os.Rename(filepath.Join(dir, ours.ID), filepath.Join(dir, nonce)))
	only("when its maker died before it noted the id")
	remove(t, e, ours)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the register holds %v, %v after Remove, want nothing", left, err)
	}
}

// commit makes an image from base with the given instructions.
func commit(t *testing.T, e *Engine, base string, changes ...string) string {
	t.Helper()
	made, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: base}, nil, nil, nil, "")
	expect.NoError(t, err)
	defer remove(t, e, engine.Handle{Version: engine.HandleVersion, Engine: name, ID: made.ID, Name: made.ID})
	ref := "holon-enginetest:" + tag()
	if _, err := e.api.ContainerCommit(t.Context(), made.ID,
		container.CommitOptions{Reference: ref, Changes: changes}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := afterTest()
		defer cancel()
		if _, err := e.api.ImageRemove(ctx, ref, image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	return ref
}

func remove(t *testing.T, e *Engine, h engine.Handle) {
	t.Helper()
	if err := e.Remove(t.Context(), h); err != nil {
		t.Errorf("remove %s: %v", h.Name, err)
	}
}
