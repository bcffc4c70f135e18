package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"holon/responses/openapi"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state/ledger"
)

func (s *Server) getOpenAPI(_ http.ResponseWriter, _ *http.Request) (any, error) { return s.doc() }

// document makes the OpenAPI document from the routes and the types of what they
// take and give.
func (s *Server) document() ([]byte, error) {
	set, err := schemas()
	if err != nil {
		return nil, err
	}
	doc := &openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{Title: "holon", Version: s.host.Info().Version,
			Description: "The control plane of a holon runtime. " +
				"Bodies are JSON objects without keys that are not described; the camelCase names of the runtime " +
				"specification are taken for those in snake_case. " +
				"Errors have a code for programs, and say what to do."},
		Servers: []openapi.Server{{URL: "/", Description: "on the Unix socket, and on TCP when a port is open"}},
		Tags: []openapi.Tag{{Name: tagRuntime, Description: "the runtime itself"},
			{Name: tagAgents, Description: "what agents are and do; reading changes nothing"},
			{Name: tagMessages, Description: "what moves agents"},
			{Name: tagControl, Description: "what the operator may change"}},
		Paths:    make(map[string]map[string]*openapi.Operation),
		Security: []map[string][]string{{}, {"token": {}}},
		Components: openapi.Components{Headers: map[string]*openapi.Header{}, SecuritySchemes: map[string]any{
			"token": map[string]string{"type": "http", "scheme": "bearer",
				"description": "on TCP; never on the socket, and not with the URL of an external trigger"}}},
	}
	for _, r := range s.routes() {
		op, err := r.operation(set)
		if err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", r.method, r.path, err)
		}
		if doc.Paths[r.path] == nil {
			doc.Paths[r.path] = make(map[string]*openapi.Operation)
		}
		doc.Paths[r.path][strings.ToLower(r.method)] = op
	}
	doc.Components.Schemas = set.Components()
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return out, nil
}

// schemas names the types whose own names would be taken twice.
func schemas() (*openapi.Set, error) {
	set := openapi.NewSet()
	err := set.Add(map[string]reflect.Type{
		"Failure": reflect.TypeFor[wire.Failure](), "FailureRecord": reflect.TypeFor[ledger.Failure](),
		"StreamFrame": reflect.TypeFor[wire.StreamFrame](),
		"WakeRequest": reflect.TypeFor[wire.Wake](), "TimerRequest": reflect.TypeFor[wire.Timer](),
		"ModelRequest": reflect.TypeFor[wire.Model](),
		"ImageRequest": reflect.TypeFor[wire.Image](), "AbortRequest": reflect.TypeFor[wire.Abort](),
		"CreateRequest":  reflect.TypeFor[wire.Create](),
		"ControlRequest": reflect.TypeFor[wire.Control](), "PromptRequest": reflect.TypeFor[wire.Prompt](),
		"EnqueueRequest":     reflect.TypeFor[wire.Enqueue](),
		"DebugPromptRequest": reflect.TypeFor[wire.DebugPrompt](), "TriggerAnswer": reflect.TypeFor[wire.Trigger](),
		"Timer": reflect.TypeFor[view.Timer](), "ExternalTrigger": reflect.TypeFor[view.Trigger](),
		"Model":         reflect.TypeFor[view.Model](),
		"WaitCondition": reflect.TypeFor[ledger.Wait](), "QueueEntry": reflect.TypeFor[ledger.Entry](),
		"EventEnvelope": reflect.TypeFor[view.EventEnvelope](),
	})
	if err != nil {
		return nil, err
	}
	for _, t := range []struct {
		component, key string
		schema         *openapi.Schema
	}{
		{"EnqueueRequest", "trust", never("Refused: it follows from how a message came.")},
		{"EnqueueRequest", "authority_class", never("Refused, likewise.")},
		{"EnqueueRequest", "metadata", openapi.Map(openapi.Anything())},
		{"ControlRequest", "action", openapi.Words("start", "stop", "resume", "pause")},
		{"StreamFrame", "type", openapi.Words(wire.FrameOpen, wire.FrameReset, wire.FrameEnd)},
		{"FailureInfo", "code", openapi.Words(sortedCodes()...)},
	} {
		if err := set.Refine(t.component, t.key, t.schema); err != nil {
			return nil, err
		}
	}
	for _, takes := range []string{"WakeRequest", "TimerRequest", "ModelRequest", "ImageRequest", "AbortRequest",
		"CreateRequest", "ControlRequest", "PromptRequest", "EnqueueRequest", "DebugPromptRequest"} {
		set.Components()[takes].AdditionalProperties = false
	}
	return set, nil
}

func never(why string) *openapi.Schema {
	return &openapi.Schema{Not: openapi.Anything(), Description: why}
}

func sortedCodes() []string {
	var out []string
	for _, code := range wire.Codes() {
		out = append(out, string(code))
	}
	slices.Sort(out)
	return out
}

// operation is the route as the document has it.
func (r route) operation(set *openapi.Set) (*openapi.Operation, error) {
	a := r.about
	op := &openapi.Operation{ID: a.id, Tags: []string{a.tag}, Summary: a.summary, Description: a.text,
		Answers: make(map[string]*openapi.Answer)}
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			op.Parameters = append(op.Parameters,
				openapi.Parameter{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true,
					Schema: openapi.Chars(1, 0)})
		}
	}
	op.Parameters = append(op.Parameters, a.query...)
	if a.keyed {
		op.Parameters = append(op.Parameters,
			openapi.Parameter{Name: wire.HeaderIdempotencyKey, In: "header",
				Description: "makes it once, however often it is sent under the same key",
				Schema:      openapi.Chars(1, maxKey)})
	}
	switch {
	case a.any:
		op.Body = &openapi.Body{Content: map[string]openapi.Media{"*/*": {}},
			Description: "at most " + strconv.Itoa(maxCallback>>10) + " KiB"}
	case a.takes != nil:
		schema, err := set.Of(a.takes)
		if err != nil {
			return nil, err
		}
		op.Body = &openapi.Body{Required: !a.optional,
			Content: map[string]openapi.Media{"application/json": {Schema: schema}}}
	}
	success, err := a.success(set)
	if err != nil {
		return nil, err
	}
	op.Answers["200"] = success
	statuses := append([]int{400, 500, 503}, a.errors...)
	if !r.capability {
		statuses = append(statuses, 401, 403)
	}
	for _, status := range statuses {
		op.Answers[strconv.Itoa(status)] = &openapi.Answer{Description: http.StatusText(status),
			Content: map[string]openapi.Media{"application/json": {Schema: openapi.Ref("Failure")}}}
	}
	return op, nil
}

func (a about) success(set *openapi.Set) (*openapi.Answer, error) {
	media, schema := "application/json", openapi.Anything()
	var err error
	switch {
	case a.events:
		media, schema = "text/event-stream",
			&openapi.Schema{AnyOf: []*openapi.Schema{openapi.Ref("EventEnvelope"), openapi.Ref("StreamFrame")}}
	case a.text200:
		media, schema = "text/plain", openapi.Text()
	case a.gives != nil:
		schema, err = set.Of(a.gives)
	}
	return &openapi.Answer{Description: http.StatusText(http.StatusOK),
		Content: map[string]openapi.Media{media: {Schema: schema}}}, err
}
