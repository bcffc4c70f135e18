package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	nudged chan struct{} // there is something new

	mu     sync.Mutex
	target Target
	model  string              // "": the session's
	last   string              // the response that is followed or was asked for last: the one to interrupt
	mine   *responses.Response // the newest one that was asked for from here; nil: none was
	made   int                 // of those
	status status

	shown []string // responses, of follow
	stood string   // how the session stood when they were
}

const (
	recentTurns  = 30              // that are shown when a session is opened
	sessionAfter = 2 * time.Second // how old the turns of other clients may be on screen
)

func newSession(c *client.Client, t Target) *session {
	return &session{client: c, target: t, nudged: make(chan struct{}, 1)}
}

// follow shows the turns of the session, whoever asks for them, and shows them anew where the session goes back.
func (s *session) follow(ctx context.Context, emit func(event)) error {
	if err := s.begin(ctx, emit); err != nil {
		return err
	}
	for {
		if err := s.show(ctx, emit); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.nudged:
		case <-time.After(sessionAfter):
		}
	}
}

// sessionName is how a session is called on screen: by its name, or the end of its id.
func sessionName(name, id string) string {
	if id == "" {
		return "new session"
	}
	return cmp.Or(name, "session "+id[max(0, len(id)-6):])
}

// begin shows what there is without a session.
func (s *session) begin(ctx context.Context, emit func(event)) error {
	runtime, err := s.client.RuntimeStatus(ctx)
	s.change(emit, func(now *status) {
		*now = status{Target: s.target, Name: sessionName("", s.target.Session), State: "ready",
			Workspace: s.target.Workspace,
			Model:     runtime.Runtime.DefaultModel, Isolation: unenforced(runtime.Runtime.Engine)}
	})
	return err
}

