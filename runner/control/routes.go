package control

import (
	"net/http"

	"holon/runner/agent/view"
)

// route is one way into the API. The OpenAPI document describes it.
type route struct {
	method, path string
	handle       handler          // gives what is answered as JSON, and takes no body
	take         handler          // instead: takes a body
	stream       http.HandlerFunc // instead: answers by itself
	capability   bool             // the path proves what its caller may do
	queries      bool             // no other path has parameters
	live         bool             // refuses an agent that was removed at once
	debugs       bool             // through the local socket also for private children
	clients      bool             // for every caller, and not for operators only
}

type handler func(w http.ResponseWriter, r *http.Request) (any, error)

// Whether a body may be empty.
const (
	required = false
	optional = true
)

// takes makes the handler of a route that takes a JSON object of at most limit bytes.
func takes[T any](s *Server, limit int64, optional bool,
	handle func(http.ResponseWriter, *http.Request, T) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		var body T
		if err := s.decode(w, r, limit, &body, optional); err != nil {
			return nil, err
		}
		return handle(w, r, body)
	}
}

// callbacks begins the paths of triggers.
const callbacks = "/callbacks/"

// routes are all ways into the API.
func (s *Server) routes() []route {
	const agent, control = "/agents/{id}", "/control/agents/{id}"
	const workspace = control + "/workspace"
	const item, task = control + "/work-items/{work_item_id}", control + "/tasks/{task_id}"
	return append(append(s.sessionRoutes(), s.operatorRoutes()...), []route{
		{method: "GET", path: "/", handle: s.getRoot},
		{method: "GET", path: "/healthz", handle: s.getHealth, capability: true},
		{method: "GET", path: "/handshake", handle: s.getHandshake},
		{method: "GET", path: "/models", handle: s.getModels},
		{method: "GET", path: "/control/runtime/readiness", handle: s.getReadiness},
		{method: "GET", path: "/control/runtime/status", handle: s.getRuntimeStatus},
		{method: "POST", path: "/control/runtime/shutdown", handle: s.postShutdown},
		{method: "POST", path: "/control/ui/login", handle: s.postUILogin},
		{method: "GET", path: "/openapi.json", handle: s.getOpenAPI},
		{method: "GET", path: "/metrics", stream: s.getMetrics},

		{method: "GET", path: "/agents/list", handle: s.getAgents},
		{method: "GET", path: agent + "/messages/{message_id}", handle: shows(s, "message_id", view.Snapshot.Message),
			debugs: true},
		{method: "GET", path: agent + "/timers", handle: lists(s, view.Snapshot.Timers), queries: true},
		{method: "GET", path: agent + "/queue", handle: lists(s, view.Snapshot.Queue), queries: true},
		{method: "GET", path: agent + "/work-items", handle: lists(s, view.Snapshot.WorkItems), queries: true},
		{method: "GET", path: agent + "/work-items/{work_item_id}", handle: shows(s, "work_item_id", view.Snapshot.Work)},
		{method: "GET", path: agent + "/tasks", handle: lists(s, view.Snapshot.Tasks), queries: true},
		{method: "GET", path: agent + "/tasks/{task_id}", handle: shows(s, "task_id", view.Snapshot.Task)},
		{method: "GET", path: agent + "/tasks/{task_id}/output", handle: s.getTaskOutput, queries: true},
		{method: "GET", path: agent + "/memory/search", handle: s.ofMemory(s.searchMemory, "query", "limit",
			"all_workspaces"), queries: true},
		{method: "GET", path: agent + "/memory/{source_ref}", handle: s.ofMemory(s.showMemory, "max_chars"), queries: true},
		{method: "POST", path: control + "/memory/rebuild", handle: s.ofMemory(s.rebuildMemory), live: true},
		{method: "GET", path: "/workspaces", handle: s.getRegistry},
		{method: "GET", path: agent + "/workspaces", handle: lists(s, view.Snapshot.Workspaces), queries: true},
		{method: "GET", path: agent + "/latency", handle: lists(s, view.Snapshot.LatencyReport), queries: true},
		{method: "GET", path: agent + "/budget", handle: s.getBudget},
		{method: "GET", path: agent + "/worktree-summary", handle: s.getWorktrees},
		{method: "GET", path: "/worktree-summary", handle: s.getWorktrees},
		{method: "GET", path: agent + "/events", handle: s.getEvents, queries: true, debugs: true},
		{method: "GET", path: agent + "/events/stream", stream: s.getStream, queries: true, debugs: true},
		{method: "GET", path: agent + "/status", handle: s.getStatus},
		{method: "GET", path: agent + "/state", handle: s.getState},
		{method: "GET", path: agent + "/briefs", handle: lists(s, view.Snapshot.Briefs), queries: true, debugs: true},
		{method: "GET", path: agent + "/transcript", handle: lists(s, view.Snapshot.Transcript), queries: true, debugs: true},
		{method: "GET", path: agent + "/turns/{turn_id}/files/{path}", stream: s.getTurnFile},
		{method: "GET", path: "/runs/{run_id}/files/{path}", stream: s.getRunFile},
		// the same of the default agent
		{method: "GET", path: "/status", handle: s.getStatus},
		{method: "GET", path: "/state", handle: s.getState},
		{method: "GET", path: "/briefs", handle: lists(s, view.Snapshot.Briefs), queries: true},
		{method: "GET", path: "/transcript", handle: lists(s, view.Snapshot.Transcript), queries: true},

		{method: "GET", path: "/runtime/events", stream: s.getRuntimeEvents, queries: true, debugs: true},
		{method: "GET", path: "/runtime/read/{model}", handle: s.getReadModel, queries: true, debugs: true},
		{method: "GET", path: "/runtime/export/{kind}", handle: s.getExport, queries: true, debugs: true},
		{method: "POST", path: "/runtime/commands/{name}", take: s.postCommand},

		{method: "POST", path: agent + "/enqueue", take: takes(s, maxPrompt, required, s.postEnqueue)},
		{method: "POST", path: "/enqueue", take: takes(s, maxPrompt, required, s.postEnqueue)},
		{method: "POST", path: control + "/prompt", take: takes(s, maxParts, required, s.postPrompt)},
		{method: "POST", path: control + "/wake", take: takes(s, maxSmall, required, s.postWake)},
		{method: "POST", path: "/webhooks/generic/{id}", take: s.postWebhook, queries: true},
		{method: "POST", path: callbacks + "wake/{token}", take: s.postCallback, queries: true, capability: true},
		{method: "POST", path: callbacks + "enqueue/{token}", take: s.postLegacyCallback, queries: true, capability: true},

		{method: "POST", path: control + "/create", take: takes(s, maxSmall, optional, s.postCreate)},
		{method: "POST", path: control + "/control", take: takes(s, maxSmall, required, s.postControl), live: true},
		{method: "POST", path: control + "/current-run/abort", take: takes(s, maxSmall, optional, s.postAbort), live: true},
		{method: "POST", path: control + "/archive", take: takes(s, maxSmall, optional, s.postArchive)},
		{method: "POST", path: control + "/timers", take: takes(s, maxSmall, required, s.postTimer)},
		{method: "DELETE", path: control + "/timers/{timer_id}", handle: s.deleteTimer, live: true},
		{method: "DELETE", path: control + "/queue/{message_id}", handle: s.deleteQueued, live: true},
		{method: "POST", path: control + "/work-items", take: takes(s, maxSmall, required, s.postWorkItem)},
		{method: "POST", path: item + "/pick", handle: s.postPickWork, live: true},
		{method: "POST", path: item + "/block", take: takes(s, maxSmall, required, s.postBlockWork), live: true},
		{method: "POST", path: item + "/complete", handle: s.postCompleteWork, live: true},
		{method: "POST", path: control + "/tasks", take: takes(s, maxPrompt, required, s.postTask)},
		{method: "POST", path: task + "/input", take: takes(s, maxPrompt, required, s.postTaskInput), live: true},
		{method: "POST", path: task + "/stop", take: takes(s, maxSmall, optional, s.postTaskStop), live: true},
		{method: "POST", path: workspace + "/attach", take: ofWorkspaces(s, s.postAttach), live: true},
		{method: "POST", path: workspace + "/use", take: ofWorkspaces(s, s.postUse), live: true},
		{method: "POST", path: workspace + "/exit", take: ofWorkspaces(s, s.postExit), live: true},
		{method: "POST", path: workspace + "/detach", take: ofWorkspaces(s, s.postDetach), live: true},
		{method: "POST", path: workspace + "/diff", take: ofWorkspaces(s, s.postDiff), live: true},
		{method: "POST", path: workspace + "/apply", take: ofWorkspaces(s, s.postApply), live: true},
		{method: "POST", path: workspace + "/checkout", take: ofWorkspaces(s, s.postCheckout), live: true},
		{method: "POST", path: workspace + "/sync", take: ofWorkspaces(s, s.postSync), live: true},
		{method: "POST", path: workspace + "/discard", take: ofWorkspaces(s, s.postDiscard), live: true},
		{method: "POST", path: control + "/model", take: takes(s, maxSmall, required, s.postModel), live: true},
		{method: "POST", path: control + "/model/clear", handle: s.postClearModel, live: true},
		{method: "POST", path: control + "/image", take: takes(s, maxSmall, required, s.postImage), live: true},
		{method: "POST", path: control + "/budget", take: takes(s, maxSmall, required, s.postBudget), live: true},
		{method: "POST", path: control + "/debug-prompt",
			take: takes(s, maxPrompt, required, s.postDebugPrompt), live: true, debugs: true},
		{method: "POST", path: control + "/trigger", handle: s.postTrigger, live: true},
		{method: "POST", path: control + "/trigger/rotate", handle: s.postRotateTrigger, live: true},
		{method: "POST", path: control + "/trigger/revoke", handle: s.postRevokeTrigger, live: true},
		{method: "POST", path: control + "/triggers", take: takes(s, maxSmall, required, s.postNewTrigger), live: true},
		{method: "POST", path: control + "/triggers/{trigger_id}/rotate", handle: s.postRotateTrigger, live: true},
		{method: "POST", path: control + "/triggers/{trigger_id}/revoke", handle: s.postRevokeTrigger, live: true},
	}...)
}
