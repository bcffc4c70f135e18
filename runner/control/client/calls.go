package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holon/responses/tasks"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

const (
	agents  = "/agents/"
	control = "/control/agents/"
)

// Root asks which agent is the default one.
func (c *Client) Root(ctx context.Context) (out wire.Root, err error) {
	return out, c.call(ctx, http.MethodGet, "/", nil, "", &out)
}

// Handshake asks what the daemon is and can do.
func (c *Client) Handshake(ctx context.Context) (out wire.Handshake, err error) {
	return out, c.call(ctx, http.MethodGet, "/handshake", nil, "", &out)
}

// Models asks which models there are.
func (c *Client) Models(ctx context.Context) (out view.Models, err error) {
	return out, c.call(ctx, http.MethodGet, "/models", nil, "", &out)
}

// Readiness asks whether the runtime has recovered and works.
func (c *Client) Readiness(ctx context.Context) (out wire.Readiness, err error) {
	return out, c.call(ctx, http.MethodGet, "/control/runtime/readiness", nil, "", &out)
}

// RuntimeStatus asks how the runtime is.
func (c *Client) RuntimeStatus(ctx context.Context) (out view.RuntimeStatus, err error) {
	return out, c.call(ctx, http.MethodGet, "/control/runtime/status", nil, "", &out)
}

// Shutdown asks the daemon to end. It returns when that was accepted, not when
// it is gone.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/control/runtime/shutdown", nil, "", nil)
}

// UILogin returns a link with which one browser gets into the web console, once.
func (c *Client) UILogin(ctx context.Context) (out wire.UILogin, err error) {
	return out, c.call(ctx, http.MethodPost, "/control/ui/login", nil, "", &out)
}

// OpenAPI returns the description of the API.
func (c *Client) OpenAPI(ctx context.Context) (out json.RawMessage, err error) {
	return out, c.call(ctx, http.MethodGet, "/openapi.json", nil, "", &out)
}

// Agents lists the public agents, by id.
func (c *Client) Agents(ctx context.Context) (out []view.AgentListEntry, err error) {
	return out, c.call(ctx, http.MethodGet, "/agents/list", nil, "", &out)
}

// get reads below an agent.
func (c *Client) get(ctx context.Context, agentID, below string, out any) error {
	return c.callAgent(ctx, http.MethodGet, agents, agentID, below, nil, "", out)
}

// post sends body below an agent's control path.
func (c *Client) post(ctx context.Context, agentID, below string, body any, key string, out any) error {
	return c.callAgent(ctx, http.MethodPost, control, agentID, below, body, key, out)
}

// callAgent is call for a path of an agent.
func (c *Client) callAgent(ctx context.Context, method, prefix, agentID, below string, body any, key string,
	out any) error {
	path, err := c.agent(ctx, prefix, agentID, below)
	if err != nil {
		return err
	}
	return c.call(ctx, method, path, body, key, out)
}

// Status returns the state of an agent.
func (c *Client) Status(ctx context.Context, agentID string) (out view.AgentSummary, err error) {
	return out, c.get(ctx, agentID, "/status", &out)
}

// State is what a client shows of an agent before it follows its events.
func (c *Client) State(ctx context.Context, agentID string) (out view.StateSnapshot, err error) {
	return out, c.get(ctx, agentID, "/state", &out)
}

// Briefs returns the newest briefs, the oldest first. limit 0 is the server's.
func (c *Client) Briefs(ctx context.Context, agentID string, limit int) (out []ledger.Brief, err error) {
	return out, c.get(ctx, agentID, limited("/briefs", limit), &out)
}

// Transcript returns the newest entries of the transcript, the oldest first.
func (c *Client) Transcript(ctx context.Context, agentID string, limit int) (out []record.TranscriptEntry, err error) {
	return out, c.get(ctx, agentID, limited("/transcript", limit), &out)
}

// Timers returns timers.
func (c *Client) Timers(ctx context.Context, agentID string, limit int) (out []view.Timer, err error) {
	return out, c.get(ctx, agentID, limited("/timers", limit), &out)
}

// Bindings returns the bindings of the operator's transports to an agent, by id.
func (c *Client) Bindings(ctx context.Context, agentID string) (out []ledger.OperatorBinding, err error) {
	return out, c.get(ctx, agentID, "/operator-bindings", &out)
}

// Bind makes or replaces a binding.
func (c *Client) Bind(ctx context.Context, agentID string, b wire.Bind) (out wire.Bound, err error) {
	return out, c.post(ctx, agentID, "/operator-bindings", b, "", &out)
}

// RevokeBinding ends a binding.
func (c *Client) RevokeBinding(ctx context.Context, agentID, id string) (out ledger.OperatorBinding, err error) {
	return out, c.post(ctx, agentID, "/operator-bindings/"+url.PathEscape(id)+"/revoke", nil, "", &out)
}

