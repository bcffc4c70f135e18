package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/present"
	"holon/state"
	"holon/state/ledger"
)

// overview is the page of all agents and sessions.
func (c *Console) overview(r *http.Request) (page, error) {
	agents, err := c.client.Agents(r.Context())
	if err != nil {
		return page{}, err
	}
	sessions, err := c.client.SessionsHere(r.Context())
	if err != nil {
		return page{}, err
	}
	return page{Name: "overview", Title: "Overview", Data: struct {
		Agents   []view.AgentListEntry
		Sessions []wire.Session
	}{agents, sessions.Data}}, nil
}

// runtime is the page of the daemon's health.
func (c *Console) runtime(r *http.Request) (page, error) {
	status, err := c.client.RuntimeStatus(r.Context())
	if err != nil {
		return page{}, err
	}
	models, err := c.client.Models(r.Context())
	return page{Name: "runtime", Title: "Runtime", Data: struct {
		view.RuntimeStatus
		Models view.Models
	}{status, models}}, err
}

// ofAgent begins a page of an agent: watch are the categories of rows that change it.
func (c *Console) ofAgent(r *http.Request, name, watch string) (page, view.StateSnapshot, error) {
	now, err := c.client.State(r.Context(), r.PathValue("id"))
	return page{Name: name, Title: r.PathValue("id"), Agent: &now.Agent, Tab: name, Watch: watch,
		From: cursor{now.EventLogEpoch, now.SnapshotThrough}.String()}, now, err
}

// conversation is an agent's first page: its rows, the newest last, and the composer.
func (c *Console) conversation(r *http.Request) (page, error) {
	mode := modeOf(r)
	var rows folded
	if r.Header.Get("Holon-Part") != "live" { // the script that reads the page again has them from the stream
		var err error
		if rows, err = c.fold(r.Context(), r.PathValue("id"), 0, mode, new(present.Fold)); err != nil {
			return page{}, err
		}
	}
	p, now, err := c.ofAgent(r, "conversation", "message brief waiting work_item task runtime operator_notification")
	p.Tab, p.From = "", rows.String() // rows that came after the page of events are in the stream
	p.Data = struct {
		folded
		Mode string
		Now  view.StateSnapshot
	}{rows, mode.String(), now}
	return p, err
}

// queue is what waits: messages, timers, conditions.
func (c *Console) queue(r *http.Request) (page, error) {
	p, now, err := c.ofAgent(r, "queue", "message brief waiting runtime operator_notification")
	if err != nil {
		return p, err
	}
	queued, err := c.client.Queue(r.Context(), r.PathValue("id"), 0)
	p.Data = struct {
		view.StateSnapshot
		Queued []view.MessageState
	}{now, queued}
	return p, err
}

func (c *Console) work(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "work", "work_item brief")
	if err == nil {
		p.Data, err = c.client.WorkItems(r.Context(), r.PathValue("id"), 0)
	}
	return p, err
}

func (c *Console) tasks(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "tasks", "task")
	if err == nil {
		p.Data, err = c.client.Tasks(r.Context(), r.PathValue("id"), 0)
	}
	return p, err
}

// task is the page of a task, which shows what it prints while it does.
func (c *Console) task(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "task", "")
	if err != nil {
		return p, err
	}
	of, err := c.client.Task(r.Context(), r.PathValue("id"), r.PathValue("task"))
	p.Tab, p.Data = "tasks", of.Task
	return p, err
}

// child is a node of the tree of children.
type child struct {
	view.ActiveChild
	Children []child
}

func (c *Console) children(r *http.Request) (page, error) {
	p, now, err := c.ofAgent(r, "children", "task brief")
	if err != nil {
		return p, err
	}
	delegated, err := c.client.Tasks(r.Context(), r.PathValue("id"), 0)
	p.Data = struct {
		Tree  []child
		Tasks []view.TaskRecord // those that children carried out
	}{treeOf(r.PathValue("id"), now.Agent.ActiveChildren),
		slices.DeleteFunc(delegated, func(t view.TaskRecord) bool { return t.ChildAgentID == "" })}
	return p, err
}

// treeOf puts the children of an agent under their parents. Each child is in it once: ids of others make no circle.
func treeOf(parent string, all []view.ActiveChild) (list []child) {
	for _, one := range all {
		if one.Identity.ParentAgentID == parent && one.Identity.AgentID != parent {
			rest := slices.DeleteFunc(slices.Clone(all), func(c view.ActiveChild) bool {
				return c.Identity.AgentID == one.Identity.AgentID
			})
			list = append(list, child{one, treeOf(one.Identity.AgentID, rest)})
		}
	}
	return list
}

