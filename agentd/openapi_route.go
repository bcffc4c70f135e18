package agentd

import (
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"holon/responses/openapi"
	"holon/responses/stream"
)

// about is what the document says of a route.
type about struct {
	id, tag, summary, text string
	params                 []openapi.Parameter // of query and headers; those of the path follow from it
	takes                  string              // component of the body
	optional               bool                // the body may be missing
	status                 int                 // of success, 200 for 0
	gives                  reflect.Type        // what is answered as JSON
	free                   bool                // … or any JSON
	events                 string              // component of the events, if the answer can be a stream
	lines                  string              // component of the lines, if the answer is NDJSON
	socket                 bool                // the answer is a WebSocket
	turns                  bool                // work begins, so X-Should-Retry is on successes too
	cached                 bool                // 304 is answered
	errors                 []int               // statuses of errors beside those that every route has
}

// operation is the route as the document has it.
func (a *about) operation(path string, set *openapi.Set) (*openapi.Operation, error) {
	op := &openapi.Operation{ID: a.id, Tags: []string{a.tag}, Summary: a.summary, Description: a.text,
		Answers: make(map[string]*openapi.Answer)}
	for name := range strings.SplitSeq(path, "/") {
		if name == "{id}" || name == "*" {
			op.Parameters = append(op.Parameters,
				openapi.Parameter{Name: "id", In: "path", Required: true, Schema: openapi.Chars(1, 0)})
		}
	}
	op.Parameters = append(op.Parameters, a.params...)
	if a.takes != "" {
		op.Body = &openapi.Body{Required: !a.optional,
			Content: map[string]openapi.Media{"application/json": {Schema: openapi.Ref(a.takes)}}}
	}
	success, err := a.success(set)
	if err != nil {
		return nil, err
	}
	op.Answers[strconv.Itoa(a.successStatus())] = success
	if a.cached {
		op.Answers[strconv.Itoa(http.StatusNotModified)] = &openapi.Answer{Description: "Your copy is the current one.",
			Headers: refs("X-Request-Id", "ETag")}
	}
	if a.socket {
		op.WebSocket = &openapi.WebSocket{
			Description: "Text frames. The server sends the events of a turn, one a frame, as they are in every " +
				"other framing; there is no end mark.",
			ClientMessage: openapi.Ref("WebSocketResponseCreateEvent"), ServerMessage: openapi.Ref("StreamingEvent"),
			ErrorMessage: openapi.Ref("WebSocketErrorEvent"),
		}
	}
	for _, status := range append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError},
		a.errors...) {
		op.Answers[strconv.Itoa(status)] = failure(status)
	}
	return op, nil
}

func (a *about) successStatus() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

func (a *about) success(set *openapi.Set) (*openapi.Answer, error) {
	out := &openapi.Answer{Description: http.StatusText(a.successStatus()), Headers: refs("X-Request-Id"),
		Content: make(map[string]openapi.Media)}
	switch {
	case a.gives != nil:
		schema, err := set.Of(a.gives)
		if err != nil {
			return nil, err
		}
		out.Content["application/json"] = openapi.Media{Schema: schema}
	case a.free:
		out.Content["application/json"] = openapi.Media{Schema: openapi.Anything()}
	}
	if a.events != "" {
		out.Description = "The response; or, as server-sent events or NDJSON, the events of its stream, of each of " +
			"which this is the schema. " +
			"Server-sent events are named by their type, have comments between them while nothing happens, and end " +
			"with the data [DONE]."
		out.Content[stream.TypeSSE] = openapi.Media{Schema: openapi.Ref(a.events)}
		out.Content[stream.TypeNDJSON] = openapi.Media{Schema: openapi.Ref(a.events)}
	}
	if a.lines != "" {
		out.Description = "Lines of JSON, of each of which this is the schema."
		out.Content[stream.TypeNDJSON] = openapi.Media{Schema: openapi.Ref(a.lines)}
	}
	if a.turns {
		maps.Copy(out.Headers, refs("X-Should-Retry"))
	}
	if a.cached {
		maps.Copy(out.Headers, refs("ETag"))
	}
	return out, nil
}

// failure is an error answer.
func failure(status int) *openapi.Answer {
	a := &openapi.Answer{Description: http.StatusText(status), Headers: refs("X-Request-Id", "X-Should-Retry"),
		Content: map[string]openapi.Media{"application/json": {Schema: openapi.Ref("ErrorEnvelope")}}}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout:
		maps.Copy(a.Headers, refs("Retry-After"))
	case http.StatusMethodNotAllowed:
		maps.Copy(a.Headers, refs("Allow"))
	case http.StatusUnauthorized:
		maps.Copy(a.Headers, refs("WWW-Authenticate"))
	}
	return a
}

func refs(names ...string) map[string]*openapi.Header {
	out := make(map[string]*openapi.Header)
	for _, name := range names {
		out[name] = &openapi.Header{Ref: "#/components/headers/" + name}
	}
	return out
}

func headers() map[string]*openapi.Header {
	text := func(description string) *openapi.Header {
		return &openapi.Header{Description: description, Schema: openapi.Text()}
	}
	return map[string]*openapi.Header{
		"X-Request-Id": text("names the request in the server's log"),
		"X-Should-Retry": {Description: "whether the same request may be sent again by itself: false where work " +
			"has begun or it would fail again", Schema: openapi.Words("true", "false")},
		"Retry-After":      {Description: "seconds, where it may be sent again", Schema: openapi.Integer()},
		"ETag":             text("changes with the document"),
		"Allow":            text("the methods of the path"),
		"WWW-Authenticate": text("Bearer"),
	}
}
