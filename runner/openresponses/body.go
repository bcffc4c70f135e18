package openresponses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"holon/internal/bounded"
	"holon/internal/httpserver"
	"holon/responses"
	"holon/responses/websocket"
)

const (
	bodyPatience = 10 * time.Second // for a body, and a second for each KiB; that of the control plane
	maxAside     = 64 << 10         // bytes of the body of a request that needs none
)

// readBody reads the JSON body of a request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" && !httpserver.IsJSON(r) {
		return nil, responses.Invalid("Content-Type", responses.CodeUnsupportedMediaType,
			fmt.Sprintf("the body must be application/json in UTF-8, not %.80q", ct))
	}
	return readBounded(w, r, responses.MaxRequest)
}

func readBounded(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := httpserver.ReadBody(w, r, limit, bodyPatience)
	if err == nil {
		return body, nil
	}
	refuse := func(param, code, message, hint string) error {
		return &responses.Error{Type: responses.TypeInvalidRequest, Code: code, Param: param, Message: message, Hint: hint}
	}
	if _, over := errors.AsType[*bounded.TooLargeError](err); over {
		return nil, refuse("", responses.CodeRequestTooLarge,
			fmt.Sprintf("the body is larger than %d KiB", limit>>10), "send less")
	}
	switch {
	case errors.Is(err, httpserver.ErrEncoded):
		return nil, refuse("Content-Encoding", responses.CodeUnsupportedMediaType,
			fmt.Sprintf("bodies with the encoding %.80q are not read", r.Header.Get("Content-Encoding")),
			"send the body uncompressed")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse("", responses.CodeRequestTimeout, "the body came too slowly",
			fmt.Sprintf("send at least %d bytes a second", httpserver.BodyRate))
	}
	return nil, refuse("", responses.CodeInvalidJSON, "the body could not be read to its end", "")
}

// member is where a member of an object is in its text.
type member struct {
	key        string
	start, end int // from the quote of the key to the end of the value
	value      json.RawMessage
}

// members lists the members of an object that responses.CheckBody accepted.
func members(object []byte) (list []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err = dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		from := int(dec.InputOffset())
		m := member{start: from + bytes.IndexByte(object[from:], '"')}
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m.key, _ = key.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		m.end = int(dec.InputOffset())
		list = append(list, m)
	}
	return list, nil
}

// field is a key of holon and its new value; nil takes the key out.
type field struct {
	key   string
	value any
}

// editHolon sets and takes out keys of the object holon of a request, which may be absent, and leaves every other byte
// as it is.
func editHolon(body []byte, fields []field) ([]byte, error) {
	return set(body, "holon", func(old json.RawMessage) (out json.RawMessage, err error) {
		if out = old; old == nil || old[0] != '{' { // null is none
			out = []byte("{}")
		}
		for _, f := range fields {
			out, err = set(out, f.key, func(json.RawMessage) (json.RawMessage, error) {
				if f.value == nil {
					return nil, nil
				}
				return responses.Marshal(f.value)
			})
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// withToken adds the token of a turn to a message for agentd.
func withToken(text []byte, token string) ([]byte, error) {
	return set(text, websocket.KeyModelToken, func(json.RawMessage) (json.RawMessage, error) {
		return responses.Marshal(token)
	})
}

// set replaces the value of a key of an object, appends the key, or, for a new value of nil, takes it out.
func set(object []byte, key string, change func(old json.RawMessage) (json.RawMessage, error)) ([]byte, error) {
	list, err := members(object)
	if err != nil {
		return nil, err
	}
	at := -1
	var old json.RawMessage
	for i, m := range list {
		if m.key == key {
			at, old = i, m.value
		}
	}
	value, err := change(old)
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(object, '}')
	switch {
	case at < 0 && value == nil:
		return object, nil
	case at < 0:
		comma := ","
		if len(list) == 0 {
			comma = ""
		}
		name, _ := json.Marshal(key) // a string
		return splice(object, end, end, comma+string(name)+":"+string(value)), nil
	case value != nil:
		return splice(object, list[at].end-len(old), list[at].end, string(value)), nil
	case at+1 < len(list):
		return splice(object, list[at].start, list[at+1].start, ""), nil
	case at > 0:
		return splice(object, list[at-1].end, list[at].end, ""), nil
	}
	return splice(object, list[at].start, list[at].end, ""), nil
}

// splice returns a copy of text with the bytes from start to end replaced.
func splice(text []byte, start, end int, by string) []byte {
	out := make([]byte, 0, len(text)-(end-start)+len(by))
	return append(append(append(out, text[:start]...), by...), text[end:]...)
}
