package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/state"
)

// Last is the word for the last run of a workspace.
const Last = "last"

// Find returns the run that a person means: Last, the name of one, an id, or the beginning of one with or without
// "run_". Last is the newest run of the workspace that dir lies in. So is a name that several runs have; where none of
// them is of that workspace, it has to be an id. Errors are *state.Error (CodeInvalidRunID, CodeRunNotFound,
// CodeRunAmbiguous) and name runs that could be meant.
func (r *Runs) Find(ctx context.Context, ref, dir string) (*Entry, error) {
	if ref != Last && state.CheckRunID(ref) == nil {
		if entry, err := r.Open(ctx, ref); !state.IsCode(err, state.CodeRunNotFound) {
			return entry, err
		}
	}
	runs, err := r.starts(ctx)
	if err != nil {
		return nil, err
	}
	found, err := find(runs, ref, dir)
	if err != nil {
		return nil, err
	}
	return r.Open(ctx, found.ID)
}

// LastThat returns the newest run that fits, of the workspace that dir lies in, or its newest one where none does.
func (r *Runs) LastThat(ctx context.Context, dir string, fits func(*Entry) bool) (*Entry, error) {
	runs, err := r.starts(ctx)
	if err != nil {
		return nil, err
	}
	here, err := ofWorkspace(runs, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range here {
		entry, err := r.Open(ctx, e.ID)
		if state.IsCode(err, state.CodeRunNotFound) {
			continue // it was removed meanwhile
		}
		if err != nil || fits(entry) {
			return entry, err
		}
	}
	return r.Open(ctx, here[0].ID)
}

// starts returns the runs with nothing of them but what run.json says, the newest first.
func (r *Runs) starts(ctx context.Context) ([]*Entry, error) {
	return r.each(ctx, func(id, dir string) (*Entry, error) {
		d, err := openRun(id, dir)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		e := &Entry{ID: id, Dir: dir}
		e.Start, _ = readStart(d) // one that is not there has no name and no workspace
		return e, nil
	})
}

func find(runs []*Entry, ref, dir string) (*Entry, error) {
	if ref == Last {
		here, err := ofWorkspace(runs, dir)
		if err != nil {
			return nil, err
		}
		return here[0], nil
	}
	if named := slices.DeleteFunc(slices.Clone(runs), func(e *Entry) bool {
		return ref == "" || e.Start == nil || e.Start.Name != ref
	}); len(named) == 1 {
		return named[0], nil
	} else if len(named) > 1 {
		if here, err := ofWorkspace(named, dir); err == nil {
			return here[0], nil
		}
		return nil, ambiguous(named, "%q is the name of %d runs", ref)
	}
	return begins(runs, ref)
}

// ofWorkspace returns those of runs, in their order, that are of the workspace that dir lies in, of which there is at
// least one: of the repository, or of the nearest directory around it with a run. A repository within the workspace of
// a run is another workspace.
func ofWorkspace(runs []*Entry, dir string) (here []*Entry, _ error) {
	if len(runs) == 0 {
		return nil, notFound(Last, "there are no runs yet; start one with holon run")
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, e := range runs {
			if e.Start != nil && e.Start.Source == at {
				here = append(here, e)
			}
		}
		if len(here) > 0 {
			return here, nil
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil || at == filepath.Dir(at) {
			break
		}
	}
	e := notFound(Last, fmt.Sprintf("the newest run of all is %s; holon ps --all lists them", runs[0].about()))
	e.Message = fmt.Sprintf("there is no run of this workspace, %.200q", dir)
	return nil, e
}

// about is the id of a run and its workspace.
func (e *Entry) about() string {
	if e.Start == nil || e.Start.Source == "" {
		return e.ID
	}
	return fmt.Sprintf("%s, of %.200q", e.ID, e.Start.Source)
}

// begins returns the run whose id begins with ref.
func begins(runs []*Entry, ref string) (*Entry, error) {
	prefix := ref
	if !strings.HasPrefix(ref, "run_") {
		prefix = "run_" + ref
	}
	if ref == "" || prefix != "run_" && state.CheckRunID(prefix) != nil {
		return nil, &state.Error{Code: state.CodeInvalidRunID, Param: "run",
			Message: fmt.Sprintf("%.80q is neither the id nor the name of a run", ref),
			Hint:    "give an id, the beginning of one, a name, or 'last'; holon ps --all lists them"}
	}
	matches := slices.DeleteFunc(slices.Clone(runs), func(e *Entry) bool { return !strings.HasPrefix(e.ID, prefix) })
	switch len(matches) {
	case 0:
		if len(runs) == 0 {
			return nil, notFound(ref, "there are no runs yet; start one with holon run")
		}
		return nil, notFound(ref, "there are "+few(runs))
	case 1:
		return matches[0], nil
	}
	return nil, ambiguous(matches, "%q begins the ids of %d runs", ref)
}

const listRuns = "holon ps --all lists the runs"

func notFound(ref, hint string) *state.Error {
	return &state.Error{Code: state.CodeRunNotFound, Param: "run", Message: fmt.Sprintf("there is no run %.80q", ref),
		Hint: hint}
}

func ambiguous(matches []*Entry, format, ref string) error {
	return &state.Error{Code: state.CodeRunAmbiguous, Param: "run", Message: fmt.Sprintf(format, ref, len(matches)),
		Hint: "give one by its id: " + few(matches)}
}

// few names some of runs.
func few(runs []*Entry) string {
	const shown = 3
	var ids []string
	for _, e := range runs[:min(len(runs), shown)] {
		ids = append(ids, e.ID)
	}
	if len(runs) > shown {
		ids = append(ids, "…")
	}
	return strings.Join(ids, ", ")
}
