package tui

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"holon/responses"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/present"
)

// session is a conversation with a session of the door. It is made with the first message.
type session struct {
	client *client.Client
	begun  chan string // ids of responses to follow

	mu     sync.Mutex
	target Target
	model  string // "": the session's
	last   string // the newest response
	status status
}

const recentTurns = 30 // that are shown when a session is opened

func newSession(c *client.Client, t Target) *session {
	return &session{client: c, target: t, begun: make(chan string, 1)}
}

// follow shows the turns that were and then each that is begun.
func (s *session) follow(ctx context.Context, emit func(event)) error {
	if err := s.open(ctx, emit); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case id := <-s.begun:
			s.mu.Lock()
			s.status.Begun++
			s.mu.Unlock()
			if err := s.turn(ctx, id, true, emit); err != nil {
				return err
			}
		}
	}
}

// open shows what there is of the session.
func (s *session) open(ctx context.Context, emit func(event)) error {
	s.mu.Lock()
	t := s.target
	s.mu.Unlock()
	runtime, err := s.client.RuntimeStatus(ctx)
	s.change(emit, func(now *status) {
		*now = status{Begun: now.Begun, Target: t, Name: "new session", State: "ready", Workspace: t.Workspace,
			Model: runtime.Runtime.DefaultModel, Isolation: unenforced(runtime.Runtime.Engine)}
	})
	if err != nil || t.Session == "" {
		return err
	}
	found, err := s.client.Session(ctx, t.Session)
	if err != nil {
		return err
	}
	s.is(found, emit)
	branch, err := s.branch(ctx)
	if err != nil || len(branch) == 0 {
		return err
	}
	s.mu.Lock()
	s.last = branch[len(branch)-1].ResponseID
	s.mu.Unlock()
	for _, t := range branch[max(0, len(branch)-recentTurns):] {
		runs := t.Status == "queued" || t.Status == "in_progress"
		if err := s.turn(ctx, t.ResponseID, runs, emit); err != nil {
			return err
		}
	}
	return nil
}

// is sets the session that is talked to.
func (s *session) is(found wire.Session, emit func(event)) {
	s.mu.Lock()
	s.target.Session = found.ID
	s.mu.Unlock()
	s.change(emit, func(now *status) {
		now.Target.Session = found.ID
		now.Name, now.State = cmp.Or(found.Name, "session "+found.ID[max(0, len(found.ID)-6):]), "ready"
		if found.Status != "open" {
			now.State = found.Status
		}
		now.Workspace, now.Model = found.Workspace, cmp.Or(s.model, found.Model)
		now.Tokens = found.Usage.Tokens
		if found.Usage.Cost > 0 {
			now.Cost = found.Usage.Cost.String()
		}
	})
}

// change changes the status and emits it.
func (s *session) change(emit func(event), change func(now *status)) {
	s.mu.Lock()
	change(&s.status)
	now := s.status
	s.mu.Unlock()
	emit(statusEvent(now))
}