// show shows the turns that are not shown yet.
func (s *session) show(ctx context.Context, emit func(event)) error {
	s.mu.Lock()
	name, made := s.target.Session, s.made
	s.mu.Unlock()
	if name == "" {
		return nil
	}
	var found wire.Session
	err := s.patient(emit).Read(ctx, func() (err error) {
		found, err = s.client.Session(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	stands := fmt.Sprint(len(found.ResponseIDs), found.Current, found.Rewound)
	var branch []wire.SessionTurn
	if stands != s.stood {
		err = s.patient(emit).Read(ctx, func() (err error) {
			branch, err = s.branch(ctx)
			return err
		})
	}
	if err != nil {
		return err
	}
	var ids []string
	for _, t := range branch {
		ids = append(ids, t.ResponseID)
	}
	if n := len(s.shown); stands != s.stood && !slices.Equal(ids[:min(n, len(ids))], s.shown) {
		s.shown = nil
		emit(changedEvent{})
	}
	for _, t := range branch[min(len(branch), max(len(s.shown), len(branch)-recentTurns)):] {
		live := t.Status == "queued" || t.Status == "in_progress"
		s.mu.Lock()
		s.last = t.ResponseID // which is interrupted, whichever client asked for it
		s.mu.Unlock()
		if live {
			s.change(emit, func(now *status) {
				now.Begun, now.Running, now.State, now.Since = made, true, "running", time.Now()
			})
		}
		if err := s.turn(ctx, t.ResponseID, live, emit); err != nil {
			return err
		}
	}
	if stands != s.stood {
		s.shown, s.stood = ids, stands
		if found, err = s.client.Session(ctx, name); err != nil { // the next time
			return ctx.Err()
		}
	}
	s.is(found, made, emit)
	return nil
}

// patient is how the daemon is read.
func (s *session) patient(emit func(event)) client.Follow {
	return client.Follow{Patience: patience, Away: func(time.Duration) { emit(awayEvent{}) }}
}

// is sets the session that is talked to, and of how many turns from here that is true.
func (s *session) is(found wire.Session, made int, emit func(event)) {
	s.mu.Lock()
	s.target.Session = found.ID
	s.mu.Unlock()
	s.change(emit, func(now *status) {
		now.Target.Session, now.Begun, now.Running = found.ID, made, false
		now.Name, now.State = sessionName(found.Name, found.ID), "ready"
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
	follow := s.patient(emit)
	var asked responses.Items
	err := follow.Read(ctx, func() (err error) {
		asked, err = s.client.Responses().InputItems(ctx, id)
		return err
	})
	if err == nil {
		emit(rowsEvent(present.Asked(id, asked)))
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
	return context.Cause(ctx)
}

// transcript is what was said and called in the newest turns of the conversation.
func (s *session) transcript(ctx context.Context) (page, error) {
	turns, err := s.branch(ctx)
	said := newRows(nil, nil)
	for _, t := range turns[max(0, len(turns)-recentTurns):] {
		if t.Status != "queued" && t.Status != "in_progress" && err == nil {
			err = s.turn(ctx, t.ResponseID, false, func(e event) {
				rows, _ := e.(rowsEvent)
				for _, row := range rows {
					said.put(row, false)
				}
			})
		}
	}
	var b strings.Builder
	for _, r := range said.list {
		if r.Level == present.Never {
			continue
		}
		fmt.Fprintf(&b, "── %s\n", r.Title)
		if b.WriteString(r.Body); r.Call != nil {
			b.WriteString(strings.Join(append(r.Call.Diff, r.Call.Output...), "\n"))
		}
		b.WriteString("\n\n")
	}
	return page{Title: "transcript", Text: cmp.Or(b.String(), "Nothing was said."), Raw: true}, err
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
func (s *session) submit(ctx context.Context, p prompt) (string, error) {
	defer s.nudge()
	s.mu.Lock()
	t, model := s.target, cmp.Or(s.model, s.status.Model)
	s.mu.Unlock()
	if t.Session == "" {
		made, err := s.client.StartSession(ctx, wire.StartSession{Model: s.model, Workspace: t.Workspace})
		if err != nil {
			return "", err
		}
		s.is(made, 0, func(event) {}) // the turn tells
		t.Session, model = made.ID, made.Model
	}
	q := responses.NewRequest(model, p.items()...)
	q.ShowToolCalls, q.Holon.SessionID = true, t.Session
	var made *responses.Response
	err := client.Follow{}.Read(ctx, func() (err error) {
		if q.PreviousResponseID, err = s.brokenOff(ctx); err == nil {
			made, err = s.client.Responses().WithKey(p.Key).Background(ctx, q)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	s.last, s.mine = made.ID, made
	s.made++
	s.mu.Unlock()
	return "", nil
}

// brokenOff is the response from here that was interrupted or failed last, "" for none: the next turn goes on with it.
// Otherwise a message continues what is current in the session, whoever made that.
func (s *session) brokenOff(ctx context.Context) (string, error) {
	s.mu.Lock()
	mine := s.mine
	s.mu.Unlock()
	if mine == nil {
		return "", nil
	}
	turns, err := s.branch(ctx)
	if n := len(turns); n > 0 && turns[n-1].ResponseID == mine.ID &&
		turns[n-1].Status != string(responses.StatusCompleted) {
		return mine.ID, err // or one whose end is not recorded yet, or that is incomplete: it is current
	}
	return "", err
}

// nudge has follow look at the session now.
func (s *session) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default: // it does anyway
	}
}

func (s *session) interrupt(ctx context.Context) error {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == "" {
		return errors.New("there is no turn to interrupt")
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
	d, err := s.client.DiffSession(ctx, s.name(), wire.MaxPatch)
	if err != nil || len(d.Changes.Files) == 0 {
		return nil, err
	}
	c := changeOf(d.Changes, d.PatchText)
	c.Title = d.SessionID
	return []change{c}, nil
}

func (s *session) apply(ctx context.Context, read []change, allowExecuted bool) (string, error) {
	if s.name() == "" {
		return "nothing to apply", nil
	}
	done, err := s.client.ApplySession(ctx, s.name(),
		wire.ApplySession{AllowExecuted: allowExecuted, ResultTrees: resultTrees(read)})
	if err != nil {
		return "", err
	}
	return applied(done.Path, done.Written, done.Deleted, done.Warnings), nil
}
