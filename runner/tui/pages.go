package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/runner/control/client"
)

// Kinds of pages.
const (
	pageAgents     = "agents"
	pageWork       = "work"
	pageTasks      = "tasks"
	pageChildren   = "children"
	pageWorkspace  = "workspace"
	pageTranscript = "transcript"
	pageEvents     = "events"
	pagePrompt     = "prompt"
	pageModel      = "model"
	pageRewind     = "rewind"
)

// when is a time for a list.
func when(t turns.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Time().Local().Format("01-02 15:04")
}

// everyone lists the agents and sessions of a daemon.
func everyone(ctx context.Context, c *client.Client, now Target) (page, error) {
	p := page{Title: "agents and sessions", Heads: []string{"NAME", "STATE", "QUEUE", "MODEL", "WORKSPACE"}}
	agents, err := c.Agents(ctx)
	if err != nil {
		return p, err
	}
	for _, a := range agents {
		where := ""
		if a.ActiveWorkspace != nil {
			where = cmp.Or(a.ActiveWorkspace.WorkspaceAlias, a.ActiveWorkspace.WorkspaceAnchor)
		}
		id := a.Identity.AgentID
		p.Items = append(p.Items, item{ID: id, Mark: id == now.Agent, To: Target{Agent: id}, Cells: []string{id,
			strings.ReplaceAll(string(a.Status), "_", " "), strconv.Itoa(a.Pending), a.Model.EffectiveModel, where}})
	}
	sessions, err := c.SessionsHere(ctx)
	for _, s := range sessions.Data {
		if s.Status == "open" {
			p.Items = append(p.Items, item{ID: s.ID, Mark: s.ID == now.Session,
				To:    Target{Session: s.ID, Workspace: s.Workspace},
				Cells: []string{"session " + cmp.Or(s.Name, s.ID), s.Activity, "", s.Model, s.Workspace}})
		}
	}
	return p, err
}

// models lists the models of a daemon.
func models(ctx context.Context, c *client.Client, now string) (page, error) {
	p := page{Title: "models", Heads: []string{"MODEL", "WINDOW", "STATE"}}
	all, err := c.Models(ctx)
	if err != nil {
		return p, err
	}
	why, seen := map[string]string{}, map[string]bool{}
	for _, m := range all.Availability {
		why[m.Model] = m.Reason
	}
	add := func(ref, window string) {
		if ref != "" && !seen[ref] {
			seen[ref] = true
			p.Items = append(p.Items, item{ID: ref, Mark: ref == now, Cells: []string{ref, window, cmp.Or(why[ref], "ready")}})
		}
	}
	for _, m := range all.Available {
		window := ""
		if m.ContextWindow > 0 {
			window = strconv.FormatInt(m.ContextWindow, 10)
		}
		add(m.Model, window)
	}
	add(all.DefaultModel, "")
	p.Items = append(p.Items, item{ID: "default", Cells: []string{"default", "", "the one that the daemon has"}})
	return p, nil
}

func (a *agent) page(ctx context.Context, kind, id string) (page, error) {
	switch kind {
	case pageAgents:
		return everyone(ctx, a.client, Target{Agent: a.id})
	case pageModel:
		at, err := a.client.Status(ctx, a.id)
		if err != nil {
			return page{}, err
		}
		return models(ctx, a.client, at.Model.EffectiveModel)
	case pageWork:
		return a.work(ctx, id)
	case pageTasks:
		return a.tasks(ctx, id)
	case pageChildren:
		return a.children(ctx, id)
	case pageWorkspace:
		return a.workspaces(ctx)
	case pageTranscript:
		return a.transcript(ctx)
	case pageEvents:
		return a.events(ctx, id)
	case pagePrompt:
		sent, err := a.client.DebugPrompt(ctx, a.id, cmp.Or(id, "(your next message)"))
		return page{Title: "what the model would be asked", Text: raw(sent), Raw: true}, err
	}
	return page{}, errors.New("an agent cannot go back to an earlier turn; a session can")
}

func (a *agent) work(ctx context.Context, id string) (page, error) {
	if id != "" {
		w, err := a.client.WorkItem(ctx, a.id, id)
		return page{Title: "work item " + id, Text: workText(w)}, err
	}
	list, err := a.client.WorkItems(ctx, a.id, listed)
	return workPage(list), err
}

func workPage(list []view.WorkRecord) page {
	p := page{Title: "work items", Heads: []string{"OBJECTIVE", "STATE", "TODO", "CHANGED", "ITEM"}}
	for i := len(list) - 1; i >= 0; i-- { // the open ones first
		w := list[i]
		done := 0
		for _, t := range w.Todo {
			if t.State == "completed" {
				done++
			}
		}
		todo := ""
		if len(w.Todo) > 0 {
			todo = fmt.Sprintf("%d/%d", done, len(w.Todo))
		}
		p.Items = append(p.Items, item{ID: w.ID, Mark: w.Current, Cells: []string{w.Objective,
			cmp.Or(string(w.SchedulingState), string(w.State)), todo, when(w.UpdatedAt), w.ID}})
	}
	return p
}

func workText(w view.WorkRecord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s", w.Objective, cmp.Or(string(w.SchedulingState), string(w.State)))
	if w.BlockedBy != "" {
		fmt.Fprintf(&b, ", blocked by: %s", w.BlockedBy)
	}
	b.WriteString("\n\n")
	for _, t := range w.Todo {
		fmt.Fprintf(&b, "- [%s] %s\n", map[bool]string{true: "x", false: " "}[t.State == "completed"], t.Text)
	}
	if p := w.PlanArtifact; p != nil && p.Preview != "" {
		fmt.Fprintf(&b, "\n## Plan\n\n%s\n", p.Preview)
	}
	if text := cmp.Or(w.CompletionReport, w.ResultSummary); text != "" {
		fmt.Fprintf(&b, "\n## Result\n\n%s\n", text)
	}
	return b.String()
}