func (c *Console) workspaces(r *http.Request) (page, error) {
	p, now, err := c.ofAgent(r, "workspaces", "workspace")
	if err != nil {
		return p, err
	}
	list, err := c.client.Workspaces(r.Context(), r.PathValue("id"), 0)
	p.Data = struct {
		view.StateSnapshot
		List []view.WorkspaceRecord
	}{now, list}
	return p, err
}

// change is a change to a tree, as a page shows it.
type treeChange struct {
	Name, Note string
	Tree       string // name of the copy, "" for a session's
	Changes    state.Diff
	Files      []patchFile
	Cut        bool
}

func newChange(name, note string, of state.Diff, patch string) treeChange {
	return treeChange{Name: name, Note: note, Changes: of, Files: parsePatch(patch), Cut: of.PatchBytes > maxPatch}
}

// workspaceDiff is what an agent changed, whose lines take comments.
func (c *Console) workspaceDiff(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "diff", "")
	if err != nil {
		return p, err
	}
	p.Tab = "workspaces"
	trees, err := c.client.DiffWorkspace(r.Context(), r.PathValue("id"),
		wire.DiffWorkspace{WorkspaceID: r.URL.Query().Get("workspace"), PatchBytes: maxPatch})
	var list []treeChange
	for _, t := range trees {
		one := newChange(cmp.Or(t.WorkspaceAlias, t.WorkspaceID)+" · "+t.Tree, t.Skipped, t.Changes, t.PatchText)
		one.Tree = t.Tree
		list = append(list, one)
	}
	p.Data = list
	return p, err
}

// events is the record for people, with filters.
func (c *Console) events(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "events", "")
	if err != nil {
		return p, err
	}
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // 0: the newest
	level, _ := present.ParseMode(q.Get("level"))          // 0: all
	found, err := c.client.Events(r.Context(), r.PathValue("id"),
		view.EventQuery{BeforeSeq: max(before, 0), Limit: pageRows, Descending: true, MaxLevel: int(level)})
	if err != nil {
		return p, err
	}
	kept := slices.DeleteFunc(slices.Clone(found.Events), func(e view.EventEnvelope) bool {
		has := func(of, key string) bool { return q.Get(key) == "" || strings.Contains(of, q.Get(key)) }
		return !has(e.Display.Category, "category") || !has(e.Type, "type") || !has(e.Provenance.TurnID, "turn")
	})
	var older string
	if n := len(found.Events); found.HasOlder && n > 0 {
		q.Set("before", strconv.FormatInt(found.Events[n-1].EventSeq, 10))
		older = "?" + q.Encode()
	}
	p.Data = struct {
		Events     []view.EventEnvelope
		Older      string
		Asked      url.Values
		Categories []string
	}{kept, older, r.URL.Query(), present.Categories}
	return p, nil
}

// maxTurns bounds the turns that usage is plotted of.
const maxTurns = 60

// usage is what an agent took: plots over its newest turns, and its budget.
func (c *Console) usage(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "usage", "brief runtime")
	if err != nil {
		return p, err
	}
	report, err := c.client.Latency(r.Context(), r.PathValue("id"), maxTurns)
	if err != nil {
		return p, err
	}
	budget, err := c.client.Budget(r.Context(), r.PathValue("id"))
	if err != nil {
		return p, err
	}
	taken, err := c.taken(r, report)
	p.Data = struct {
		Budget view.TreeBudget
		Plots  []plot
		Turns  []view.TurnLatency
	}{budget, plotsOf(report.Turns, taken), report.Turns}
	return p, err
}

// taken is what a turn took.
type taken struct {
	in, out  int64  // tokens
	mark     string // turns.Approximately where a part is an estimate
	cost     int64  // micros
	unpriced bool   // a part of it has no price
}

