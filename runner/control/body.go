package control

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"holon/internal/bounded"
	"holon/internal/httpserver"
	"holon/runner/control/wire"
	"holon/state"
)

// Bounds of bodies, in bytes.
const (
	maxPrompt   = 1 << 20
	maxCallback = 256 << 10 // of callbacks and webhooks
	maxSmall    = 64 << 10

	maxKey = 200 // characters of an idempotency key
)

// decode reads a body of at most limit bytes into out. A body that is empty leaves out as it is when optional.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, limit int64, out any, optional bool) error {
	body, err := s.readJSON(w, r, limit)
	if err != nil || optional && len(body) == 0 {
		return err
	}
	return wire.Decode(body, out)
}

// readJSON is read for a body that has to say that it is JSON. A web page could
// have a browser send another one unasked.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength != 0 && !httpserver.IsJSON(r) {
		return nil, &state.Error{Code: wire.CodeUnsupportedMedia, Param: "Content-Type",
			Message: fmt.Sprintf("a body of type %.60q is not read here", r.Header.Get("Content-Type")),
			Hint:    "send Content-Type: application/json"}
	}
	return s.read(w, r, limit)
}

// read reads a body of any type, of at most limit bytes.
func (s *Server) read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := httpserver.ReadBody(w, r, limit, s.limits.Body)
	if err == nil {
		return body, nil
	}
	if errors.Is(err, httpserver.ErrEncoded) {
		return nil, &state.Error{Code: wire.CodeUnsupportedMedia, Param: "Content-Encoding",
			Message: fmt.Sprintf("bodies with the encoding %.40q are not read", r.Header.Get("Content-Encoding")),
			Hint:    "send the body uncompressed"}
	}
	if _, over := errors.AsType[*bounded.TooLargeError](err); over {
		return nil, &state.Error{Code: wire.CodeTooLarge,
			Message: fmt.Sprintf("the body is larger than %d KiB", limit>>10),
			Hint:    "send less, and refer to what is large by its path"}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &state.Error{Code: wire.CodeTimeout, Message: "the body came too slowly",
			Hint: fmt.Sprintf("send at least %d bytes a second", httpserver.BodyRate)}
	}
	return nil, &state.Error{Code: wire.CodeInvalidJSON, Message: "the body could not be read to its end",
		Hint: "send it again"}
}

// invalid is the refusal of a value of a request.
func invalid(param, message, hint string) error {
	return &state.Error{Code: wire.CodeInvalidValue, Param: param, Message: message, Hint: hint}
}

// refuseBody refuses the body of a request to a route that takes none: it was meant to say something.
func (s *Server) refuseBody(w http.ResponseWriter, r *http.Request, one route) error {
	if r.ContentLength == 0 {
		return nil
	}
	if _, err := httpserver.ReadBody(w, r, 0, s.limits.Body); err == nil {
		return nil // chunked, and empty
	}
	return invalid("body", one.method+" "+one.path+" takes no body", "send the request without a body")
}

// query is a query whose parameters are all known, each given once.
type query map[string]string

// queryOf reads the query of a request. A parameter that is not among names is
// refused, as are two of a name, and one without a value: it was meant to say something.
func queryOf(r *http.Request, names ...string) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "the query is malformed", "escape all but letters and digits")
	}
	q := make(query, len(values))
	for name, given := range values {
		switch {
		case !slices.Contains(names, name):
			return nil, &state.Error{Code: wire.CodeUnknownField, Param: fmt.Sprintf("%.80s", name),
				Message: fmt.Sprintf("this path has no parameter %.40q", name),
				Hint:    "GET /openapi.json lists the parameters"}
		case len(given) > 1:
			return nil, invalid(name, fmt.Sprintf("the parameter %s is repeated", name), "give it once")
		case given[0] == "" && name != "query": // an empty search is the memory's to refuse
			return nil, invalid(name, fmt.Sprintf("the parameter %s is empty", name), "give a value, or leave it out")
		}
		q[name] = given[0]
	}
	return q, nil
}

// number returns a whole number of at least 0 and at most high, 0 when it is not given.
func (q query) number(name string, high int64) (int64, error) {
	text, given := q[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > high {
		return 0, invalid(name, fmt.Sprintf("%s can't be %.40q", name, text),
			fmt.Sprintf("give a whole number from 0 to %d", high))
	}
	return n, nil
}

// word returns one of the words, the first when none is given.
func (q query) word(name string, words ...string) (string, error) {
	text, given := q[name]
	if !given {
		return words[0], nil
	}
	if slices.Contains(words, text) {
		return text, nil
	}
	return "", invalid(name, fmt.Sprintf("%s can't be %.40q", name, text), fmt.Sprintf("use one of %v", words))
}

// idempotencyKey returns the key of a request within what came the same way, ""
// for none: a client of one way cannot guess or take the keys of another.
func idempotencyKey(r *http.Request, way string) (string, error) {
	values := r.Header.Values(wire.HeaderIdempotencyKey)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || !usableKey(key) {
		return "", invalid(wire.HeaderIdempotencyKey, "the idempotency key is malformed",
			fmt.Sprintf("send one value of 1 to %d printable ASCII characters", maxKey))
	}
	return way + ":" + key, nil
}

// usableKey reports whether a text can name a request or a command.
func usableKey(key string) bool {
	return key != "" && len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}
