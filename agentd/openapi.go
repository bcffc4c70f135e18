package agentd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"holon/responses"
	"holon/responses/openapi"
)

// getOpenAPI is GET /openapi.json: what this server does.
func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) {
	d, err := s.describe()
	if err != nil {
		s.fail(w, responses.Internal("the API cannot be described", err))
		return
	}
	h := w.Header()
	h.Set("ETag", d.tag)
	h.Set("Cache-Control", "no-cache") // it may be kept, and must be asked for again
	if matches(r.Header.Values("If-None-Match"), d.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	stall(w)
	_, _ = w.Write(d.text) // the client is gone: nobody to tell
}

// matches reports whether the values of If-None-Match name a tag.
func matches(values []string, tag string) bool {
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}

// description is the OpenAPI document as it is sent.
type description struct {
	text []byte
	tag  string // its ETag
}

// description makes the document from the routes and the types of what they
// take and give. It takes some milliseconds and is done once.
func (s *Server) description() (*description, error) {
	doc, err := s.document()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	sum := sha256.Sum256(text.Bytes())
	return &description{bytes.Clone(text.Bytes()), `"` + hex.EncodeToString(sum[:12]) + `"`}, nil
}

func (s *Server) document() (*openapi.Document, error) {
	set, err := schemas()
	if err != nil {
		return nil, err
	}
	doc := &openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{Title: "agentd", Version: s.parts.Version,
			Description: "Open Responses, release 2026-04-24, in front of an agent that works in a container. " +
				"HEAD is answered like GET without the body, OPTIONS with the methods of a path. Bodies have at most " +
				strconv.Itoa(responses.MaxRequest>>20) + " MiB and are not compressed. " +
				"Every key of a request that is null is as good as absent; objects may have keys that are not described " +
				"unless it says otherwise. " +
				"An integer is written without fraction and exponent."},
		Servers: []openapi.Server{{URL: "/v1", Description: "where clients of the protocol look"},
			{URL: "/", Description: "the same"}},
		Tags:     tags,
		Paths:    make(map[string]map[string]*openapi.Operation),
		Security: []map[string][]string{{}, {"token": {}}},
		Components: openapi.Components{
			Headers: headers(),
			SecuritySchemes: map[string]any{"token": map[string]string{"type": "http", "scheme": "bearer",
				"description": "on TCP, if the server was given a token; never on the socket"}},
		},
	}
	for _, r := range s.routes() {
		op, err := r.about.operation(r.path, set)
		if err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", r.method, r.path, err)
		}
		path := strings.Replace(r.path, "*", "{id}", 1)
		if doc.Paths[path] == nil {
			doc.Paths[path] = make(map[string]*openapi.Operation)
		}
		doc.Paths[path][strings.ToLower(r.method)] = op
	}
	doc.Components.Schemas = set.Components()
	return doc, nil
}

// schemas are those of the protocol and of agentd's own answers.
func schemas() (*openapi.Set, error) {
	set, err := openapi.Protocol()
	if err != nil {
		return nil, err
	}
	if err := set.Add(map[string]reflect.Type{
		"InputItemList": reflect.TypeFor[itemList](), "DeletedResponse": reflect.TypeFor[deleted](),
		"TokenCount": reflect.TypeFor[tokenCount](),
		"Model":      reflect.TypeFor[modelObject](), "ModelList": reflect.TypeFor[modelList](),
		"Stopping": reflect.TypeFor[stopping](),
	}); err != nil {
		return nil, err
	}
	for _, refined := range []struct {
		component, key string
		schema         *openapi.Schema
	}{
		{"InputItemList", "object", openapi.Exactly("list")},
		{"InputItemList", "data", openapi.Array(openapi.Ref("InputItem"))},
		{"DeletedResponse", "object", openapi.Exactly("response")},
		{"TokenCount", "object", openapi.Exactly("response.input_tokens")},
		{"Model", "object", openapi.Exactly("model")},
		{"Model", "id", openapi.Text().Says("provider/model.")},
		{"ModelList", "object", openapi.Exactly("list")},
		{"Stopping", "status", openapi.Exactly("draining")},
	} {
		if err := set.Refine(refined.component, refined.key, refined.schema); err != nil {
			return nil, err
		}
	}
	return set, nil
}

const (
	tagResponses = "responses"
	tagTurns     = "turns"
	tagTasks     = "tasks"
	tagServer    = "server"
)

var tags = []openapi.Tag{
	{Name: tagResponses, Description: "Open Responses"},
	{Name: tagTurns, Description: "what became of a turn, beyond its response"},
	{Name: tagTasks, Description: "commands that outlive the call that started them"},
	{Name: tagServer, Description: "the server itself"},
}

func identifier() *openapi.Schema {
	s := openapi.Chars(0, responses.MaxID)
	s.Pattern = "^[A-Za-z0-9_-]*$"
	return s
}

func between(low, high, def int) *openapi.Schema {
	s := openapi.Integer().Between(int64(low), int64(high))
	s.Default = def
	return s
}

// yesOrNo is a boolean of a query.
func yesOrNo() *openapi.Schema {
	return openapi.Words("true", "false", "1", "0", "t", "f", "T", "F", "TRUE", "FALSE", "True", "False")
}
