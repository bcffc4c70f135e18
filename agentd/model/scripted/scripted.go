// Package scripted is a model that plays a scenario file, which contains its answers,
// its calls of tools, and its expectations of the conversation. It is for tests, CI
// and demonstrations; docs/reference/scripted-model.md describes the file.
//
//	scenario file ─▶ parse, check ─┐
//	history of the request ────────┴▶ locate the round ─▶ match ─▶ play
//
// The invariant: the output depends on the scenario and the request alone. The
// transport stores no position in a scenario; it finds the position by replaying
// the conversation so far. So a restart, a retry or a previous_response_id changes
// nothing, and the same request gives the same events. Their timing is not promised.
package scripted

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"holon/agentd/model"
	"holon/internal/scenario"
	"holon/responses"
)

// Options list the directories of scenario files.
type Options struct {
	// Dirs are searched, in order, for scripted/<file>. An absolute <file> must
	// lie in one of them.
	Dirs []string
	// Files are absolute paths outside of Dirs that may be played, because the
	// operator and not a request named them.
	Files []string
	// Host is the file that is played under any name that is not built in, as long as it is there: the host that
	// runs this program puts it there, and knows it by a path of its own. "" for none.
	Host string
}

// Transport plays scenarios. It is safe for concurrent use.
type Transport struct {
	dirs    []string
	files   []string
	host    string
	builtin map[string]*scenario.Scenario
}

// New returns the transport. Relative directories are taken relative to the
// present working directory, once.
func New(opts Options) (*Transport, error) {
	t := &Transport{host: opts.Host, builtin: make(map[string]*scenario.Scenario)}
	for _, dir := range opts.Dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("find scenario directory %q: %w", dir, err)
		}
		if !slices.Contains(t.dirs, abs) {
			t.dirs = append(t.dirs, abs)
		}
	}
	for _, file := range opts.Files {
		if !filepath.IsAbs(file) {
			return nil, fmt.Errorf("scenario file %q: the path is not absolute", file)
		}
		t.files = append(t.files, filepath.Clean(file))
	}
	for name, data := range embedded() {
		sc, err := scenario.Parse(name, data)
		if err != nil {
			return nil, fmt.Errorf("read built-in scenario %q: %w", name, err)
		}
		t.builtin[name] = sc
	}
	return t, nil
}

// Stream implements model.Transport. req.Model is the scenario: the name of a
// built-in one or a file.
func (t *Transport) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		pos, err := t.locate(req)
		if err == nil {
			p := &player{ctx: ctx, yield: yield, req: req, pos: pos, view: pos.view.texts(pos.number)}
			err = p.play()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(model.Event{}, err)
		}
	}
}

// locate finds the round that answers req and checks what it expects.
func (t *Transport) locate(req model.Request) (*position, error) {
	sc, err := t.load(req.Model)
	if err != nil {
		e := responses.AsError(err)
		return nil, &model.Error{Kind: model.KindScenario, Code: e.Code, Message: e.Error(), Err: err}
	}
	if req.Purpose == model.PurposeSummary {
		return summarize(sc, req.Input), nil
	}
	pos, err := locate(sc, req.Input)
	if err != nil {
		return nil, err
	}
	if why := mismatch(pos.step.Expect, pos.view); why != "" {
		return nil, pos.diverged(why)
	}
	return pos, nil
}

// Check reports whether the scenario exists and is valid. The error is a
// *responses.Error with code scenario_not_found or scenario_invalid.
func (t *Transport) Check(name string) error {
	_, err := t.load(name)
	return err
}

// Capabilities says what models take: a scenario accepts any content.
func (t *Transport) Capabilities(string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true, Video: true, CacheKey: true}
}

// Models returns the names of the built-in scenarios.
func (t *Transport) Models() []string {
	return slices.Sorted(maps.Keys(t.builtin))
}

// diverged returns the error of a conversation that differs from the scenario.
func (p *position) diverged(why string) *model.Error {
	label := fmt.Sprintf("round %d", p.number)
	if p.round != nil && p.round.ID != "" {
		label += fmt.Sprintf(" (%s)", p.round.ID)
	}
	return &model.Error{
		Kind: model.KindScenario, Code: responses.CodeScenarioDiverged,
		Message: fmt.Sprintf("scenario %s, turn %d, %s: %s", p.scenario.File, p.turn, label, why),
	}
}
