package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
)

// Protocol returns the schemas of everything that packages responses, turns and
// tasks put on the wire.
func Protocol() (*Set, error) {
	s := &Set{components: make(map[string]*Schema), named: make(map[reflect.Type]string),
		plain: make(map[reflect.Type]*Schema)}
	s.words()
	s.parts()
	s.items()
	s.tools()
	s.events()
	s.errors()
	s.partParams()
	s.itemParams()
	s.toolParams()
	s.names()
	for _, t := range described() {
		if _, err := s.Of(t); err != nil {
			return nil, fmt.Errorf("describe the protocol: %w", err)
		}
	}
	s.constrain()
	if err := s.requests(); err != nil {
		return nil, fmt.Errorf("describe the protocol: %w", err)
	}
	return s, nil
}

// described are the types that are described by reflection, with what they hold.
func described() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[responses.Response](),
		reflect.TypeFor[responses.Compacted](),
		reflect.TypeFor[responses.LogProb](),
		reflect.TypeFor[responses.Annotation](),
		reflect.TypeFor[turns.Record](),
		reflect.TypeFor[turns.RuntimeEvent](),
		reflect.TypeFor[turns.Health](),
		reflect.TypeFor[tasks.List](),
		reflect.TypeFor[tasks.StatusResult](),
		reflect.TypeFor[tasks.OutputResult](),
		reflect.TypeFor[tasks.InputResult](),
		reflect.TypeFor[tasks.StopResult](),
	}
}

// names gives types the names of the protocol's document, and those that
// reflection cannot describe the schema that was made by hand.
func (s *Set) names() {
	for t, name := range map[reflect.Type]string{
		reflect.TypeFor[responses.Response]():           "ResponseResource",
		reflect.TypeFor[responses.Compacted]():          "CompactResource",
		reflect.TypeFor[responses.Tool]():               "Tool",
		reflect.TypeFor[responses.TextConfig]():         "TextField",
		reflect.TypeFor[responses.ReasoningConfig]():    "Reasoning",
		reflect.TypeFor[responses.InputTokenDetails]():  "InputTokensDetails",
		reflect.TypeFor[responses.OutputTokenDetails](): "OutputTokensDetails",
		reflect.TypeFor[responses.ResponseError]():      "Error",
		reflect.TypeFor[responses.Annotation]():         "UrlCitationBody",
		reflect.TypeFor[responses.Item]():               "ItemField",
		reflect.TypeFor[responses.ItemStatus]():         "MessageStatus",
		reflect.TypeFor[turns.Record]():                 "Turn",
		reflect.TypeFor[turns.RuntimeEvent]():           "RuntimeEvent",
		reflect.TypeFor[turns.Input]():                  "TurnInput",
		reflect.TypeFor[turns.NewInput]():               "NewTurnInput",
		reflect.TypeFor[turns.Health]():                 "Health",
		reflect.TypeFor[turns.ToolCalls]():              "ToolCallCounts",
		reflect.TypeFor[tasks.Status]():                 "TaskStatus",
		reflect.TypeFor[tasks.List]():                   "TaskList",
		reflect.TypeFor[tasks.Entry]():                  "TaskEntry",
		reflect.TypeFor[tasks.Snapshot]():               "Task",
		reflect.TypeFor[tasks.Command]():                "TaskCommand",
		reflect.TypeFor[tasks.StatusResult]():           "TaskStatusResult",
		reflect.TypeFor[tasks.Output]():                 "TaskOutput",
		reflect.TypeFor[tasks.OutputResult]():           "TaskOutputResult",
		reflect.TypeFor[tasks.Artifact]():               "TaskArtifact",
		reflect.TypeFor[tasks.Failure]():                "TaskFailure",
		reflect.TypeFor[tasks.Input]():                  "TaskInput",
		reflect.TypeFor[tasks.InputResult]():            "TaskInputResult",
		reflect.TypeFor[tasks.Stop]():                   "TaskStop",
		reflect.TypeFor[tasks.StopResult]():             "TaskStopResult",
	} {
		s.name(t, name)
	}
	for t, schema := range map[reflect.Type]*Schema{
		reflect.TypeFor[responses.Items](): Array(Ref("ItemField")),
		reflect.TypeFor[responses.ToolChoice](): anyOf("FunctionToolChoice", "ToolChoiceValueEnum",
			"AllowedToolChoice"),
		reflect.TypeFor[responses.Status](): Words(responses.StatusQueued, responses.StatusInProgress,
			responses.StatusCompleted, responses.StatusFailed, responses.StatusIncomplete, responses.StatusCancelled),
		reflect.TypeFor[responses.ErrorType](): errorTypes(),
		reflect.TypeFor[json.RawMessage]():     Anything(),
		reflect.TypeFor[tasks.Retrieval]():     Words(tasks.Success, tasks.Timeout, tasks.NotReady),
		reflect.TypeFor[turns.Time](): Nullable(&Schema{Type: types{"string"}, Format: "date-time",
			Description: "UTC, to the millisecond; null while it has not come"}),
	} {
		s.plain[t] = schema
	}
	s.define("TaskStatus", Words(tasks.Running, tasks.Cancelling, tasks.Completed, tasks.Failed, tasks.Cancelled,
		tasks.Interrupted))
}

