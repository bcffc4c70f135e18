package openapi_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/expect"
)

// maker makes random values of the types that are put on the wire. Lists are
// empty and never nil where the code that fills them makes them so.
type maker struct{ *rapid.T }

func (m maker) text() string {
	return rapid.SampledFrom([]string{"a", "", "<b>\n", "日本", "\x00\u2028", "x y"}).Draw(m.T, "text")
}

func (m maker) id() string { return rapid.SampledFrom([]string{"a_1", "b-2"}).Draw(m.T, "id") }

func pick[T any](m maker, from ...T) T { return rapid.SampledFrom(from).Draw(m.T, "word") }

func (m maker) part() responses.Part {
	p := responses.Part{Type: pick(m, responses.PartInputText, responses.PartOutputText, responses.PartText,
		responses.PartRefusal, responses.PartInputImage, responses.PartInputFile, responses.PartInputVideo,
		responses.PartSummaryText, responses.PartReasoningText),
		Text: m.text(), Refusal: m.text(), ImageURL: m.text(), Detail: pick(m, "", "low", "high", "auto"),
		FileName: m.text(), FileData: m.text(), FileURL: m.text(), VideoURL: "v" + m.text()}
	if pick(m, true, false) {
		p.Annotations = []responses.Annotation{m.annotation()}
		p.Logprobs = []responses.LogProb{{Token: m.text(), Logprob: -0.5, Bytes: []int{1},
			TopLogprobs: []responses.TopLogProb{{Token: m.text()}}}, {}}
	}
	return p
}

func (m maker) annotation() responses.Annotation {
	return responses.Annotation{Type: "url_citation", URL: m.text(), Title: m.text(), StartIndex: 3, EndIndex: 4}
}

func (m maker) parts() []responses.Part {
	var parts []responses.Part
	for range rapid.IntRange(0, 2).Draw(m.T, "parts") {
		parts = append(parts, m.part())
	}
	return parts
}

// item makes an item of a kind that the server sends.
func (m maker) item() responses.Item {
	id, status := m.id(), pick(m, responses.ItemInProgress, responses.ItemCompleted, responses.ItemIncomplete, "")
	switch pick(m, 0, 1, 2, 3, 4, 5) {
	case 0:
		return &responses.Message{ID: id, Status: status,
			Role:  pick(m, responses.RoleUser, responses.RoleAssistant, responses.RoleSystem, responses.RoleDeveloper),
			Phase: pick(m, "", responses.PhaseCommentary, responses.PhaseFinalAnswer), Content: m.parts()}
	case 1:
		return &responses.FunctionCall{ID: id, Status: status, CallID: m.text(), Name: m.text(), Arguments: m.text()}
	case 2:
		return &responses.FunctionCallOutput{ID: id, Status: status, CallID: m.text(), Output: m.parts()}
	case 3:
		return &responses.Reasoning{ID: id, Status: status, Summary: m.parts(), Content: m.parts(),
			EncryptedContent: m.text()}
	case 4:
		return &responses.Compaction{ID: id, Status: status, EncryptedContent: m.text()}
	}
	return &responses.ToolCall{ID: id, Status: status, CallID: m.text(), Name: m.text(), Arguments: m.text(),
		Output: m.text(), Media: m.parts(), Round: pick(m, "", "tc_1"), ArtifactDir: pick(m, "", "/out/turns/t"),
		Result: pick(m, nil, json.RawMessage(`{"a":[1]}`), json.RawMessage(`null`))}
}

// value fills in a type field by field; words come from their lists.
func (m maker) value(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if special := m.special(t); special != nil {
		v.Set(reflect.ValueOf(special))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(m.text())
	case reflect.Bool:
		v.SetBool(pick(m, true, false))
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(pick[int64](m, 0, 1, math.MaxInt32))
	case reflect.Uint16:
		v.SetUint(pick[uint64](m, 0, math.MaxUint16))
	case reflect.Float64:
		v.SetFloat(pick(m, 0, 0.5, -1e300))
	case reflect.Pointer:
		if pick(m, true, false) {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(m.value(t.Elem()))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 0, 2))
		for range rapid.IntRange(0, 2).Draw(m.T, "elems") {
			v.Set(reflect.Append(v, m.value(t.Elem())))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.ValueOf(m.text()), m.value(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(m.value(t.Field(i).Type))
			}
		}
	}
	return v
}

