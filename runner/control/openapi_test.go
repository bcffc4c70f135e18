package control

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/test/expect"

	"github.com/getkin/kin-openapi/openapi3"

	"holon/responses/agentruntime"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

// operations are the types of what each operation takes and gives as JSON.
var operations = map[string][2]reflect.Type{
	"getRoot":                   gives[wire.Root](),
	"getHandshake":              gives[wire.Handshake](),
	"listModels":                gives[view.Models](),
	"getReadiness":              gives[wire.Readiness](),
	"getHealth":                 gives[wire.Health](),
	"getRuntimeStatus":          gives[view.RuntimeStatus](),
	"shutDown":                  gives[wire.ShuttingDown](),
	"listAgents":                gives[[]view.AgentListEntry](),
	"command":                   does[wire.Command, wire.CommandAnswer](),
	"getReadModel":              gives[json.RawMessage](),
	"exportRecord":              gives[json.RawMessage](),
	"getMessage":                gives[view.MessageState](),
	"listTimers":                gives[[]view.Timer](),
	"getLatency":                gives[view.LatencyReport](),
	"listEvents":                gives[view.EventPage](),
	"getStatus":                 gives[view.AgentSummary](),
	"getState":                  gives[view.StateSnapshot](),
	"getBriefs":                 gives[[]ledger.Brief](),
	"getTranscript":             gives[[]record.TranscriptEntry](),
	"getDefaultStatus":          gives[view.AgentSummary](),
	"getDefaultState":           gives[view.StateSnapshot](),
	"getDefaultBriefs":          gives[[]ledger.Brief](),
	"getDefaultTranscript":      gives[[]record.TranscriptEntry](),
	"enqueue":                   does[wire.Enqueue, wire.Enqueued](),
	"enqueueDefault":            does[wire.Enqueue, wire.Enqueued](),
	"prompt":                    does[wire.Prompt, wire.Enqueued](),
	"wake":                      does[wire.Wake, wire.Woken](),
	"deliverWebhook":            gives[wire.Enqueued](),
	"deliverWake":               gives[wire.Delivered](),
	"deliverEnqueue":            gives[wire.Delivered](),
	"createAgent":               does[wire.Create, view.AgentSummary](),
	"controlAgent":              does[wire.Control, wire.Controlled](),
	"abortRun":                  does[wire.Abort, wire.Aborted](),
	"createTimer":               does[wire.Timer, wire.MadeTimer](),
	"listWorkItems":             gives[[]view.WorkRecord](),
	"getWorkItem":               gives[view.WorkRecord](),
	"createWorkItem":            does[wire.WorkItem, view.WorkRecord](),
	"pickWorkItem":              gives[view.WorkRecord](),
	"blockWorkItem":             does[wire.Block, view.WorkRecord](),
	"completeWorkItem":          gives[view.WorkRecord](),
	"searchMemory":              gives[view.MemoryResults](),
	"getMemory":                 gives[view.MemorySource](),
	"rebuildMemory":             gives[view.MemoryRebuilt](),
	"listTasks":                 gives[[]view.TaskRecord](),
	"getTask":                   gives[view.TaskStatus](),
	"getTaskOutput":             gives[view.TaskOutput](),
	"startTask":                 does[wire.Task, view.TaskRecord](),
	"writeTaskInput":            does[tasks.Input, tasks.InputResult](),
	"stopTask":                  does[tasks.Stop, tasks.StopResult](),
	"cancelTimer":               gives[view.Timer](),
	"setModel":                  does[wire.Model, wire.ModelSet](),
	"clearModel":                gives[wire.ModelSet](),
	"archiveAgent":              does[wire.Archive, wire.Archived](),
	"setImage":                  does[wire.Image, wire.ImageSet](),
	"getWorktreeSummary":        gives[view.WorktreeSummary](),
	"getDefaultWorktreeSummary": gives[view.WorktreeSummary](),
	"getBudget":                 gives[view.TreeBudget](),
	"setBudget":                 does[wire.Budget, view.TreeBudget](),
	"debugPrompt":               does[wire.DebugPrompt, json.RawMessage](),
	"ensureTrigger":             gives[wire.Trigger](),
	"rotateTrigger":             gives[wire.Trigger](),
	"revokeTrigger":             gives[wire.Trigger](),
	"createTrigger":             does[wire.NewTrigger, wire.Trigger](),
	"rotateSignedTrigger":       gives[wire.Trigger](),
	"revokeSignedTrigger":       gives[wire.Trigger](),
	"listRegistry":              gives[[]view.WorkspaceRecord](),
	"listWorkspaces":            gives[[]view.WorkspaceRecord](),
	"attachWorkspace":           does[wire.AttachWorkspace, wire.WorkspaceAttached](),
	"useWorkspace":              does[view.WorkspaceUse, wire.WorkspaceEntered](),
	"exitWorkspace":             does[struct{}, wire.WorkspaceEntered](),
	"detachWorkspace":           does[wire.WorkspaceRef, wire.WorkspaceDetached](),
	"diffWorkspace":             does[wire.DiffWorkspace, []view.TreeDiff](),
	"applyWorkspace":            does[view.WorkspaceApply, []view.TreeApplied](),
	"checkoutWorkspace":         does[view.WorkspaceCheckout, view.TreeCheckout](),
	"syncWorkspace":             does[wire.WorkspaceRef, view.TreeSync](),
	"listSessions":              gives[wire.SessionList](),
	"startSession":              does[wire.StartSession, wire.Session](),
	"getSession":                gives[wire.Session](),
	"diffSession":               gives[wire.SessionDiff](),
	"applySession":              does[wire.ApplySession, wire.SessionApplied](),
	"checkoutSession":           does[wire.CheckoutSession, wire.SessionCheckout](),
	"listSessionTurns":          gives[wire.SessionTurnList](),
	"rewindSession":             does[wire.RewindSession, wire.SessionRewound](),
	"closeSession":              gives[wire.Session](),
	"listOwnSessions":           gives[wire.SessionList](),
	"startOwnSession":           does[wire.StartSession, wire.Session](),
	"getOwnSession":             gives[wire.Session](),
	"diffOwnSession":            gives[wire.SessionDiff](),
	"applyOwnSession":           does[wire.ApplySession, wire.SessionApplied](),
	"checkoutOwnSession":        does[wire.CheckoutSession, wire.SessionCheckout](),
	"listOwnSessionTurns":       gives[wire.SessionTurnList](),
	"rewindOwnSession":          does[wire.RewindSession, wire.SessionRewound](),
	"closeOwnSession":           gives[wire.Session](),
	"uiLogin":                   gives[wire.UILogin](),
	"listBindings":              gives[[]ledger.OperatorBinding](),
	"listNotifications":         gives[view.NoticeList](),
	"bindTransport":             does[wire.Bind, wire.Bound](),
	"revokeBinding":             gives[ledger.OperatorBinding](),
	"testBinding":               gives[view.Notice](),
	"operatorIngress":           does[wire.Ingress, wire.Enqueued](),
	"discardCopy":               does[wire.WorkspaceRef, view.TreeDiscarded](),
}

