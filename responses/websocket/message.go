package websocket

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"holon/responses"
)

// typeCreate is the one type of message that a client sends.
const typeCreate = "response.create"

// DecodeCreate reads a response.create message: the body of POST /responses
// with a type, and without the fields that choose how it is answered, which
// here may not even be null. previous is the response that the message wants to
// continue, as far as that can be read, also when there is an error.
func DecodeCreate(text []byte) (req *responses.Request, previous string, err error) {
	if err := responses.CheckBody(text); err != nil {
		return nil, "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, "", responses.Invalid("", responses.CodeInvalidJSON, "a message must be a JSON object")
	}
	_ = json.Unmarshal(fields["previous_response_id"], &previous) // a value of another type names no response
	if err := checkCreate(fields); err != nil {
		return nil, previous, err
	}
	delete(fields, "type") // the same request by POST has none, and the same digest
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, previous, responses.Invalid("", responses.CodeInvalidJSON, "the message cannot be read")
	}
	req, err = responses.DecodeRequest(body)
	return req, previous, err
}

func checkCreate(fields map[string]json.RawMessage) error {
	var kind string
	switch raw, ok := fields["type"]; {
	case !ok:
		return responses.Invalid("type", responses.CodeMissingParameter, "a message needs the type "+typeCreate)
	case json.Unmarshal(raw, &kind) != nil || kind != typeCreate:
		return responses.Invalid("type", responses.CodeInvalidValue,
			fmt.Sprintf("the type of a message must be %s, not %.80s", typeCreate, raw))
	}
	for _, name := range []string{"stream", "stream_options", "background"} {
		for key := range fields {
			if strings.EqualFold(key, name) { // encoding/json takes either spelling for the field
				e := responses.Invalid(name, responses.CodeUnsupportedParameter, name+" has no meaning on a WebSocket")
				e.Hint = "leave it out, null and false too"
				return e
			}
		}
	}
	return nil
}

// errorFrame is the frame of an error: what HTTP answers with, status and envelope.
func errorFrame(e *responses.Error) []byte {
	frame := append([]byte(`{"type":"error","status":`), strconv.Itoa(e.Status())...)
	return append(append(frame, ','), e.Envelope()[1:]...)
}