func (a *agent) tasks(ctx context.Context, id string) (page, error) {
	if id != "" {
		out, err := a.client.TaskOutput(ctx, a.id, id, 0, 8000)
		t := out.Task
		text := fmt.Sprintf("%s: %s\n", t.Status, t.Summary)
		if t.ExitStatus != nil {
			text += fmt.Sprintf("exit %d\n", *t.ExitStatus)
		}
		return page{Title: "task " + id, Text: text + "\n" + cmp.Or(t.OutputPreview, t.ResultSummary), Raw: true,
			Live: !t.Status.Terminal()}, err
	}
	p := page{Title: "tasks", Heads: []string{"TASK", "STATUS", "STARTED", "COMMAND"}}
	list, err := a.client.Tasks(ctx, a.id, listed)
	for i := len(list) - 1; i >= 0; i-- {
		t := list[i]
		p.Items = append(p.Items, item{ID: t.ID, Mark: !t.Status.Terminal(), Cells: []string{t.ID, string(t.Status),
			when(t.CreatedAt), cmp.Or(t.Command.CmdPreview, t.Purpose, t.Summary)}})
	}
	return p, err
}

func (a *agent) children(ctx context.Context, id string) (page, error) {
	if id != "" {
		t, err := a.client.Task(ctx, a.id, id)
		return page{Title: "child of task " + id, Text: raw(t.Task), Raw: true}, err
	}
	p := page{Title: "children", Heads: []string{"CHILD", "PHASE", "TOKENS", "WORK"}}
	at, err := a.client.Status(ctx, a.id)
	for _, c := range at.ActiveChildren {
		why := cmp.Or(c.BlockedReason, c.WaitingReason)
		if c.LastProgressBrief != nil {
			why = cmp.Or(why, c.LastProgressBrief.Summary)
		}
		p.Items = append(p.Items, item{ID: c.Supervision.SupervisionTaskID, Cells: []string{c.Identity.AgentID, c.Phase,
			strconv.FormatInt(c.TokensUsed, 10), strings.TrimSuffix(c.Label+": "+why, ": ")}})
	}
	return p, err
}

func (a *agent) workspaces(ctx context.Context) (page, error) {
	p := page{Title: "workspaces", Heads: []string{"ALIAS", "STATE", "COPIES", "PATH"}}
	list, err := a.client.Workspaces(ctx, a.id, listed)
	for _, w := range list {
		state, kept := "attached", 0
		if w.Active {
			state = "active"
		}
		for _, t := range w.Trees {
			if !t.Active {
				kept++
			}
		}
		copies := strconv.Itoa(len(w.Trees))
		if kept > 0 {
			copies += ", review or cleanup pending"
		}
		p.Items = append(p.Items, item{ID: w.ID, Mark: w.Active, Cells: []string{cmp.Or(w.Alias, w.ID), state, copies,
			w.Anchor}})
	}
	return p, err
}

func (a *agent) transcript(ctx context.Context) (page, error) {
	list, err := a.client.Transcript(ctx, a.id, 100)
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "── %s  %s", when(e.CreatedAt), strings.ReplaceAll(string(e.Kind), "_", " "))
		if e.Round > 0 {
			fmt.Fprintf(&b, " %d", e.Round)
		}
		if n := e.InputTokens + e.OutputTokens; n > 0 {
			fmt.Fprintf(&b, ", %d tokens", n)
		}
		fmt.Fprintf(&b, "\n%s\n\n", raw(e.Data))
	}
	return page{Title: "transcript", Text: b.String(), Raw: true}, err
}

func (a *agent) events(ctx context.Context, id string) (page, error) {
	if id != "" {
		seq, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return page{}, fmt.Errorf("%q is not the number of an event", id)
		}
		found, err := a.client.Events(ctx, a.id, view.EventQuery{AfterSeq: seq - 1, Limit: 1,
			Projection: view.ProjectionDebug})
		if err == nil && (len(found.Events) == 0 || found.Events[0].EventSeq != seq) {
			err = fmt.Errorf("the record has no event %d; /events lists the newest", seq)
		}
		if err != nil {
			return page{}, err
		}
		return page{Title: "event " + id, Text: raw(found.Events[0]), Raw: true}, nil
	}
	p := page{Title: "events", Heads: []string{"EVENT", "TIME", "TYPE", "SUMMARY"}}
	found, err := a.client.Events(ctx, a.id, view.EventQuery{Descending: true, Limit: listed})
	for _, e := range found.Events {
		n := strconv.FormatInt(e.EventSeq, 10)
		p.Items = append(p.Items, item{ID: n, Cells: []string{n, e.TS.Time().Local().Format(time.TimeOnly), e.Type,
			e.Display.Summary}})
	}
	return p, err
}

func (s *session) page(ctx context.Context, kind, id string) (page, error) {
	s.mu.Lock()
	t, now := s.target, s.status
	s.mu.Unlock()
	switch kind {
	case pageAgents:
		return everyone(ctx, s.client, t)
	case pageModel:
		return models(ctx, s.client, now.Model)
	case pageRewind:
		return s.rewindPage(ctx)
	case pageWorkspace:
		return page{Title: "workspace", Raw: true, Text: "The session works on a private copy of " +
			cmp.Or(t.Workspace, "nothing: it began empty") + ".\n\n/diff shows what was changed, /apply brings it into " +
			"your files, /workspace checkout makes a branch of it."}, nil
	case pageTranscript:
		return s.transcript(ctx)
	}
	return page{}, fmt.Errorf("a session has no %s; /agents lists the agents", kind)
}
