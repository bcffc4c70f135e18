package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holon/responses"
	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/present"
)

// agent is a conversation with a long-lived agent of a daemon.
type agent struct {
	client *client.Client
	id     string
}

const (
	history  = 400            // rows in info mode of what was, with which a conversation opens
	patience = 24 * time.Hour // for a daemon that is away
	listed   = 200            // things of a page
)

// follow reads the agent's events, and its state anew when an event says that it changed.
func (a *agent) follow(ctx context.Context, emit func(event)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stale, ended := make(chan struct{}, 1), make(chan struct{})
	refresh := func() {
		select {
		case stale <- struct{}{}:
		default: // it is read anyway
		}
	}
	away := client.Follow{Text: true, Patience: patience, Away: func(time.Duration) { emit(awayEvent{}); refresh() }}
	go func() {
		defer close(ended)
		cancel(a.states(ctx, stale, emit))
	}()
	defer func() { cancel(nil); <-ended }()
	refresh()
	var fold present.Fold
	past, err := fold.Lately(history, present.Info, func(before int64) (page view.EventPage, err error) {
		err = away.Read(ctx, func() (err error) {
			page, err = a.client.Events(ctx, a.id, view.EventQuery{BeforeSeq: before, Limit: view.MaxLimit, Descending: true})
			return err
		})
		return page, err
	})
	if err != nil {
		return err
	}
	emit(rowsEvent(past.Rows.Rows(present.Debug)))
	doing := fold.Status()
	emit(doingEvent(doing))
	away.After, away.Epoch = past.Newest, past.Epoch
	for item, err := range a.client.Follow(ctx, a.id, away) {
		switch {
		case err != nil:
			return err
		case item.Reset != nil:
			fold.Reset()
			emit(resetEvent{})
			refresh()
		case item.Text != nil:
			emit(rowsEvent{fold.Text(item.Text)})
		default:
			emit(rowsEvent(fold.Event(item.Event)))
			if concerns(item.Event) {
				refresh()
			}
		}
		if now := fold.Status(); now != doing {
			doing = now
			emit(doingEvent(now))
		}
	}
	return context.Cause(ctx)
}

// states reads the state whenever it is stale.
func (a *agent) states(ctx context.Context, stale <-chan struct{}, emit func(event)) error {
	run, since := "", time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stale:
		}
		var s view.StateSnapshot
		err := client.Follow{Patience: patience}.Read(ctx, func() (err error) {
			s, err = a.client.State(ctx, a.id)
			return err
		})
		if err != nil {
			return err
		}
		now := a.status(s)
		if id := s.Session.CurrentRunID; id != run {
			run, since = id, time.Now()
		}
		now.Since = since
		emit(statusEvent(now))
	}
}

// concerns reports whether the state may be another one after an event.
func concerns(ev *view.EventEnvelope) bool {
	switch ev.Type {
	case record.AgentStateChanged, record.TurnTerminal, record.ControlApplied, record.ModelOverrideRequested:
		return true
	}
	switch ev.Display.Category {
	case present.CategoryWork, present.CategoryTask, present.CategoryWaiting, present.CategoryWorkspace,
		present.CategoryMessage, present.CategoryNotification, present.CategoryState:
		return true
	}
	return false
}

func (a *agent) status(s view.StateSnapshot) status {
	at := s.Agent
	out := status{Target: Target{Agent: at.Identity.AgentID}, Name: at.Identity.AgentID,
		State: strings.ReplaceAll(string(at.Agent.Status), "_", " "), Running: at.Agent.CurrentRunID != "",
		Model: at.Model.EffectiveModel, Queued: at.Agent.Pending, Tokens: at.TokenUsage.Total.TotalTokens,
		Mark:      at.TokenUsage.Total.Mark(),
		Isolation: at.Execution.Policy.Unenforced(), Workspace: s.Execution.WorkspaceAnchor}
	if p := at.SchedulingPosture.Posture; !out.Running && strings.HasPrefix(p, "waiting_for_") { // why it sleeps
		out.State = strings.ReplaceAll(p, "_", " ")
	}
	if b := at.Budget; b != nil && (b.Cost > 0 || b.Unpriced) {
		out.Cost = b.Money().Short()
	}
	if e := s.Workspace.ActiveEntry; e != nil {
		out.Workspace = cmp.Or(e.WorkspaceAlias, e.WorkspaceAnchor)
	}
	for _, w := range s.WorkItems {
		if w.Current {
			out.Work = w.Objective
		}
	}
	if at.Agent.Status == rules.Stopped {
		out.Hint = cmp.Or(at.Lifecycle.ResumeCLIHint, "/start lets it go on")
	}
	return out
}