// TestBinding notifies the operator by a binding, and returns how the first attempt ended.
func (c *Client) TestBinding(ctx context.Context, agentID, id string) (out view.Notice, err error) {
	return out, c.post(ctx, agentID, "/operator-bindings/"+url.PathEscape(id)+"/test", nil, "", &out)
}

// Notifications returns what the operator was notified of, the oldest first, with its deliveries.
func (c *Client) Notifications(ctx context.Context, agentID string, limit int) (out view.NoticeList, err error) {
	return out, c.get(ctx, agentID, limited("/notifications", limit), &out)
}

// Acknowledge resolves a notification that the operator has seen.
func (c *Client) Acknowledge(ctx context.Context, agentID, id string) (out ledger.Notification, err error) {
	return out, c.post(ctx, agentID, "/notifications/"+url.PathEscape(id)+"/acknowledge", nil, "", &out)
}

// Message returns where a message is, and how its turn ended.
func (c *Client) Message(ctx context.Context, agentID, messageID string) (out view.MessageState, err error) {
	return out, c.get(ctx, agentID, "/messages/"+url.PathEscape(messageID), &out)
}

// Queue returns the messages that wait for a turn, in the order in which they are taken.
func (c *Client) Queue(ctx context.Context, agentID string, limit int) (out []view.MessageState, err error) {
	return out, c.get(ctx, agentID, limited("/queue", limit), &out)
}

// Latency returns where the time of the newest turns went.
func (c *Client) Latency(ctx context.Context, agentID string, limit int) (out view.LatencyReport, err error) {
	return out, c.get(ctx, agentID, limited("/latency", limit), &out)
}

// Export returns the record of an agent at a cut, as evidence, replay or review. through 0 is the last event.
func (c *Client) Export(ctx context.Context, agentID, kind string, through int64) (out json.RawMessage, err error) {
	v := url.Values{}
	if agentID != "" {
		v.Set("agent_id", agentID)
	}
	if through > 0 {
		v.Set("through", strconv.FormatInt(through, 10))
	}
	return out, c.call(ctx, http.MethodGet, "/runtime/export/"+url.PathEscape(kind)+"?"+v.Encode(), nil, "", &out)
}

// Command carries out a command of the Agent Runtime standard.
func (c *Client) Command(ctx context.Context, name string, cmd wire.Command) (out wire.CommandAnswer, err error) {
	return out, c.call(ctx, http.MethodPost, "/runtime/commands/"+url.PathEscape(name), cmd, "", &out)
}

// Events returns a page of events.
func (c *Client) Events(ctx context.Context, agentID string, q view.EventQuery) (out view.EventPage, err error) {
	v := url.Values{}
	number := func(name string, n int64) {
		if n > 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	number("after_seq", q.AfterSeq)
	number("before_seq", q.BeforeSeq)
	number("limit", int64(q.Limit))
	number("max_level", int64(q.MaxLevel))
	if q.Descending {
		v.Set("order", "desc")
	}
	if q.Projection != "" {
		v.Set("projection", q.Projection)
	}
	return out, c.get(ctx, agentID, "/events?"+v.Encode(), &out)
}

// Prompt gives an agent a message of the operator. With a key, which may be "",
// the same call again is answered with the message there is.
func (c *Client) Prompt(ctx context.Context, agentID string, p wire.Prompt, key string) (out wire.Enqueued, err error) {
	return out, c.post(ctx, agentID, "/prompt", p, key, &out)
}

// Enqueue gives an agent a message from outside. key is as with Prompt.
func (c *Client) Enqueue(ctx context.Context, agentID string, e wire.Enqueue, key string) (out wire.Enqueued,
	err error) {
	return out, c.callAgent(ctx, http.MethodPost, agents, agentID, "/enqueue", e, key, &out)
}

// Wake asks an agent to look.
func (c *Client) Wake(ctx context.Context, agentID string, w wire.Wake) (out wire.Woken, err error) {
	return out, c.post(ctx, agentID, "/wake", w, "", &out)
}

// Control starts or stops an agent, or lets its conversation begin anew with its next turn.
func (c *Client) Control(ctx context.Context, agentID string, what wire.Control) (out wire.Controlled, err error) {
	return out, c.post(ctx, agentID, "/control", what, "", &out)
}

// Abort ends the current run.
func (c *Client) Abort(ctx context.Context, agentID string, a wire.Abort) (out wire.Aborted, err error) {
	return out, c.post(ctx, agentID, "/current-run/abort", a, "", &out)
}

// Create makes an agent. template "" is the default one.
func (c *Client) Create(ctx context.Context, agentID, template string) (out view.AgentSummary, err error) {
	return c.CreateAs(ctx, agentID, wire.Create{Template: template})
}

// CreateAs makes an agent.
func (c *Client) CreateAs(ctx context.Context, agentID string, a wire.Create) (out view.AgentSummary, err error) {
	return out, c.post(ctx, agentID, "/create", a, "", &out)
}

// RuntimeEvents returns a page of an agent's record after the number of an event.
func (c *Client) RuntimeEvents(ctx context.Context, agentID string, after int64) (out view.RecordPage, err error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(view.MaxLimit)}}
	if agentID != "" {
		q.Set("agent_id", agentID)
	}
	return out, c.call(ctx, http.MethodGet, "/runtime/events?"+q.Encode(), nil, "", &out)
}