func gives[A any]() [2]reflect.Type { return [2]reflect.Type{nil, reflect.TypeFor[A]()} }

func does[Q, A any]() [2]reflect.Type {
	return [2]reflect.Type{reflect.TypeFor[Q](), reflect.TypeFor[A]()}
}

// The document describes the Go types of all bodies.
func TestTypesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	doc := document(t)
	c := comparison{t, make(map[string]bool)}
	const media = "application/json"
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at, types := method+" "+path, operations[op.OperationID]
			if op.RequestBody != nil && op.RequestBody.Value.Content[media] != nil {
				c.check(at+" takes", types[0], op.RequestBody.Value.Content[media].Schema)
			} else if types[0] != nil {
				t.Errorf("%s takes a %s, which is not described", at, types[0])
			}
			if answer := op.Responses.Value("200").Value.Content[media]; types[1] != nil {
				c.check(at+" gives", types[1], answer.Schema)
			}
		}
	}
	for name, typ := range map[string]reflect.Type{"Failure": reflect.TypeFor[wire.Failure](),
		"EventEnvelope": reflect.TypeFor[view.EventEnvelope](), "StreamFrame": reflect.TypeFor[wire.StreamControl](),
		"StreamText": reflect.TypeFor[wire.Text]()} {
		c.check(name, typ, &openapi3.SchemaRef{Ref: "/" + name, Value: doc.Components.Schemas[name].Value})
	}
	for name := range doc.Components.Schemas {
		if !c.seen[name] {
			t.Errorf("%s is described and not used", name)
		}
	}
	enum := doc.Components.Schemas["FailureInfo"].Value.Properties["code"].Value.Enum
	listed := make(map[any]bool)
	for _, code := range enum {
		listed[code] = true
	}
	for _, code := range wire.Codes() {
		if !listed[string(code)] {
			t.Errorf("the code %s is not described", code)
		}
	}
	expect.Equal(t, "codes are described", len(enum), len(wire.Codes()))
}