// special makes values of the types whose values are not all legal.
func (m maker) special(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[responses.Status]():
		return pick(m, responses.StatusQueued, responses.StatusInProgress, responses.StatusCompleted,
			responses.StatusFailed, responses.StatusIncomplete, responses.StatusCancelled)
	case reflect.TypeFor[responses.ErrorType]():
		return pick(m, responses.TypeInvalidRequest, responses.TypeNotFound, responses.TypeTooManyRequests,
			responses.TypeModelError, responses.TypeServerError)
	case reflect.TypeFor[tasks.Status]():
		return pick(m, tasks.Running, tasks.Cancelling, tasks.Completed, tasks.Failed, tasks.Cancelled)
	case reflect.TypeFor[tasks.Retrieval]():
		return pick(m, tasks.Success, tasks.Timeout, tasks.NotReady)
	case reflect.TypeFor[responses.Items]():
		return responses.Items{m.item(), m.item()}[:rapid.IntRange(0, 2).Draw(m.T, "items")]
	case reflect.TypeFor[json.RawMessage]():
		return json.RawMessage(`{"a":1}`)
	case reflect.TypeFor[turns.Time]():
		return pick(m, turns.Time{}, turns.At(time.Unix(1e9, 5e8)))
	case reflect.TypeFor[responses.Annotation]():
		return m.annotation()
	case reflect.TypeFor[responses.ToolChoice]():
		return pick(m, responses.ToolChoice{}, responses.ToolChoice{Mode: "none"}, responses.ToolChoice{Name: "f"},
			responses.ToolChoice{Mode: "required", Allowed: []string{"f", "g"}})
	case reflect.TypeFor[responses.TextConfig]():
		return responses.TextConfig{Verbosity: pick(m, "", "low", "high"),
			Format: responses.TextFormat{Type: pick(m, "", "text", "json_object", "json_schema"), Name: m.text(),
				Description: pick(m, nil, new("d")), Schema: json.RawMessage(`{}`), Strict: pick(m, true, false)}}
	case reflect.TypeFor[responses.ReasoningConfig]():
		return responses.ReasoningConfig{Effort: pick(m, nil, new("low"), new("odd")),
			Summary: pick(m, nil, new("auto"), new("concise"), new("detailed"))}
	case reflect.TypeFor[turns.ToolCalls]():
		return pick(m, turns.ToolCalls{}, turns.ToolCalls{Total: 2, Failed: 1, ByName: map[string]int{"x": 2}})
	}
	return nil
}

