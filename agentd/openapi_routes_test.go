package agentd

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"holon/agentd/config"
	"holon/responses"
	"holon/test/expect"
)

func describedServer(t *testing.T) (*Server, *openapi3.T) {
	t.Helper()
	cfg := config.Default()
	cfg.Tools.OutputTokens, cfg.Tools.MaxOutputTokens = 11, 12
	d := describe(`a "version"`, cfg.Tools.OutputTokens, cfg.Tools.MaxOutputTokens)
	doc, err := openapi3.NewLoader().LoadFromData(d.text)
	expect.NoError(t, err)
	return &Server{cfg: cfg}, doc
}

// The handler has the routes that the document describes, and no others.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	s, doc := describedServer(t)
	var have, want []string
	err := chi.Walk(s.Handler().(chi.Routes),
		func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			have = append(have, method+" "+strings.Replace(path, "*", "{id}", 1))
			return nil
		})
	expect.NoError(t, err)
	ids := make(map[string]string)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			want = append(want, at)
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%+v", op)
			}
			if other := ids[op.OperationID]; other != "" {
				t.Errorf("%s and %s have the same id %s", at, other, op.OperationID)
			}
			ids[op.OperationID] = at
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the routes are\n%s\nwant those that the document describes:\n%s", strings.Join(have, "\n"),
			strings.Join(want, "\n"))
	}
}

// The bounds of parameters are those of the handlers.
func TestBoundsOfParameters(t *testing.T) {
	t.Parallel()
	s, doc := describedServer(t)
	parameter := func(method, path, name string) *openapi3.Schema {
		for _, p := range doc.Paths.Value(path).GetOperation(method).Parameters {
			if p.Value.Name == name {
				return p.Value.Schema.Value
			}
		}
		t.Fatalf("%s %s has no parameter %s", method, path, name)
		return nil
	}
	for _, tt := range []struct {
		path, name     string
		low, high, def int
	}{
		{"/responses/{id}/input_items", "limit", 1, maxPage, defaultPage},
		{"/tasks", "limit", 1, maxListedTasks, listedTasks},
		{"/tasks/{id}/output", "timeout_ms", 1, int(maxOutputWait.Milliseconds()),
			int(defaultTaskWait.Milliseconds())},
		{"/tasks/{id}/output", "max_output_tokens", 1, s.cfg.Tools.MaxOutputTokens, s.cfg.Tools.OutputTokens},
	} {
		p := parameter(http.MethodGet, tt.path, tt.name)
		if p.Min == nil || p.Max == nil {
			t.Errorf("%s: %s has no bounds", tt.path, tt.name)
			continue
		}
		got := [3]any{*p.Min, *p.Max, p.Default}
		if want := [3]any{float64(tt.low), float64(tt.high), float64(tt.def)}; got != want {
			t.Errorf("%s: %s has minimum, maximum and default %v, want %v", tt.path, tt.name, got, want)
		}
	}
	for _, tt := range []struct {
		method, path, name string
		want               uint64
	}{
		{http.MethodPost, "/responses", responses.HeaderIdempotencyKey, responses.MaxIdempotencyKey},
		{http.MethodPost, "/responses", responses.HeaderModelToken, maxModelToken},
		{http.MethodGet, "/responses", responses.HeaderModelToken, maxModelToken}, // a WebSocket
		{http.MethodPost, "/responses/compact", responses.HeaderModelToken, maxModelToken},
	} {
		if got := parameter(tt.method, tt.path, tt.name).MaxLength; got == nil || *got != tt.want {
			t.Errorf("%s of %s may have %v characters, want %d", tt.name, tt.path, got, tt.want)
		}
	}
	if want := " " + strconv.Itoa(responses.MaxRequest>>20) + " MiB"; !strings.Contains(doc.Info.Description, want) {
		t.Errorf("the description does not mention%s: %s", want, doc.Info.Description)
	}
}

// The answers of agentd's own that no other package knows have the keys that are
// described.
func TestKeysOfAnswers(t *testing.T) {
	t.Parallel()
	_, doc := describedServer(t)
	for name, answer := range map[string]reflect.Type{
		"InputItemList": reflect.TypeFor[itemList](), "DeletedResponse": reflect.TypeFor[deleted](),
		"TokenCount": reflect.TypeFor[tokenCount](), "Model": reflect.TypeFor[responses.Model](),
		"ModelList": reflect.TypeFor[responses.ModelList](), "Stopping": reflect.TypeFor[stopping](),
	} {
		var have []string
		for field := range answer.Fields() {
			key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if options != "" {
				t.Errorf("%s.%s has the options %s, want none", name, key, options)
			}
			have = append(have, key)
		}
		slices.Sort(have)
		schema := doc.Components.Schemas[name].Value
		if want := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(have, want) {
			t.Errorf("%s has the keys %v, want %v", name, have, want)
		}
		if want := slices.Sorted(slices.Values(schema.Required)); !slices.Equal(have, want) {
			t.Errorf("%s has the keys %v, want those that are required: %v", name, have, want)
		}
	}
}
