package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"holon/responses/tasks"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

// plane answers as a control plane with one agent, main, whose events a test adds.
type plane struct {
	mu      sync.Mutex
	events  []map[string]any
	added   chan struct{} // closed when there is one more
	prompts []wire.Prompt
	applies []view.WorkspaceApply
	patch   string        // what the agent changed; "": nothing
	queued  []string      // ids of the messages that wait
	hold    chan struct{} // if there is one, prompts are answered when it is closed
}

func newPlane() *plane { return &plane{added: make(chan struct{})} }

// add adds an event of an answer, or of another category.
func (p *plane) add(category, title, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq, kind := len(p.events)+1, "workspace_attached" // a row of its own
	if category == "brief" {
		kind = "brief_created"
	}
	p.events = append(p.events, map[string]any{"id": fmt.Sprintf("evt_%d", seq), "event_seq": seq, "type": kind,
		"ts": "2026-11-22T10:00:00Z", "agent_id": "main",
		"display": map[string]any{"visibility": "turn_result", "level": 3, "category": category, "title": title,
			"body": body, "summary": title, "source_event_kind": kind}})
	close(p.added)
	p.added = make(chan struct{})
}

// wait sets the messages that wait, and adds an event of that.
func (p *plane) wait(ids ...string) {
	p.mu.Lock()
	p.queued = ids
	p.mu.Unlock()
	p.add("message", "queue", "changed")
}

// sent are the texts of the prompts.
func (p *plane) sent() (texts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.prompts {
		texts = append(texts, one.Text)
	}
	return texts
}

func (p *plane) queue() (list []view.MessageState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.queued {
		list = append(list, view.MessageState{MessageID: id})
	}
	return list
}

// since returns the events after a number, and a channel that is closed when there are more.
func (p *plane) since(seq int) ([]map[string]any, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[min(seq, len(p.events)):], p.added
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number := func(name string) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
	var out any
	switch at := r.URL.Path; {
	case at == "/":
		out = wire.Root{OK: true, DefaultAgent: "main"}
	case at == "/agents/list":
		var one view.AgentListEntry
		one.Identity.AgentID, one.WaitingReason = "main", "<img src=x onerror=alert(1)>"
		out = []view.AgentListEntry{one}
	case at == "/sessions":
		out = wire.SessionList{Object: "list", Data: []wire.Session{{ID: "sess_1", Name: "<b>name</b>", Status: "open"}}}
	case strings.HasSuffix(at, "/turns"):
		out = wire.SessionTurnList{Data: []wire.SessionTurn{{ResponseID: "resp_1", InputPreview: "do it"}}}
	case strings.HasPrefix(at, "/sessions/sess_"):
		one := wire.Session{ID: strings.TrimPrefix(at, "/sessions/"), Status: "open", Owner: "operator", Model: "m/m"}
		if at == "/sessions/sess_other" {
			one.Owner = "ci"
		}
		out = one
	case at == "/v1/responses" && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusConflict)
		out = map[string]any{"error": map[string]any{"code": "session_busy", "message": "a turn runs", "type": "conflict"}}
	case at == "/agents/main/queue":
		out = p.queue()
	case at == "/agents/main/state":
		var now view.StateSnapshot
		now.Agent.Identity.AgentID, now.Agent.Agent.Status, now.EventLogEpoch = "main", "awake_idle", "E"
		out = now
	case at == "/agents/main/events":
		all, _ := p.since(0)
		if before := number("before_seq"); before > 0 {
			all = all[:min(before-1, len(all))]
		}
		first := max(0, len(all)-number("limit"))
		page := map[string]any{"event_log_epoch": "E", "has_older": first > 0}
		var list []any
		for i := len(all) - 1; i >= first; i-- {
			list = append(list, all[i])
		}
		page["events"] = list
		out = page
	case at == "/agents/main/events/stream":
		p.stream(w, r, number("after_seq"))
		return
	case at == "/control/agents/main/prompt":
		var prompt wire.Prompt
		_ = json.NewDecoder(r.Body).Decode(&prompt)
		p.mu.Lock()
		p.prompts = append(p.prompts, prompt)
		hold := p.hold
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		out = wire.Enqueued{OK: true}
	case at == "/control/agents/main/workspace/diff":
		p.mu.Lock()
		defer p.mu.Unlock()
		out = []map[string]any{{"workspace_id": "w", "tree": "copy", "patch_text": p.patch,
			"changes": map[string]any{"patch_bytes": len(p.patch), "result_tree": "r1"}}}
	case at == "/control/agents/main/workspace/apply":
		var apply view.WorkspaceApply
		_ = json.NewDecoder(r.Body).Decode(&apply)
		p.mu.Lock()
		p.applies = append(p.applies, apply)
		p.mu.Unlock()
		out = []view.TreeApplied{}
		if len(apply.ResultTrees) > 0 && apply.ResultTrees[0] == "hooks" && !apply.AllowExecuted {
			w.WriteHeader(wire.Status("executed_files"))
			out = wire.Failure{Error: wire.FailureInfo{Code: "executed_files", Message: "no", Hint: "give --allow-executed"}}
		}
	case strings.HasPrefix(at, "/agents/main/tasks/task_"):
		var one view.TaskStatus
		one.Task.TaskID = strings.TrimPrefix(at, "/agents/main/tasks/")
		if one.Task.TaskID == "task_command" {
			one.Task.Command = &tasks.Command{Cmd: "make watch", AcceptsInput: true}
		}
		out = one
	case strings.HasPrefix(at, "/agents/main/"):
		out = []any{}
	default:
		w.WriteHeader(http.StatusNotFound)
		out = wire.Failure{Error: wire.FailureInfo{Code: "not_found", Message: "<i>not</i> here"}}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (p *plane) stream(w http.ResponseWriter, r *http.Request, after int) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"type\":\"stream_open\",\"event_log_epoch\":\"E\",\"after_seq\":%d}\n\n", after)
	for {
		events, more := p.since(after)
		for _, e := range events {
			data, _ := json.Marshal(e)
			fmt.Fprintf(w, "data: %s\n\n", data)
			after++
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}