// comparison compares Go types with schemas.
type comparison struct {
	*testing.T
	seen map[string]bool // components
}

// check compares t with a schema, and the types within it.
func (c comparison) check(at string, t reflect.Type, ref *openapi3.SchemaRef) {
	c.Helper()
	if t == nil {
		c.Errorf("%s: no type is known", at)
		return
	}
	name := ref.Ref[strings.LastIndex(ref.Ref, "/")+1:]
	if name != "" {
		if c.seen[name] && t.Kind() == reflect.Struct {
			return // types hold each other
		}
		c.seen[name], at = true, name
	}
	s := ref.Value
	if t == reflect.TypeFor[turns.Time]() {
		optional, always := []string{"string", "null"}, []string{"string"} // one that is always there is never null
		if got := s.Type.Slice(); !slices.Equal(got, optional) && !slices.Equal(got, always) {
			c.Errorf("%s is described as %q, want a string, or null too, for a %s", at, got, t)
		}
		return
	}
	if t == reflect.TypeFor[agentruntime.IDs]() {
		if !s.Type.Is("object") {
			c.Errorf("%s is described as %q, want an object of ids", at, s.Type.Slice())
		}
		return
	}
	if s.Not != nil || len(s.Enum) > 0 || t == reflect.TypeFor[json.RawMessage]() {
		return // refused; or words, which a string does not know; or any JSON
	}
	want := ""
	switch t.Kind() {
	case reflect.String:
		want = "string"
	case reflect.Bool:
		want = "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16:
		want = "integer"
	case reflect.Float64:
		want = "number"
	case reflect.Slice:
		want = "array"
	case reflect.Map, reflect.Struct:
		if want = "object"; t == reflect.TypeFor[time.Time]() {
			want = "string"
		}
	case reflect.Pointer:
		c.nullable(at, t, s)
		return
	case reflect.Interface:
	default:
		c.Fatalf("%s: the test does not know the kind of %s", at, t)
	}
	if got := strings.Join(s.Type.Slice(), " "); got != want {
		c.Errorf("%s is described as %q, want %q for a %s", at, got, want, t)
		return
	}
	switch {
	case want == "array":
		c.check(at+"[]", t.Elem(), s.Items)
	case t.Kind() == reflect.Map && s.AdditionalProperties.Schema != nil:
		c.check(at+".*", t.Elem(), s.AdditionalProperties.Schema)
	case want == "object" && t.Kind() == reflect.Struct:
		c.fields(at, t, s)
	}
}

// nullable compares a pointer with the type that may also be null.
func (c comparison) nullable(at string, t reflect.Type, s *openapi3.Schema) {
	c.Helper()
	if len(s.AnyOf) == 2 && s.AnyOf[1].Value.Type.Is("null") {
		c.check(at, t.Elem(), s.AnyOf[0])
		return
	}
	if !s.Type.Includes("null") {
		c.Errorf("%s cannot be null by its description, and is a %s", at, t)
	}
}

// fields compares the JSON keys of a struct: those that are never left out are required.
func (c comparison) fields(at string, t reflect.Type, s *openapi3.Schema) {
	c.Helper()
	known := make(map[string]bool)
	for _, f := range reflect.VisibleFields(t) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" || f.Anonymous && key == "" || !f.IsExported() {
			continue
		}
		known[key] = true
		property, optional := s.Properties[key], strings.Contains(options, "omit")
		if property == nil {
			c.Errorf("%s.%s is not described", at, key)
			continue
		}
		if required := slices.Contains(s.Required, key); required == optional {
			c.Errorf("%s.%s: required is %t, want %t", at, key, required, !optional)
		}
		typ := f.Type
		if optional && typ.Kind() == reflect.Pointer {
			typ = typ.Elem() // it is left out and never null
		}
		c.check(at+"."+key, typ, property)
	}
	for key := range s.Properties {
		if !known[key] {
			c.Errorf("%s.%s is described and does not exist", at, key)
		}
	}
}