// what is on the wire of each component: a random value of it.
func wires() map[string]func(m maker) any {
	of := func(t reflect.Type, fix func(v any) any) func(m maker) any {
		return func(m maker) any {
			v := m.value(t).Interface()
			if fix != nil {
				v = fix(v)
			}
			return v
		}
	}
	item := func(want string) func(m maker) any {
		return func(m maker) any {
			for {
				if it := m.item(); it.ItemType() == want {
					return it
				}
			}
		}
	}
	part := func(want string) func(m maker) any {
		return func(m maker) any { p := m.part(); p.Type = want; return p }
	}
	return map[string]func(m maker) any{
		"ResponseResource": of(reflect.TypeFor[responses.Response](), func(v any) any {
			r, _ := v.(responses.Response)
			r.Object, r.Truncation = "response", "disabled"
			return r
		}),
		"CompactResource": of(reflect.TypeFor[responses.Compacted](), func(v any) any {
			c, _ := v.(responses.Compacted)
			c.Object = "response.compaction"
			return c
		}),
		"Turn": of(reflect.TypeFor[turns.Record](), func(v any) any {
			r, _ := v.(turns.Record)
			r.Schema = "holon.turn/1"
			return r
		}),
		"Health": of(reflect.TypeFor[turns.Health](), func(v any) any {
			h, _ := v.(turns.Health)
			h.Status, h.Engine = turns.HealthReady, turns.EngineAgentd
			return h
		}),
		"RuntimeEvent": of(reflect.TypeFor[turns.RuntimeEvent](), func(v any) any {
			e, _ := v.(turns.RuntimeEvent)
			e.SchemaVersion, e.Sequence, e.Timestamp = "holon-profile-1", 1, turns.At(time.Unix(1, 0))
			return e
		}),
		"TaskFailure": of(reflect.TypeFor[tasks.Failure](), func(v any) any {
			f, _ := v.(tasks.Failure)
			f.Category = "task"
			return f
		}),
		"TaskList": of(reflect.TypeFor[tasks.List](), nil), "TaskEntry": of(reflect.TypeFor[tasks.Entry](), nil),
		"Task": of(reflect.TypeFor[tasks.Snapshot](), nil), "TaskCommand": of(reflect.TypeFor[tasks.Command](), nil),
		"TaskStatusResult": of(reflect.TypeFor[tasks.StatusResult](), nil),
		"TaskInputResult":  of(reflect.TypeFor[tasks.InputResult](), nil),
		"TaskStopResult":   of(reflect.TypeFor[tasks.StopResult](), nil),
		"TaskReport": func(m maker) any {
			task, _ := m.value(reflect.TypeFor[tasks.Snapshot]()).Interface().(tasks.Snapshot)
			return pick(m, tasks.Report{Complete: true}, tasks.Report{Task: &task, Output: new(output(m))})
		},
		"TaskOutput": func(m maker) any { return output(m) },
		"TaskOutputResult": func(m maker) any {
			return tasks.OutputResult{RetrievalStatus: tasks.Success, Task: output(m)}
		},
		"Usage": of(reflect.TypeFor[responses.Usage](), nil), "LogProb": func(m maker) any { return logprob(m) },
		"Error": of(reflect.TypeFor[responses.ResponseError](), nil),
		"TopLogProb": func(m maker) any {
			return map[string]any{"token": m.text(), "logprob": 0, "bytes": []int{}} // written by LogProb
		},
		"IncompleteDetails":    of(reflect.TypeFor[responses.IncompleteDetails](), nil),
		"InputTokensDetails":   of(reflect.TypeFor[responses.InputTokenDetails](), nil),
		"OutputTokensDetails":  of(reflect.TypeFor[responses.OutputTokenDetails](), nil),
		"Artifact":             of(reflect.TypeFor[turns.Artifact](), nil),
		"FailureArtifact":      of(reflect.TypeFor[turns.FailureArtifact](), nil),
		"MCPServer":            of(reflect.TypeFor[turns.MCPServer](), nil),
		"Prompt":               of(reflect.TypeFor[turns.Prompt](), nil),
		"ProviderAttempt":      of(reflect.TypeFor[turns.ProviderAttempt](), nil),
		"ProviderTimeline":     of(reflect.TypeFor[turns.ProviderTimeline](), nil),
		"Reqwest":              of(reflect.TypeFor[turns.Reqwest](), nil),
		"TokenUsage":           of(reflect.TypeFor[turns.TokenUsage](), nil),
		"ToolCallCounts":       of(reflect.TypeFor[turns.ToolCalls](), nil),
		"TransportDiagnostics": of(reflect.TypeFor[turns.TransportDiagnostics](), nil),
		"TurnInput":            of(reflect.TypeFor[turns.Input](), nil),
		"TaskArtifact":         of(reflect.TypeFor[tasks.Artifact](), nil),
		"FunctionTool": func(m maker) any {
			return responses.Tool{Name: m.text(), Description: pick(m, nil, new("d")),
				Parameters: pick(m, nil, json.RawMessage(`{"type":"object"}`)), Strict: pick(m, nil, new(true))}
		},
		"TextField": func(m maker) any { return m.special(reflect.TypeFor[responses.TextConfig]()) },
		"Reasoning": func(m maker) any { return m.special(reflect.TypeFor[responses.ReasoningConfig]()) },
		"Message":   item(responses.ItemMessage), "FunctionCall": item(responses.ItemFunctionCall),
		"FunctionCallOutput": item(responses.ItemFunctionCallOutput),
		"ReasoningBody":      item(responses.ItemReasoning), "CompactionBody": item(responses.ItemCompaction),
		"HolonToolCall":    item(responses.ItemToolCall),
		"InputTextContent": part(responses.PartInputText), "OutputTextContent": part(responses.PartOutputText),
		"TextContent": part(responses.PartText), "SummaryTextContent": part(responses.PartSummaryText),
		"ReasoningTextContent": part(responses.PartReasoningText), "RefusalContent": part(responses.PartRefusal),
		"InputImageContent": part(responses.PartInputImage),
		"InputFileContent":  part(responses.PartInputFile), "InputVideoContent": part(responses.PartInputVideo),
		"UrlCitationBody": func(m maker) any {
			return m.annotation()
		},
		"ErrorEnvelope": func(m maker) any {
			e := responses.Error{Type: responses.TypeNotFound, Code: m.text(), Message: m.text(), Param: m.text(),
				Hint: m.text()}
			return json.RawMessage(e.Envelope())
		},
	}
}

func output(m maker) tasks.Output {
	o, _ := m.value(reflect.TypeFor[tasks.Output]()).Interface().(tasks.Output)
	if o.FailureArtifact != nil {
		o.FailureArtifact.Category = "task"
	}
	return o
}

