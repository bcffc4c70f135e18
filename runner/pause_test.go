package runner

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"holon/responses/client"
	"holon/runner/engine"
)

// A container that answers no more has no number of tasks.
func TestTasksOfTheDead(t *testing.T) {
	s := &Session{client: client.Unix(filepath.Join(t.TempDir(), "none.sock"))}
	if n, err := s.Tasks(t.Context()); n != 0 || err == nil {
		t.Errorf("Tasks() = %d, %v, want 0 and an error", n, err)
	}
}

// pausing is an engine that notes what is paused and resumed.
type pausing struct {
	engine.Engine
	calls string
	fails error // of Pause
}

func (p *pausing) Pause(context.Context, engine.Handle) error {
	p.calls += "pause "
	return p.fails
}

func (p *pausing) Resume(ctx context.Context, _ engine.Handle) error {
	p.calls += "resume "
	return ctx.Err()
}

// A container is held still for what is done then, and goes on afterwards, unless it was paused before.
func TestStill(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		made, paused bool
		pause, fn    error
		calls        string
		want         error
	}{
		"it runs":               {made: true, calls: "pause done resume "},
		"what is done fails":    {made: true, fn: broken, calls: "pause done resume ", want: broken},
		"it may have paused":    {made: true, pause: broken, calls: "pause resume ", want: broken},
		"it has ended":          {made: true, pause: &engine.Error{Code: engine.CodeConflict}, calls: "pause done "},
		"it is gone":            {made: true, pause: &engine.Error{Code: engine.CodeNotFound}, calls: "pause done "},
		"it was paused already": {made: true, paused: true, calls: "done "},
		"there is none":         {calls: "done "},
	} {
		e := &pausing{fails: c.pause}
		s := &Session{cfg: Config{Engine: e}, created: c.made, paused: c.paused}
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Still(ctx, func(context.Context) error {
			e.calls += "done "
			cancel() // it goes on all the same
			return c.fn
		})
		cancel()
		if e.calls != c.calls || !errors.Is(err, c.want) || s.paused != c.paused {
			t.Errorf("%s: %q, %v, paused %t, want %q, %v", name, e.calls, err, s.paused, c.calls, c.want)
		}
	}
}
