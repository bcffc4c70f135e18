package oneshot

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/sessions"
	"holon/state"
	"holon/state/files"
)

// Engines opens the engine of a name, or returns one that is open. nil without
// an error is an engine that was never used here and holds nothing.
type Engines func(name string) (engine.Engine, error)

// What View.Container can say.
const (
	containerRunning = "running"
	containerExited  = "exited"
	containerGone    = "gone"
	containerUnknown = "unknown" // the engine does not answer
)

// View is a run as it stands: what its files say, and for one that holds
// something, what the engine says of its container. Keys that a state.Manifest has too mean the same there.
type View struct {
	ID          string         `json:"run_id"`
	Parent      string         `json:"parent_run_id"`
	Name        string         `json:"name"`
	Task        string         `json:"task"`         // first line of the prompt, shortened; "" where nothing says it
	Status      state.Status   `json:"status"`       // an end, or running, orphaned, interrupted
	Outcome     *state.Outcome `json:"outcome"`      // null before the end
	ExitCode    *int           `json:"exit_code"`    // null before the end
	StartedAt   turns.Time     `json:"started_at"`   // null where nothing says it
	CompletedAt turns.Time     `json:"completed_at"` // null before the end
	Model       string         `json:"model"`
	Usage       *turns.Usage   `json:"usage"`       // null before the end
	ModelUsage  *state.Account `json:"model_usage"` // null before the end
	Engine      struct {
		Name string `json:"name"`
	} `json:"engine"` // as far as it is known from the beginning of a run, as Workspace
	Workspace struct {
		Path string `json:"path"`
	} `json:"workspace"`
	Container string     `json:"container"` // "" where the run holds none
	SeenAt    turns.Time `json:"seen_at"`   // the last sign of life of its holon
	OutputDir string     `json:"output_dir"`
	Problem   string     `json:"problem"`  // what of it can't be read
	Attempts  []View     `json:"attempts"` // of a run that makes several, by number; else empty

	record *sessions.Record
}

// Inventory lists the runs of a home, the newest first. It takes no lease, starts
// nothing and writes nothing.
func Inventory(ctx context.Context, home state.Home, engines Engines) ([]View, error) {
	entries, err := files.New(home).List(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(entries))
	containers := map[string]func(string) string{}
	for _, e := range entries {
		v := view(e)
		if v.record != nil && containers[v.record.Engine] == nil {
			containers[v.record.Engine] = containersOf(ctx, home, engines, v.record.Engine)
		}
		views = append(views, v.complete(ctx, home, e, func(name string) func(string) string { return containers[name] }))
	}
	return views, nil
}

// Look is Inventory for one run.
func Look(ctx context.Context, home state.Home, engines Engines, e *files.Entry) (View, error) {
	v := view(e).complete(ctx, home, e, func(name string) func(string) string {
		return containersOf(ctx, home, engines, name)
	})
	return v, ctx.Err()
}

// complete adds what stands outside the files of the run itself: its container and its attempts.
func (v View) complete(ctx context.Context, home state.Home, e *files.Entry,
	containers func(engine string) func(id string) string) View {
	m := e.Manifest
	if v.record != nil {
		v.Container = containers(v.record.Engine)(v.ID)
		m = cmp.Or(m, v.record.Manifest)
	}
	v.Attempts = []View{}
	if m == nil {
		return v
	}
	for _, a := range m.Attempts {
		e, err := files.New(home).Open(ctx, a.RunID)
		if err != nil { // it has not begun, or never did
			v.Attempts = append(v.Attempts, View{ID: a.RunID, Status: a.Status, Model: a.Model, Attempts: []View{}})
			continue
		}
		part := view(e)
		part.Attempts = []View{}
		if part.record != nil {
			part.Container = containers(part.record.Engine)(part.ID)
		}
		v.Attempts = append(v.Attempts, part)
	}
	return v
}

// Working reports whether a run without an end has a container that runs.
func (v View) Working() bool { return v.Outcome == nil && v.Container == containerRunning }

// view reads what the files of a run say.
func view(e *files.Entry) View {
	v := View{ID: e.ID, Status: e.Status(), SeenAt: turns.At(e.Seen), OutputDir: e.OutputDir()}
	if e.Problem != nil {
		v.Problem = visible.OneLine(e.Problem.Error(), 300)
	}
	if s := e.Start; s != nil {
		v.Name, v.StartedAt, v.Workspace.Path = s.Name, s.CreatedAt, s.Source
	}
	rec, err := sessions.ReadRun(e.Dir)
	switch {
	case err == nil:
		v.record, v.Model, v.Engine.Name = rec, rec.Manifest.Model, rec.Engine
		v.Task, v.Parent = rec.Manifest.Task, rec.Manifest.ParentRunID
	case !errors.Is(err, fs.ErrNotExist):
		v.Problem = visible.OneLine(err.Error(), 300)
	}
	if !e.Live && e.Manifest == nil && err == nil {
		v.Status = state.StatusOrphaned
	}
	if m := e.Manifest; m != nil {
		v.Task, v.Parent = m.Task, m.ParentRunID
		v.Model, v.Engine.Name, v.Usage, v.ModelUsage = m.Model, m.Engine.Name, m.Usage, m.ModelUsage
		v.CompletedAt, v.Outcome, v.ExitCode = m.CompletedAt, &m.Outcome, &m.ExitCode
	}
	return v
}

// containersOf returns what an engine says of the container of each run.
func containersOf(ctx context.Context, home state.Home, engines Engines, name string) func(id string) string {
	missing, states := containerGone, map[string]string{}
	var list []engine.Summary
	eng, err := engines(name)
	if err == nil && eng != nil {
		list, err = eng.List(ctx, map[string]string{runner.LabelHome: home.Dir()})
	}
	if err != nil {
		missing = containerUnknown
	}
	for _, c := range list {
		if c.Labels[runner.LabelService] != "" {
			continue
		}
		now := containerExited
		if c.Status == engine.StatusRunning || c.Status == engine.StatusPaused {
			now = containerRunning
		}
		// it is that of the whole, too
		for id, part := c.Labels[runner.LabelRun], "-"; part != ""; id, part = state.WholeOf(id) {
			if states[id] != containerRunning {
				states[id] = now
			}
		}
	}
	return func(id string) string { return cmp.Or(states[id], missing) }
}