// logprob goes through the part that holds it, which encodes it.
func logprob(m maker) any {
	p := responses.Part{Type: responses.PartOutputText,
		Logprobs: []responses.LogProb{{Token: m.text(), Logprob: -1,
			TopLogprobs: []responses.TopLogProb{{Token: m.text()}}}}}
	b, err := json.Marshal(p)
	if err != nil {
		m.Fatal(err)
	}
	var w struct{ Logprobs []json.RawMessage }
	if err := json.Unmarshal(b, &w); err != nil {
		m.Fatal(err)
	}
	return w.Logprobs[0]
}

// Encoded values have only described keys and all required ones, and every
// described key occurs in some value.
func TestEncodersDoWhatIsDescribed(t *testing.T) {
	doc, all := strict(t), components(t)
	for name, make := range wires() {
		t.Run(name, func(t *testing.T) {
			shown := map[string]bool{}
			rapid.Check(t, func(rt *rapid.T) {
				data, err := json.Marshal(make(maker{rt}))
				expect.NoError(rt, err)
				expect.NoError(rt, doc.Object(name, data))
				var keys map[string]any
				expect.NoError(rt, json.Unmarshal(data, &keys))
				for k := range keys {
					shown[k] = true
				}
			})
			schema, _ := all[name].(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			for key := range properties {
				if !shown[key] && !testing.Short() { // then there are few values
					t.Errorf("%s is described and never written", key)
				}
			}
		})
	}
}

// Every object of an answer has its values made above.
func TestNoEncoderIsForgotten(t *testing.T) {
	tested := wires()
	elsewhere := []string{ // within others, or in the test of events
		"WebSocketErrorEvent", "ErrorStreamingEvent", "ErrorPayload", "FunctionToolChoice", "AllowedToolChoice",
		"TextResponseFormat", "JsonObjectResponseFormat", "JsonSchemaResponseFormat", "ForeignItem",
		// requests
		"CreateResponseBody", "CompactResponseMethodPublicBody", "WebSocketResponseCreateEvent", "EmptyModelParam",
		"Holon", "Limits", "NewTurnInput", "Reminder", "TaskInput", "TaskStart", "TaskStop",
		// of package agentd, which tests them
		"DeletedResponse", "InputItemList", "JournalEntry", "Model", "ModelList", "PreviewSource", "PreviewTool", "ResponsePreview",
		"Stopping", "TokenCount",
	}
	for name, schema := range components(t) {
		object, _ := schema.(map[string]any)
		if object["type"] == "object" && tested[name] == nil && !slices.Contains(elsewhere, name) &&
			!strings.HasSuffix(name, "Param") && !strings.HasSuffix(name, "StreamingEvent") {
			t.Errorf("no test encodes a %s: add it to wires", name)
		}
	}
}

// Every code of package responses is listed.
func TestNoCodeIsForgotten(t *testing.T) {
	payload, _ := components(t)["ErrorPayload"].(map[string]any)
	properties, _ := payload["properties"].(map[string]any)
	code, _ := properties["code"].(map[string]any)
	listed := list(code["examples"])
	// those of a client, and of a host
	notAgentds := []string{responses.CodeServerUnreachable, responses.CodeServerDisconnected, responses.CodeSessionClosed,
		responses.CodeSessionConflict, responses.CodeSessionLimit, responses.CodeAgentStopped, responses.CodeAgentArchived,
		responses.CodePreviousNotLast, responses.CodeElsewhere, responses.CodeNotReady}
	for name, value := range constants(t, "../../responses/error.go", "Code") {
		if slices.Contains(listed, any(value)) == slices.Contains(notAgentds, value) {
			t.Errorf("%s (%s): codes lists what agentd says and nothing else", name, value)
		}
	}
}

// The checks above must be able to fail.
func TestTheChecksBite(t *testing.T) {
	doc := strict(t)
	for component, data := range map[string]string{
		"OutputTextContent": `{"type":"output_text","text":"","annotations":[],"logprobs":[],"extra":1}`,
		"RefusalContent":    `{"type":"refusal"}`,
		"Usage": `{"input_tokens":1.5,"output_tokens":0,"total_tokens":0,"input_tokens_details":` +
			`{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}`,
		"ItemField": `{"type":"message","id":"a","status":"done","role":"user","content":[]}`,
		"StreamingEvent": `{"type":"response.refusal.delta","sequence_number":0,"item_id":"a","output_index":0,` +
			`"content_index":-1,"delta":""}`,
		"Health": `{"status":"ready"}`,
	} {
		if doc.Object(component, []byte(data)) == nil {
			t.Errorf("a %s that is broken was let through: %s", component, data)
		}
	}
}
