package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"holon/responses/turns"
	"holon/runner"
	"holon/runner/oneshot"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
)

// storyPoll is how often the records of a run that goes on are looked at, enginePoll how often its engine is asked.
const (
	storyPoll  = 200 * time.Millisecond
	enginePoll = 2 * time.Second
)

// goesOn reports whether a run goes on: a holon holds it, or its container works on its turn without one. A turn that
// has not begun does not begin without a holon: that is asked twice, since the holon may have been killed while it
// began.
func (l *lifecycle) goesOn(ctx context.Context, id string) func() bool {
	var asked time.Time
	works, before := false, false
	return func() bool {
		e, err := files.New(l.home).Open(ctx, id)
		if ctx.Err() != nil || err != nil || e.Manifest != nil || e.Live {
			return ctx.Err() == nil && err == nil && e.Manifest == nil
		}
		if time.Since(asked) < enginePoll {
			return works
		}
		asked = time.Now()
		v, err := oneshot.Look(ctx, l.home, l.engine, e)
		works = err == nil && v.Working() && (!before || hasTurn(e))
		before = true
		return works
	}
}

func hasTurn(e *files.Entry) bool {
	turn, err := oneshot.OpenTurn(e)
	if err == nil {
		turn.Close()
	}
	return err == nil
}

// awaitTurn opens the files of a run's turn, once there are some.
func (l *lifecycle) awaitTurn(ctx context.Context, id string, more func() bool) (*turnfiles.Files, error) {
	for {
		last := !more() // asked before looking: what is there until then is found
		e, err := files.New(l.home).Open(ctx, id)
		if err != nil {
			return nil, err
		}
		turn, err := oneshot.OpenTurn(e)
		switch {
		case err == nil:
			return turn, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case e.Manifest != nil && e.Manifest.Turn == nil:
			return nil, noTurn("run "+id+" ended before its turn began", "see why: holon show "+id)
		case last && e.Manifest == nil && !e.Live && state.IsCode(err, oneshot.CodeNoTurn):
			return nil, noTurn("the holon of run "+id+" was killed before its turn began",
				"collect what there is with: holon attach "+id)
		case last || !state.IsCode(err, oneshot.CodeNoTurn):
			return nil, err
		}
		wait(ctx, storyPoll)
	}
}

func noTurn(message, hint string) error {
	return &runner.Error{Code: oneshot.CodeNoTurn, Param: "RUN", Message: message, Hint: hint}
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// showStory prints what a run did, as long as more says so, then its answer, and the error that ended it.
func (l *lifecycle) showStory(ctx context.Context, turn *turnfiles.Files, id string, more func() bool,
	output bool) error {
	out := l.streams
	out.Err, out.ErrTTY, out.ErrWidth = out.Out, false, out.Width // without a status line
	view := newProgress(out, false)
	view.wraps = out.OutTTY
	defer view.end()
	s := &story{lifecycle: l, turn: turn, view: view, output: output}
	if err := s.follow(ctx, more); err != nil {
		return err
	}
	if err := s.unfinished(); err != nil {
		return err
	}
	if err := view.showAnswer(view.answer()); err != nil {
		return err
	}
	e, err := l.settled(ctx, id, more)
	switch {
	case err != nil: // removed meanwhile
		return nil //nolint:nilerr // there was something to print all the same
	case e.Manifest != nil && e.Manifest.Error != nil:
		err = l.streams.print("! ", "  ", l.streams.defuse(line(*e.Manifest.Error)))
	case e.Manifest == nil && !e.Live:
		l.streams.say(fmt.Sprintf("holon: the holon of %s was killed; go on with it: holon attach %s", id, id))
	}
	return err
}

// settled returns a run as it is once its holon has recorded its end, or as soon as more says no.
func (l *lifecycle) settled(ctx context.Context, id string, more func() bool) (*files.Entry, error) {
	for {
		e, err := files.New(l.home).Open(ctx, id)
		if err != nil || e.Manifest != nil || !e.Live || !more() || !wait(ctx, storyPoll) {
			return e, err
		}
	}
}

// watch shows a run that another holon holds until its end, like that one does. The manifest is nil when that one was
// killed meanwhile.
func (l *lifecycle) watch(ctx context.Context, entry *files.Entry, view *progress) (*state.Manifest, error) {
	more := func() bool {
		e, err := files.New(l.home).Open(ctx, entry.ID)
		return ctx.Err() == nil && err == nil && e.Live
	}
	err := l.watchTurn(ctx, entry, view, more)
	if err != nil {
		return nil, err
	}
	if entry, err = l.settled(ctx, entry.ID, more); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return entry.Manifest, nil
}

// watchTurn shows the turn of a run to its end. Of a run with attempts it shows none.
func (l *lifecycle) watchTurn(ctx context.Context, entry *files.Entry, view *progress, more func() bool) error {
	if len(oneshot.Attempts(entry)) > 0 {
		view.Phase("turn")
		for more() && wait(ctx, storyPoll) {
		}
		return nil
	}
	turn, err := l.awaitTurn(ctx, entry.ID, more)
	if err != nil {
		return err
	}
	defer turn.Close()
	view.Phase("turn")
	return (&story{lifecycle: l, turn: turn, view: view}).follow(ctx, more)
}

// story is what a turn did, in the order of its journal.
type story struct {
	*lifecycle
	turn   *turnfiles.Files
	view   *progress
	output bool // print the output of each command below it
}

// follow shows the story to the end of the turn, or as far as it goes once more says no.
func (s *story) follow(ctx context.Context, more func() bool) error {
	for line, err := range s.turn.Lines(ctx, turns.JournalFile, more) {
		if err != nil {
			return err
		}
		e, err := turns.DecodeEntry(line)
		switch {
		case err != nil: // it is for --json to show
		case e.Stream == nil:
			s.view.Fact(*e.Runtime)
			if err := s.showOutput(*e.Runtime); err != nil {
				return err
			}
		default:
			s.view.Event(*e.Stream)
			if r := e.Stream.Response; r != nil && r.Status.Terminal() {
				return nil
			}
		}
	}
	return nil
}

// unfinished prints the calls that run, or that the end of the container cut off.
func (s *story) unfinished() error {
	for _, c := range s.view.calls { // no more facts come
		s.view.println("  " + c.Text + "  (has not ended)")
		if !s.output || path.Dir(c.dir) != turns.ToolsDir {
			continue
		}
		if err := s.toolLogs(s.turn, c.dir); err != nil {
			return err
		}
	}
	return nil
}

// showOutput prints the output of a command that has ended, if that is wanted.
func (s *story) showOutput(ev turns.RuntimeEvent) error {
	var f turns.Result
	if !s.output || ev.Type != turns.ToolResult || json.Unmarshal(ev.Payload, &f) != nil {
		return nil
	}
	if dir := path.Dir(path.Clean(f.OutputRef)); strings.HasPrefix(dir, turns.ToolsDir+"/") {
		return s.toolLogs(s.turn, dir)
	}
	return s.streams.paragraph(f.Preview)
}
