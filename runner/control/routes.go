package control

import (
	"net/http"
	"reflect"
	"slices"

	"holon/responses/openapi"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

// route is one way into the API, with what the OpenAPI document says of it.
type route struct {
	method, path string
	handle       func(w http.ResponseWriter, r *http.Request) (any, error) // gives what is answered as JSON
	stream       http.HandlerFunc                                          // instead: answers by itself
	// who calls it proves what they may by its path
	capability bool
	about      about
}

// about is what the document says of a route.
type about struct {
	id, tag, summary, text string
	query                  []openapi.Parameter
	takes                  reflect.Type // body; nil: none
	optional               bool         // the body may be missing
	any                    bool         // … is of any type
	keyed                  bool         // Idempotency-Key is taken
	gives                  reflect.Type // JSON; nil: any
	events                 bool         // the answer is an event stream
	text200                bool         // the answer is plain text
	errors                 []int        // statuses beside those that every route has
}

// routes are all ways into the API.
func (s *Server) routes() []route {
	return slices.Concat(s.runtimeRoutes(), s.readRoutes(), s.messageRoutes(), s.controlRoutes())
}

const (
	tagRuntime  = "runtime"
	tagAgents   = "agents"
	tagMessages = "messages"
	tagControl  = "control"
)

func (s *Server) runtimeRoutes() []route {
	return []route{
		{method: "GET", path: "/", handle: s.getRoot,
			about: about{id: "getRoot", tag: tagRuntime, summary: "Which agent is the default one",
				gives: reflect.TypeFor[wire.Root]()}},
		{method: "GET", path: "/handshake", handle: s.getHandshake,
			about: about{id: "getHandshake", tag: tagRuntime, summary: "What the server is and can do",
				gives: reflect.TypeFor[wire.Handshake]()}},
		{method: "GET", path: "/models", handle: s.getModels,
			about: about{id: "listModels", tag: tagRuntime, summary: "The models that agents can be set to",
				gives: reflect.TypeFor[view.Models]()}},
		{method: "GET", path: "/control/runtime/readiness", handle: s.getReadiness,
			about: about{id: "getReadiness", tag: tagRuntime, summary: "Whether the runtime has recovered and works",
				text: "Not ready is no error: ready is false.", gives: reflect.TypeFor[wire.Readiness]()}},
		{method: "GET", path: "/control/runtime/status", handle: s.getRuntimeStatus,
			about: about{id: "getRuntimeStatus", tag: tagRuntime, summary: "How the runtime is",
				gives: reflect.TypeFor[view.RuntimeStatus](), errors: []int{429}}},
		{method: "POST", path: "/control/runtime/shutdown", handle: s.postShutdown,
			about: about{id: "shutDown", tag: tagRuntime, summary: "End the runtime",
				text: "No agent is stopped by it. A body is not read.", gives: reflect.TypeFor[wire.ShuttingDown]()}},
		{method: "GET", path: "/openapi.json", handle: s.getOpenAPI,
			about: about{id: "getOpenAPI", tag: tagRuntime, summary: "This document"}},
		{method: "GET", path: "/metrics", stream: s.getMetrics,
			about: about{id: "getMetrics", tag: tagRuntime, summary: "Numbers, as Prometheus reads them", text200: true,
				errors: []int{429}}},
	}
}

func (s *Server) readRoutes() []route {
	limit := openapi.Query("limit", "at most so many of the newest", openapi.Integer().Between(0, view.MaxLimit))
	list := []route{
		{method: "GET", path: "/agents/list", handle: s.getAgents,
			about: about{id: "listAgents", tag: tagAgents, summary: "The public agents, by id",
				gives: reflect.TypeFor[[]view.AgentListEntry](), errors: []int{429}}},
		{method: "GET", path: "/agents/{id}/messages/{message_id}", handle: s.getMessage,
			about: about{id: "getMessage", tag: tagAgents, summary: "Where a message is, and how its turn ended",
				gives: reflect.TypeFor[view.MessageState](), errors: []int{403, 404}}},
		{method: "GET", path: "/agents/{id}/timers", handle: s.getTimers,
			about: about{id: "listTimers", tag: tagAgents, summary: "Timers", query: []openapi.Parameter{limit},
				gives: reflect.TypeFor[[]view.Timer](), errors: []int{403, 404}}},
		{method: "GET", path: "/agents/{id}/latency", handle: s.getLatency,
			about: about{id: "getLatency", tag: tagAgents, summary: "Where the time of the newest turns went",
				query: []openapi.Parameter{limit}, gives: reflect.TypeFor[view.LatencyReport](),
				errors: []int{403, 404}}},
		{method: "GET", path: "/agents/{id}/events", handle: s.getEvents,
			about: about{id: "listEvents", tag: tagAgents, summary: "A page of events",
				text: "A page whose texts are large ends early and says that there is more.",
				query: append(eventFilter(), openapi.Query("before_seq", "only events before it",
					openapi.Integer().AtLeast(0)), openapi.Query("order", "", openapi.Words("asc", "desc")), limit),
				gives: reflect.TypeFor[view.EventPage](), errors: []int{403, 404}}},
		{method: "GET", path: "/agents/{id}/events/stream", stream: s.getStream,
			about: about{id: "streamEvents", tag: tagAgents, summary: "Events as they come",
				text: "Server-sent events with the number of the event as id; Last-Event-ID is taken as after_seq. The " +
					"first frame is a stream_open. A stream_reset says that the cursor is of no use, " +
					"of another history or of events that are gone: take a new snapshot, and go on reading. A " +
					"stream_end says that the server ends the stream. A reader that is too slow is cut off and comes back.",
				query: append(eventFilter(), openapi.Query("epoch",
					"event_log_epoch of the snapshot that after_seq is of",
					openapi.Text()),
					openapi.Query("limit", "without a cursor: so many of the newest events first",
						openapi.Integer().Between(0, view.MaxLimit)),
					openapi.Parameter{Name: "Last-Event-ID", In: "header", Description: "goes before after_seq",
						Schema: openapi.Integer()}),
				events: true, errors: []int{403, 404, 429, 503}}},
	}
	for _, one := range []route{
		{path: "/status", handle: s.getStatus,
			about: about{id: "Status", summary: "An agent in short", gives: reflect.TypeFor[view.AgentSummary](),
				errors: []int{403, 404}}},
		{path: "/state", handle: s.getState,
			about: about{id: "State", summary: "An agent as a client shows it before it follows the events",
				text:  "All of it was true together; go on with the events after snapshot_through_seq.",
				gives: reflect.TypeFor[view.StateSnapshot](), errors: []int{403, 404, 429}}},
		{path: "/briefs", handle: s.getBriefs,
			about: about{id: "Briefs", summary: "What an agent told its operator", query: []openapi.Parameter{limit},
				gives: reflect.TypeFor[[]ledger.Brief](), errors: []int{403, 404}}},
		{path: "/transcript", handle: s.getTranscript,
			about: about{id: "Transcript", summary: "What was said and done", query: []openapi.Parameter{limit},
				gives: reflect.TypeFor[[]ledger.TranscriptEntry](), errors: []int{403, 404}}},
	} {
		one.method, one.about.tag = "GET", tagAgents
		alias := one
		alias.about.id, alias.about.text = "getDefault"+one.about.id, "Of the default agent."
		one.path, one.about.id = "/agents/{id}"+one.path, "get"+one.about.id
		list = append(list, one, alias)
	}
	return list
}

func eventFilter() []openapi.Parameter {
	return []openapi.Parameter{
		openapi.Query("after_seq", "only events after it", openapi.Integer().AtLeast(0)),
		openapi.Query("max_level", "only events of this level and more important ones",
			openapi.Integer().Between(0, 5)),
		openapi.Query("projection", "what the events carry",
			openapi.Words(view.ProjectionOperator, view.ProjectionDebug)),
	}
}

func (s *Server) messageRoutes() []route {
	enqueued := reflect.TypeFor[wire.Enqueued]()
	delivered := reflect.TypeFor[wire.Delivered]()
	message := []int{403, 404, 408, 409, 413, 415, 429}
	callback := about{tag: tagMessages, summary: "What comes to the URL of an external trigger",
		text: "It wakes the agent. The path is the capability; a body of any type is passed on.",
		any:  true, gives: delivered, errors: message,
		query: []openapi.Parameter{openapi.Query("source", "who sends it", openapi.Chars(0, maxHint)),
			openapi.Query("resource", "what it is about", openapi.Chars(0, maxHint)),
			openapi.Query("correlation_id", "", openapi.Chars(0, maxHint)),
			openapi.Query("causation_id", "", openapi.Chars(0, maxHint))}}
	wake, legacy := callback, callback
	wake.id = "deliverWake"
	legacy.id, legacy.summary = "deliverEnqueue", "The same, under its old name"
	return []route{
		{method: "POST", path: "/agents/{id}/enqueue", handle: s.postEnqueue,
			about: about{id: "enqueue", tag: tagMessages, summary: "A message from outside",
				text:  "What it may instruct follows from how it came; saying so oneself is refused.",
				takes: reflect.TypeFor[wire.Enqueue](), keyed: true, gives: enqueued, errors: message}},
		{method: "POST", path: "/enqueue", handle: s.postEnqueue,
			about: about{id: "enqueueDefault", tag: tagMessages,
				summary: "A message from outside, to the agent that the body names or the default one",
				takes:   reflect.TypeFor[wire.Enqueue](), keyed: true, gives: enqueued, errors: message}},
		{method: "POST", path: "/control/agents/{id}/prompt", handle: s.postPrompt,
			about: about{id: "prompt", tag: tagMessages, summary: "A message of the operator",
				takes: reflect.TypeFor[wire.Prompt](), keyed: true, gives: enqueued, errors: message}},
		{method: "POST", path: "/control/agents/{id}/wake", handle: s.postWake,
			about: about{id: "wake", tag: tagMessages, summary: "Ask an agent to look",
				takes: reflect.TypeFor[wire.Wake](), gives: reflect.TypeFor[wire.Woken](), errors: message}},
		{method: "POST", path: "/webhooks/generic/{id}", handle: s.postWebhook,
			about: about{id: "deliverWebhook", tag: tagMessages, summary: "JSON of another program, to an agent",
				any: true, keyed: true, gives: enqueued, errors: message}},
		{method: "POST", path: "/callbacks/wake/{token}", handle: s.postCallback, capability: true, about: wake},
		{method: "POST", path: "/callbacks/enqueue/{token}", handle: s.postLegacyCallback, capability: true,
			about: legacy},
	}
}

func (s *Server) controlRoutes() []route {
	const at = "/control/agents/{id}"
	trigger := reflect.TypeFor[wire.Trigger]()
	model := reflect.TypeFor[wire.ModelSet]()
	usual := []int{403, 404, 408, 409, 413, 415}
	return []route{
		{method: "POST", path: at + "/create", handle: s.postCreate,
			about: about{id: "createAgent", tag: tagControl, summary: "Make an agent",
				takes: reflect.TypeFor[wire.Create](), optional: true, gives: reflect.TypeFor[view.AgentSummary](),
				errors: usual}},
		{method: "POST", path: at + "/control", handle: s.postControl,
			about: about{id: "controlAgent", tag: tagControl, summary: "Start or stop an agent",
				takes: reflect.TypeFor[wire.Control](), gives: reflect.TypeFor[wire.Controlled](), errors: usual}},
		{method: "POST", path: at + "/current-run/abort", handle: s.postAbort,
			about: about{id: "abortRun", tag: tagControl, summary: "End the current run",
				takes: reflect.TypeFor[wire.Abort](), optional: true, gives: reflect.TypeFor[wire.Aborted](),
				errors: usual}},
		{method: "POST", path: at + "/timers", handle: s.postTimer,
			about: about{id: "createTimer", tag: tagControl, summary: "Make a timer",
				takes: reflect.TypeFor[wire.Timer](), keyed: true, gives: reflect.TypeFor[view.Timer](),
				errors: usual}},
		{method: "DELETE", path: at + "/timers/{timer_id}", handle: s.deleteTimer,
			about: about{id: "cancelTimer", tag: tagControl, summary: "End a timer",
				gives: reflect.TypeFor[view.Timer](), errors: usual}},
		{method: "POST", path: at + "/model", handle: s.postModel,
			about: about{id: "setModel", tag: tagControl,
				summary: "Set which model an agent asks from its next turn on", takes: reflect.TypeFor[wire.Model](),
				gives: model, errors: usual}},
		{method: "POST", path: at + "/model/clear", handle: s.postClearModel,
			about: about{id: "clearModel", tag: tagControl, summary: "Let an agent ask the runtime's model again",
				gives: model, errors: usual}},
		{method: "POST", path: at + "/image", handle: s.postImage,
			about: about{id: "setImage", tag: tagControl, summary: "Set the image of an agent's containers",
				takes: reflect.TypeFor[wire.Image](), gives: reflect.TypeFor[wire.ImageSet](), errors: usual}},
		{method: "POST", path: at + "/debug-prompt", handle: s.postDebugPrompt,
			about: about{id: "debugPrompt", tag: tagControl, summary: "What would be sent to a model",
				text: "Nothing is sent and nothing is kept.", takes: reflect.TypeFor[wire.DebugPrompt](),
				errors: usual}},
		{method: "POST", path: at + "/trigger", handle: s.postTrigger,
			about: about{id: "ensureTrigger", tag: tagControl,
				summary: "An agent's external trigger, made if there is none",
				text:    "The URL is a secret and is told when the trigger is made or renewed, and never again.",
				gives:   trigger, errors: usual}},
		{method: "POST", path: at + "/trigger/rotate", handle: s.postRotateTrigger,
			about: about{id: "rotateTrigger", tag: tagControl, summary: "Give an agent's external trigger a new URL",
				gives: trigger, errors: usual}},
		{method: "POST", path: at + "/trigger/revoke", handle: s.postRevokeTrigger,
			about: about{id: "revokeTrigger", tag: tagControl, summary: "End an agent's external trigger",
				gives: trigger, errors: usual}},
	}
}