// SearchMemory returns what of an agent's memory fits a query.
func (c *Client) SearchMemory(ctx context.Context, agentID string, m view.MemoryQuery) (out view.MemoryResults,
	err error) {
	q := url.Values{"limit": {strconv.Itoa(m.Limit)}, "all_workspaces": {strconv.FormatBool(m.AllWorkspaces)},
		"query": {strings.ToValidUTF8(m.Text[:min(len(m.Text), maxQuery)], "\ufffd")}} // of which the first words count
	return out, c.get(ctx, agentID, "/memory/search?"+q.Encode(), &out)
}

// maxQuery is what of the text of a search is sent, in bytes: a URL has room for it, and it has more words than are
// looked for.
const maxQuery = 8 << 10

// Memory returns the exact text of a memory, at most limit characters of it, 0 for a default.
func (c *Client) Memory(ctx context.Context, agentID, ref string, limit int) (out view.MemorySource, err error) {
	return out, c.get(ctx, agentID, "/memory/"+url.PathEscape(ref)+"?max_chars="+strconv.Itoa(limit), &out)
}

// RebuildMemory makes the index of an agent's memory anew.
func (c *Client) RebuildMemory(ctx context.Context, agentID string) (out view.MemoryRebuilt, err error) {
	return out, c.post(ctx, agentID, "/memory/rebuild", nil, "", &out)
}

// WorkItems returns the newest work items.
func (c *Client) WorkItems(ctx context.Context, agentID string, limit int) (out []view.WorkRecord, err error) {
	return out, c.get(ctx, agentID, limited("/work-items", limit), &out)
}

// WorkItem returns a work item.
func (c *Client) WorkItem(ctx context.Context, agentID, itemID string) (out view.WorkRecord, err error) {
	return out, c.get(ctx, agentID, "/work-items/"+url.PathEscape(itemID), &out)
}

// CreateWork makes a work item. key is as with Prompt.
func (c *Client) CreateWork(ctx context.Context, agentID string, w wire.WorkItem, key string) (out view.WorkRecord,
	err error) {
	return out, c.post(ctx, agentID, "/work-items", w, key, &out)
}

// PickWork makes a work item the agent's current one.
func (c *Client) PickWork(ctx context.Context, agentID, itemID string) (out view.WorkRecord, err error) {
	return out, c.post(ctx, agentID, "/work-items/"+url.PathEscape(itemID)+"/pick", nil, "", &out)
}

// BlockWork says what blocks a work item, "" for nothing any more.
func (c *Client) BlockWork(ctx context.Context, agentID, itemID, by string) (out view.WorkRecord, err error) {
	return out, c.post(ctx, agentID, "/work-items/"+url.PathEscape(itemID)+"/block", wire.Block{BlockedBy: by}, "", &out)
}

// CompleteWork completes a work item.
func (c *Client) CompleteWork(ctx context.Context, agentID, itemID string) (out view.WorkRecord, err error) {
	return out, c.post(ctx, agentID, "/work-items/"+url.PathEscape(itemID)+"/complete", nil, "", &out)
}

// Tasks returns the newest tasks.
func (c *Client) Tasks(ctx context.Context, agentID string, limit int) (out []view.TaskRecord, err error) {
	return out, c.get(ctx, agentID, limited("/tasks", limit), &out)
}

// Task returns the state of a task.
func (c *Client) Task(ctx context.Context, agentID, taskID string) (out view.TaskStatus, err error) {
	return out, c.get(ctx, agentID, taskPath(taskID, ""), &out)
}

// TaskOutput returns what a task has printed, in about so many tokens, 0 for a default. It waits for the end of the
// task, but not longer than wait.
func (c *Client) TaskOutput(ctx context.Context, agentID, taskID string, wait time.Duration, tokens int) (
	out view.TaskOutput, err error) {
	q := url.Values{"timeout_ms": {strconv.FormatInt(wait.Milliseconds(), 10)},
		"max_output_tokens": {strconv.Itoa(tokens)}}
	return out, c.get(ctx, agentID, taskPath(taskID, "/output?"+q.Encode()), &out)
}