// turn shows what was asked and follows the response to its end. live is one that runs now.
func (s *session) turn(ctx context.Context, id string, live bool, emit func(event)) error {
	follow := client.Follow{Patience: patience, Away: func(time.Duration) { emit(awayEvent{}) }}
	var asked responses.Items
	err := follow.Read(ctx, func() (err error) {
		asked, err = s.client.Responses().InputItems(ctx, id)
		return err
	})
	if err == nil {
		emit(rowsEvent(askedRows(id, asked)))
	}
	if live {
		s.change(emit, func(now *status) { now.Running, now.State, now.Since = true, "running", time.Now() })
	}
	var fold present.Turn
	var doing present.Status
	last := int64(-1)
	failed := follow.Retry(ctx, func() (answered bool, err error) {
		before := last
		for ev, err := range s.client.Responses().Events(ctx, id, last) {
			if err != nil {
				return last > before, err
			}
			last = ev.SequenceNumber
			rows := fold.Event(ev)
			for i := range rows { // keys are of one stream
				rows[i].Key, rows[i].TurnID = id+" "+rows[i].Key, cmp.Or(rows[i].TurnID, id)
			}
			emit(rowsEvent(rows))
			if now := fold.Status(); live && now != doing {
				doing = now
				emit(doingEvent(now))
			}
		}
		return true, nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed != nil {
		emit(rowsEvent{{Key: id + " end", TurnID: id, Level: present.Info, Category: present.CategoryRuntime,
			Title: "the turn cannot be followed", Body: failed.Error(), Failed: true}})
	}
	if !live {
		return context.Cause(ctx)
	}
	s.change(emit, func(now *status) { now.Running, now.State = false, "ready" })
	found, err := s.client.Session(ctx, s.name())
	if err == nil {
		s.is(found, emit)
	}
	return context.Cause(ctx)
}

// askedRows are the messages of an input.
func askedRows(id string, asked responses.Items) (rows []present.Row) {
	for i, it := range asked {
		m, ok := it.(*responses.Message)
		if !ok || m.Role != responses.RoleUser {
			continue
		}
		body := m.Text()
		for _, p := range m.Content {
			if p.Type == responses.PartInputImage || p.Type == responses.PartInputFile {
				body += "\n[" + cmp.Or(p.FileName, "image") + "]"
			}
		}
		rows = append(rows, present.Row{Key: fmt.Sprintf("%s asked %d", id, i), TurnID: id, Level: present.Info,
			Category: present.CategoryMessage, Title: "operator", Body: strings.TrimSpace(body)})
	}
	return rows
}

func unenforced(engine string) string {
	if engine == "local" {
		return "not_enforced: every boundary"
	}
	return ""
}

func (s *session) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target.Session
}

// submit makes the session, if there is none, and its next turn. A session has one turn at a time.
func (s *session) submit(ctx context.Context, p prompt) error {
	s.mu.Lock()
	t, model, last := s.target, cmp.Or(s.model, s.status.Model), s.last
	s.mu.Unlock()
	if t.Session == "" {
		made, err := s.client.StartSession(ctx, wire.StartSession{Model: s.model, Workspace: t.Workspace})
		if err != nil {
			return err
		}
		s.is(made, func(event) {}) // the turn tells
		t.Session, model = made.ID, made.Model
	}
	q := responses.NewRequest(model, p.items()...)
	q.PreviousResponseID, q.ShowToolCalls, q.Holon.SessionID = last, true, t.Session
	var made *responses.Response
	err := client.Follow{}.Read(ctx, func() (err error) {
		made, err = s.client.Responses().WithKey(p.Key).Background(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.last = made.ID
	s.mu.Unlock()
	select {
	case s.begun <- made.ID:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) interrupt(ctx context.Context) error {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == "" {
		return nil
	}
	_, err := s.client.Responses().Cancel(ctx, last)
	return err
}

func (s *session) act(ctx context.Context, kind, verb, id string) (string, error) {
	switch kind + " " + verb {
	case "model set":
		s.mu.Lock()
		defer s.mu.Unlock()
		if id == "default" {
			id = ""
		}
		s.model = id
		return "from the next turn on: " + cmp.Or(id, "the session's model"), nil
	case "workspace checkout":
		made, err := s.client.CheckoutSession(ctx, s.name(), wire.CheckoutSession{})
		return fmt.Sprintf("the branch %s is checked out in %s", made.Branch, made.Worktree), err
	case "rewind to", "rewind back":
		return s.rewind(ctx, verb, id)
	case "session close":
		_, err := s.client.CloseSession(ctx, s.name())
		return "the session is closed; what it changed is kept", err
	}
	return "", fmt.Errorf("a session has no %s to %s; /agents lists the agents", kind, verb)
}

func (s *session) diff(ctx context.Context) ([]change, error) {
	if s.name() == "" {
		return nil, nil // it has not begun
	}
	d, err := s.client.DiffSession(ctx, s.name())
	if err != nil || len(d.Changes.Files) == 0 {
		return nil, err
	}
	c := changeOf(d.Changes)
	c.Title = d.SessionID
	return []change{c}, nil
}

func (s *session) apply(ctx context.Context, allowExecuted bool) (string, error) {
	if s.name() == "" {
		return "nothing to apply", nil
	}
	done, err := s.client.ApplySession(ctx, s.name(), wire.ApplySession{AllowExecuted: allowExecuted})
	if err != nil {
		return "", err
	}
	return applied(done.Path, done.Written, done.Deleted, done.Warnings), nil
}
