package acp

import (
	"context"
	"fmt"
	"strings"

	"holon/responses"
)

// Options of a request for permission.
const (
	allowOnce   = "apply"
	allowAlways = "apply_always"
	rejectOnce  = "keep"
)

// land shows what the session's private tree has changed since it was last shown, and brings it into the editor's files
// as the mode says. What cannot be applied is shown and no error: the turn itself is done.
func (s *session) land(ctx context.Context) error {
	change, err := s.agent.daemon.diff(ctx, s.id)
	if err != nil || change.Result == s.shown || len(change.Files) == 0 {
		return err
	}
	s.shown = change.Result
	u, err := s.changed(change)
	if err == nil {
		err = s.send(u)
	}
	if err != nil {
		return err
	}
	mode := s.currentMode()
	if mode == Private {
		return s.landed(u, statusCompleted, "")
	}
	if mode == Ask {
		allowed, err := s.allowed(ctx, u)
		if err != nil || !allowed {
			return s.notLanded(u, err)
		}
	}
	if err := s.apply(ctx, u); err != nil {
		s.shown = "" // the next turn tries again
		return s.notLanded(u, err)
	}
	return s.landed(u, statusCompleted, "Applied: "+u.Title)
}

// changed is a change as a tool call.
func (s *session) changed(change *changes) (update, error) {
	edits, err := change.edits()
	var names []string
	for _, f := range change.Files {
		names = append(names, f.Path)
	}
	title := fmt.Sprintf("%d files changed", len(names))
	if len(names) == 1 {
		title = names[0] + " changed"
	}
	return update{Kind: updateToolCall, ToolCallID: responses.NewID("change_"), Title: cut(title, maxTitle),
		ToolKind: "edit", Status: statusPending, Content: s.diffs(s.top, edits),
		Locations: s.locations(s.top, names...)}, err
}

// allowed asks the user whether a change may be applied, and switches to the mode apply when the user wants no more
// questions.
func (s *session) allowed(ctx context.Context, u update) (bool, error) {
	choice, err := s.ask(ctx, u, option{allowOnce, "Apply to my files", "allow_once"},
		option{allowAlways, "Apply, and do not ask again", "allow_always"},
		option{rejectOnce, "Keep it in the private copy", "reject_once"})
	if choice == allowAlways {
		s.setMode(Apply)
		err = s.send(update{Kind: updateMode, Mode: Apply})
	}
	return err == nil && (choice == allowOnce || choice == allowAlways), err
}

// ask asks the user and returns the option that was selected, "" for none.
func (s *session) ask(ctx context.Context, u update, options ...option) (string, error) {
	u.Kind = ""
	var answer permission
	err := s.agent.conn.call(ctx, "session/request_permission", askPermission{s.id, u, options}, &answer)
	if err != nil || answer.Outcome.Outcome != "selected" {
		return "", err
	}
	return answer.Outcome.OptionID, nil
}

// apply brings a change into the editor's files. Files that programs execute without being asked to need a permission
// of their own, whatever the mode.
func (s *session) apply(ctx context.Context, u update) error {
	err := s.agent.daemon.apply(context.WithoutCancel(ctx), s.id, false) // half of it would be undone again
	if !hasCode(err, codeExecuted) {
		return err
	}
	u.Title = cut("Apply files that programs execute: "+err.Error(), 4*maxTitle)
	choice, asked := s.ask(ctx, u, option{allowOnce, "Apply them too", "allow_once"},
		option{rejectOnce, "Keep all in the private copy", "reject_once"})
	if asked != nil || choice != allowOnce {
		return err
	}
	return s.agent.daemon.apply(context.WithoutCancel(ctx), s.id, true)
}

// notLanded shows that a change stays in the private copy, and why.
func (s *session) notLanded(u update, why error) error {
	title := "Not applied: " + u.Title
	if why != nil {
		if err := s.chunk(updateMessage, "\n\nThe change was not applied: "+cut(why.Error(), maxOutput)+"\n"); err != nil {
			return err
		}
	}
	return s.landed(u, statusFailed, title)
}

// landed ends the tool call of a change.
func (s *session) landed(u update, status, title string) error {
	return s.send(update{Kind: updateToolDone, ToolCallID: u.ToolCallID, Status: status,
		Title: strings.ToValidUTF8(title, "?")})
}