// StartTask starts a command in the agent's container. key is as with Prompt.
func (c *Client) StartTask(ctx context.Context, agentID string, t wire.Task, key string) (out view.TaskRecord,
	err error) {
	return out, c.post(ctx, agentID, "/tasks", t, key, &out)
}

// TaskInput writes to a task.
func (c *Client) TaskInput(ctx context.Context, agentID, taskID string, in tasks.Input) (out tasks.InputResult,
	err error) {
	return out, c.post(ctx, agentID, taskPath(taskID, "/input"), in, "", &out)
}

// StopTask ends a task.
func (c *Client) StopTask(ctx context.Context, agentID, taskID string, force bool) (out tasks.StopResult, err error) {
	return out, c.post(ctx, agentID, taskPath(taskID, "/stop"), tasks.Stop{Force: force}, "", &out)
}

func taskPath(taskID, rest string) string { return "/tasks/" + url.PathEscape(taskID) + rest }

// CreateTimer makes a timer. key is as with Prompt.
func (c *Client) CreateTimer(ctx context.Context, agentID string, t wire.Timer, key string) (out wire.MadeTimer,
	err error) {
	return out, c.post(ctx, agentID, "/timers", t, key, &out)
}

// CancelTimer ends a timer.
func (c *Client) CancelTimer(ctx context.Context, agentID, timerID string) (out view.Timer, err error) {
	return out, c.callAgent(ctx, http.MethodDelete, control, agentID, "/timers/"+url.PathEscape(timerID), nil, "", &out)
}

// Unqueue takes a message out of the queue of an agent.
func (c *Client) Unqueue(ctx context.Context, agentID, messageID string) (out ledger.Entry, err error) {
	return out, c.callAgent(ctx, http.MethodDelete, control, agentID, "/queue/"+url.PathEscape(messageID), nil, "", &out)
}

// SetModel sets which model an agent asks from its next turn on.
func (c *Client) SetModel(ctx context.Context, agentID string, m wire.Model) (out wire.ModelSet, err error) {
	return out, c.post(ctx, agentID, "/model", m, "", &out)
}

// ClearModel returns an agent to the runtime's model.
func (c *Client) ClearModel(ctx context.Context, agentID string) (out wire.ModelSet, err error) {
	return out, c.post(ctx, agentID, "/model/clear", nil, "", &out)
}

// SetImage sets the image of an agent's containers, "" for the runtime's.
func (c *Client) SetImage(ctx context.Context, agentID, image string) (out wire.ImageSet, err error) {
	return out, c.post(ctx, agentID, "/image", wire.Image{Image: image}, "", &out)
}

// Budget returns the account of an agent and its children, and SetBudget bounds it.
func (c *Client) Budget(ctx context.Context, agentID string) (out view.TreeBudget, err error) {
	return out, c.get(ctx, agentID, "/budget", &out)
}

func (c *Client) SetBudget(ctx context.Context, agentID string, b wire.Budget) (out view.TreeBudget, err error) {
	return out, c.post(ctx, agentID, "/budget", b, "", &out)
}

// Archive removes an agent for good, or returns what it would lose.
func (c *Client) Archive(ctx context.Context, agentID string, a wire.Archive) (out wire.Archived, err error) {
	return out, c.post(ctx, agentID, "/archive", a, "", &out)
}

// DebugPrompt returns the prompt that a text would be sent in, and what the model would be asked.
func (c *Client) DebugPrompt(ctx context.Context, agentID, text string) (out json.RawMessage, err error) {
	return out, c.post(ctx, agentID, "/debug-prompt", wire.DebugPrompt{Text: text}, "", &out)
}

// Trigger returns an agent's external trigger, made if there is none, with its URL.
func (c *Client) Trigger(ctx context.Context, agentID string) (out wire.Trigger, err error) {
	return out, c.post(ctx, agentID, "/trigger", nil, "", &out)
}

// CreateTrigger makes another trigger of an agent, which takes only signed deliveries.
func (c *Client) CreateTrigger(ctx context.Context, agentID string, n wire.NewTrigger) (out wire.Trigger, err error) {
	return out, c.post(ctx, agentID, "/triggers", n, "", &out)
}

// RotateTrigger gives a trigger of an agent a new URL; the old one ends. id "" is the one without signatures.
func (c *Client) RotateTrigger(ctx context.Context, agentID, id string) (out wire.Trigger, err error) {
	return out, c.post(ctx, agentID, ofTrigger(id)+"/rotate", nil, "", &out)
}

// RevokeTrigger ends a trigger of an agent. id "" is the one without signatures.
func (c *Client) RevokeTrigger(ctx context.Context, agentID, id string) (out wire.Trigger, err error) {
	return out, c.post(ctx, agentID, ofTrigger(id)+"/revoke", nil, "", &out)
}

func ofTrigger(id string) string {
	if id == "" {
		return "/trigger"
	}
	return "/triggers/" + url.PathEscape(id)
}