func (a *agent) submit(ctx context.Context, p prompt) (id string, err error) {
	w := wire.Prompt{Text: p.Text}
	if p.Urgent {
		w.Priority = "interject"
	}
	err = client.Follow{}.Read(ctx, func() error {
		if len(p.Files) > 0 { // the control plane takes text; the door takes parts
			made, err := a.client.Responses().WithKey(p.Key).Background(ctx, responses.NewRequest("agent/"+a.id, p.items()...))
			if err == nil {
				id = responses.PrefixMessage + strings.TrimPrefix(made.ID, responses.PrefixResponse)
			}
			return err
		}
		made, err := a.client.Prompt(ctx, a.id, w, p.Key)
		id = made.MessageID
		return err
	})
	return id, err
}

func (p prompt) items() responses.Items {
	m := responses.UserMessage(p.Text)
	if p.Text == "" {
		m.Content = nil
	}
	for _, f := range p.Files {
		m.Content = append(m.Content, f.Part)
	}
	return responses.Items{m}
}

func (a *agent) interrupt(ctx context.Context) error {
	_, err := a.client.Abort(ctx, a.id, wire.Abort{})
	return err
}

func (a *agent) act(ctx context.Context, kind, verb, id string) (done string, err error) {
	switch kind + " " + verb {
	case "agent start", "agent stop", "agent renew":
		_, err = a.client.Control(ctx, a.id, wire.Control{Action: verb})
		return map[string]string{"start": "the agent goes on", "stop": "the agent is stopped",
			"renew": "the conversation begins anew with the next turn"}[verb], err
	case "work pick":
		_, err = a.client.PickWork(ctx, a.id, id)
		return "the current work item is " + id, err
	case "work complete":
		_, err = a.client.CompleteWork(ctx, a.id, id)
		return "completed: " + id, err
	case "tasks stop":
		_, err = a.client.StopTask(ctx, a.id, id, false)
		return "asked to end: " + id, err
	case "workspace attach":
		at, err := a.client.AttachWorkspace(ctx, a.id, id)
		return "attached: " + at.Workspace.Alias, err
	case "workspace use", "workspace isolated":
		use := view.WorkspaceUse{WorkspaceID: id}
		if strings.HasPrefix(id, "/") {
			use = view.WorkspaceUse{Path: id}
		}
		if verb == "isolated" {
			use.Mode = verb
		}
		now, err := a.client.UseWorkspace(ctx, a.id, use)
		return "the agent works in " + now.Active.Cwd, err
	case "workspace exit":
		_, err = a.client.ExitWorkspace(ctx, a.id)
		return "the agent works in its home", err
	case "workspace detach":
		_, err = a.client.DetachWorkspace(ctx, a.id, id)
		return "detached: " + id, err
	case "workspace checkout":
		made, err := a.client.CheckoutWorkspace(ctx, a.id, view.WorkspaceCheckout{WorkspaceID: id})
		return fmt.Sprintf("the branch %s is checked out in %s", made.Branch, made.Worktree), err
	case "model set":
		if id == "default" {
			_, err = a.client.ClearModel(ctx, a.id)
		} else {
			_, err = a.client.SetModel(ctx, a.id, wire.Model{Model: id})
		}
		return "from the next turn on: " + id, err
	}
	return "", errors.New("an agent has no " + kind + " to " + verb)
}

func (a *agent) diff(ctx context.Context) (all []change, err error) {
	trees, err := a.client.DiffWorkspace(ctx, a.id, wire.DiffWorkspace{PatchBytes: wire.MaxPatch})
	for _, t := range trees {
		c := changeOf(t.Changes, t.PatchText)
		c.Title = cmp.Or(t.WorkspaceAlias, t.WorkspaceID) + " " + t.Tree
		c.Note = strings.TrimSpace(c.Note + " " + t.Skipped)
		if len(c.Files) > 0 || c.Note != "" {
			all = append(all, c)
		}
	}
	return all, err
}

func (a *agent) apply(ctx context.Context, read []change, allowExecuted bool) (string, error) {
	trees, err := a.client.ApplyWorkspace(ctx, a.id,
		view.WorkspaceApply{AllowExecuted: allowExecuted, ResultTrees: resultTrees(read)})
	if err != nil {
		return "", err
	}
	var lines []string
	for _, t := range trees {
		lines = append(lines, applied(t.Path, t.Written, t.Deleted, t.Warnings))
		if t.Skipped != "" {
			lines = append(lines, "left out: "+t.Skipped)
		}
	}
	return cmp.Or(strings.Join(lines, "\n"), "nothing to apply"), nil
}

// raw is JSON with indents.
func raw(v any) string {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