// constrain adds what the Go types cannot say.
func (s *Set) constrain() {
	at := func(component, key string) *Schema { return s.components[component].Properties.Get(key) }
	set := func(component, key string, schema *Schema) { *at(component, key) = *schema }

	response := "ResponseResource"
	s.components[response].Says("A response, with all of its keys, whatever its state.")
	set(response, "object", Exactly("response"))
	at(response, "created_at").Says("Seconds since the epoch.")
	at(response, "completed_at").Says("Seconds since the epoch; null unless the status is completed.")
	at(response, "model").Says("provider/model.")
	at(response, "output").Says("Items in the order they were made. While the turn runs, those that are closed.")
	set(response, "truncation", Ref("TruncationEnum"))
	at(response, "usage").Says("Over all model rounds of the turn.")
	at(response, "metadata").Says("As the request gave it.")
	at(response, "service_tier").Says("As the request gave it; it has no effect.")
	set("CompactResource", "object", Exactly("response.compaction"))
	at("CompactResource", "output").Says("As it stands, the beginning of the input of a new conversation.")
	at("IncompleteDetails", "reason").Examples = []any{responses.ReasonMaxOutputTokens, responses.ReasonContentFilter,
		responses.ReasonMaxRounds,
		responses.ReasonMaxToolCalls, responses.ReasonMaxOutputBytes, responses.ReasonTimeout, responses.ReasonBudget,
		responses.ReasonShutdown, responses.ReasonCancelled}
	set("UrlCitationBody", "type", Exactly("url_citation"))
	set("Reasoning", "summary", Nullable(Words("", "auto", "concise", "detailed")))
	at("Reasoning", "effort").Examples = efforts
	at("Error", "code").Says("One of the codes of ErrorPayload.")
	at("Error", "type").Says("Beyond the protocol: one SDK needs it.")

	set("Health", "status", Words(turns.HealthStarting, turns.HealthReady, turns.HealthDraining))
	set("Health", "engine", Exactly(turns.EngineAgentd))
	at("Health", "models").Says("provider/model, the default first.")
	at("Health", "instance").Says("New with every process.")
	at("Health", "mcp").Says("Servers of tools, the host's first.")
	s.components["Turn"].Says("The record of a turn (turn.json).")
	set("Turn", "schema", Exactly(turns.RecordSchema))
	at("Turn", "request_digest").Says("SHA-256, in hex, of the request without what only chooses a transport.")
	at("Turn", "rounds").Says("Model rounds begun.")
	at("Artifact", "path").Says("Relative to the turn's output directory.")
	s.components["RuntimeEvent"].Says("A line of runtime.ndjson: something that happened in a turn and is not part " +
		"of its stream.")
	set("RuntimeEvent", "schema_version", Exactly(turns.EventSchema))
	at("RuntimeEvent", "sequence").AtLeast(1).Says("1, 2, 3, … within the turn.")
	at("RuntimeEvent", "type").Says("The class, as tool.started. Skip those you do not know.")
	set("RuntimeEvent", "timestamp", &Schema{Type: types{"string"}, Format: "date-time"})
	set("RuntimeEvent", "payload", Map(Anything()).Says("What it holds depends on the type."))

	at("Task", "turn_id").Says("The turn that started it.")
	at("TaskCommand", "exit_status").Says("128+n after signal n.")
	at("TaskCommand", "terminal_reentry").Says("The next turn of the session is told of the end.")
	at("TaskOutput", "output_bytes").Says("Printed so far, whatever is shown.")
	set("TaskFailure", "category", Exactly("task"))
	at("TaskOutputResult", "retrieval_status").Says(
		"success: the task has ended; timeout: not within the wait asked for; not_ready: it has not ended, and no " +
			"wait was asked for.")
}