// taken is what turns took, by their ids, as far as the newest pages of the record tell.
func (c *Console) taken(r *http.Request, report view.LatencyReport) (map[string]taken, error) {
	out, before, id := make(map[string]taken), int64(0), r.PathValue("id")
	for range 4 {
		found, err := c.client.Events(r.Context(), id, view.EventQuery{BeforeSeq: before, Limit: view.MaxLimit,
			Descending: true})
		if err != nil {
			return nil, err
		}
		for _, e := range found.Events {
			if t := e.Payload.Turn; t != nil && t.TokenUsage != nil {
				out[t.TurnID] = taken{in: t.TokenUsage.InputTokens, out: t.TokenUsage.OutputTokens,
					mark: t.TokenUsage.Mark()}
			} else if one, ended := out[e.Provenance.TurnID]; ended && e.Type == turns.CostRecorded {
				var cost turns.Cost
				_ = json.Unmarshal(e.Payload.Data, &cost) // then nothing is known of it
				one.cost, one.unpriced = one.cost+cost.Micros(), one.unpriced || cost.Amount == "unknown"
				out[e.Provenance.TurnID] = one
			}
			before = e.EventSeq
		}
		if !found.HasOlder || len(out) >= len(report.Turns) {
			break
		}
	}
	return out, nil
}

// debug is the prompt that the agent's next turn would begin with.
func (c *Console) debug(r *http.Request) (page, error) {
	p, _, err := c.ofAgent(r, "debug", "")
	if err != nil {
		return p, err
	}
	text := r.URL.Query().Get("text")
	var prompt json.RawMessage
	if text != "" {
		prompt, err = c.client.DebugPrompt(r.Context(), r.PathValue("id"), text)
	}
	p.Data = struct {
		Text   string
		Prompt json.RawMessage
		Hint   *ledger.Failure
	}{text, prompt, p.Agent.Agent.LastRuntimeFailure}
	return p, err
}

// session is the page of a session of a client.
func (c *Console) session(r *http.Request) (page, error) {
	s, err := c.client.Session(r.Context(), r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	turns, err := c.client.SessionTurns(r.Context(), s.ID)
	if err != nil {
		return page{}, err
	}
	shown := make([]sessionTurn, len(turns.Data))
	for i, t := range turns.Data {
		shown[i] = c.sessionTurn(r, t, s.Owner == operator, i >= len(shown)-wholeTurns)
	}
	var changed treeChange
	var unreadable string
	if s.Workspace != "" && s.Status == "open" {
		diff, err := c.client.DiffSession(r.Context(), s.ID, maxPatch)
		if err == nil {
			changed = newChange(s.Workspace, "", diff.Changes, diff.PatchText)
		} else {
			f, _, _ := wire.Explain(err)
			unreadable = visible.WithRemedy(f.Error.Message, f.Error.Hint)
		}
	}
	return page{Name: "session", Title: "Session " + cmp.Or(s.Name, s.ID), Data: struct {
		wire.Session
		Turns      []sessionTurn
		Change     treeChange
		Unreadable string
		Mode       present.Mode
	}{s, shown, changed, unreadable, modeOf(r)}}, nil
}

// sessionTurn is a turn of a session, as its page shows it.
type sessionTurn struct {
	wire.SessionTurn
	Live   bool          // it goes on
	Follow bool          // and its rows come by a stream
	Rows   []present.Row // what was asked and done; none: only the beginnings are shown
}

// sessionTurn is a turn as the page shows it: one of the operator with its rows, if it is to be shown whole or goes on.
func (c *Console) sessionTurn(r *http.Request, t wire.SessionTurn, operators, whole bool) sessionTurn {
	shown := sessionTurn{SessionTurn: t, Live: t.Status == "queued" || t.Status == "in_progress"}
	if !operators || t.ResponseID == "" {
		return shown
	}
	if shown.Follow = shown.Live; shown.Live || !whole {
		return shown
	}
	var err error
	if shown.Rows, err = c.turnRows(r, t.ResponseID); err != nil {
		c.log.Debug("a turn is not shown whole", "response", t.ResponseID, "err", err) // its beginning is
	}
	return shown
}

// wholeTurns bounds the turns of a session that are shown whole: the newest.
const wholeTurns = 10

// turnRows are the rows of a turn that has ended.
func (c *Console) turnRows(r *http.Request, id string) (rows []present.Row, err error) {
	ctx := r.Context()
	asked, err := c.client.Responses().InputItems(ctx, id)
	if err != nil {
		return nil, err
	}
	list := new(present.List)
	list.Put(present.Asked(id, asked)...)
	var fold present.Turn
	for ev, err := range c.client.Responses().Events(ctx, id, -1) {
		if err != nil {
			return nil, err
		}
		list.Put(fold.Event(ev)...)
	}
	return list.Rows(modeOf(r)), nil
}
