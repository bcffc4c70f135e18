package runner

import (
	"context"
	"errors"
	"io"
	"testing"

	"holon/runner/engine"
	"holon/test/expect"
)

// unstarted is an engine whose container was not started, so that it may not even have all files.
type unstarted struct {
	engine.Engine
	engine.Linker
	removed *bool
}

func (unstarted) Name() string { return "docker" }

func (unstarted) Read(context.Context, engine.Handle, string) (io.ReadCloser, error) {
	return nil, errors.New("its files are read")
}

func (u unstarted) Remove(context.Context, engine.Handle) error {
	*u.removed = true
	return nil
}

// Nothing is taken from a container that was not started: what it lacks, or has in part, is what was on its way to it when
// its process was killed.
func TestBuryUnstarted(t *testing.T) {
	removed := false
	s := &Session{cfg: Config{Engine: unstarted{removed: &removed}, Files: Files{AgentHome: t.TempDir()}}, created: true,
		handle: engine.Handle{Link: engine.LinkStream}, mounts: []engine.Mount{{Source: t.TempDir(), Target: agentHomePath}}}
	expect.NoError(t, s.bury(t.Context(), &engine.State{Status: engine.StatusCreated}))
	expect.Equal(t, "removed", removed, true)
}
