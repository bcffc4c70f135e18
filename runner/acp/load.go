package acp

import (
	"context"
	"errors"
	"path/filepath"

	"holon/responses"
)

// maxReplayed bounds the responses of a session that are shown when it is loaded: the last ones.
const maxReplayed = 200

// loadSession opens a session of the daemon again, of this editor or of another one, and shows what happened in it.
func (a *agent) loadSession(ctx context.Context, p loadSession) (any, error) {
	if err := responses.CheckID("sessionId", p.SessionID); err != nil {
		return nil, invalidParams("%v", err)
	}
	known, err := a.daemon.session(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if cwd, err := filepath.EvalSymlinks(p.Cwd); err != nil || cwd != known.Workspace {
		return nil, invalidParams("the session works in %.300q and not in cwd", known.Workspace)
	}
	s, err := a.add(p.SessionID, p.newSession)
	if err != nil {
		return nil, err
	}
	turn, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s.model = known.Model
	if err := s.replay(turn, known.ResponseIDs); err != nil {
		return nil, err
	}
	change, err := a.daemon.diff(turn, s.id)
	if err != nil {
		return nil, err
	}
	s.shown = change.Result // it was shown, and is again with the next change
	return opened{Modes: a.modes(s.currentMode())}, nil
}

// replay shows responses, of which those that were removed are left out.
func (s *session) replay(ctx context.Context, ids []string) error {
	for _, id := range ids[max(0, len(ids)-maxReplayed):] {
		input, err := s.agent.daemon.client.Below("/v1").InputItems(ctx, id)
		var made *responses.Response
		if err == nil {
			made, err = s.agent.daemon.response(ctx, id)
		}
		if e, ok := errors.AsType[*responses.Error](err); ok && e.Type == responses.TypeNotFound {
			continue
		} else if err != nil {
			return err
		}
		s.previous = id
		for _, item := range append(input, made.Output...) {
			if err := s.past(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// past shows an item of a response that was made.
func (s *session) past(item responses.Item) error {
	switch item := item.(type) {
	case *responses.Message:
		kind := updateMessage
		if item.Role == responses.RoleUser {
			kind = updateUser
		}
		if err := s.paragraph(kind); err != nil {
			return err
		}
		return s.chunk(kind, item.Text())
	case *responses.Reasoning:
		for _, part := range item.Summary {
			if err := s.chunk(updateThought, part.Text); err != nil {
				return err
			}
		}
	case *responses.ToolCall:
		if err := s.toolCall(item, false); err != nil {
			return err
		}
		return s.toolCall(item, true)
	}
	return nil
}
