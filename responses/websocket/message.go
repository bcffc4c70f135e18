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

// KeyModelToken is the key of a message for what responses.HeaderModelToken is in a POST. It outweighs the header of
// the handshake, so that a connection has turns with a token each.
const KeyModelToken = "holon_model_token"

// keyGenerate is the key of a message for responses.Request.NoModel, which is its opposite.
const keyGenerate = "generate"

// Create is a response.create message.
type Create struct {
	*responses.Request
	Previous string // the response that it wants to continue, as far as that can be read, also when there is an error
	Token    string // of KeyModelToken; "" for none
}

// DecodeCreate reads a response.create message: the body of POST /responses
// with a type, and without the fields that choose how it is answered, which
// here may not even be null.
func DecodeCreate(text []byte) (c Create, err error) {
	if err := responses.CheckBody(text); err != nil {
		return c, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return c, responses.Invalid("", responses.CodeInvalidJSON, "a message must be a JSON object")
	}
	_ = json.Unmarshal(fields["previous_response_id"], &c.Previous) // a value of another type names no response
	if err := checkCreate(fields); err != nil {
		return c, err
	}
	if raw, ok := fields[KeyModelToken]; ok && json.Unmarshal(raw, &c.Token) != nil {
		return c, responses.Invalid(KeyModelToken, responses.CodeInvalidValue, KeyModelToken+" must be a string")
	}
	var generate *bool
	if raw, ok := fields[keyGenerate]; ok && json.Unmarshal(raw, &generate) != nil {
		return c, responses.Invalid(keyGenerate, responses.CodeInvalidValue, keyGenerate+" must be true or false")
	}
	warmUp := generate != nil && !*generate
	if !warmUp { // else the digest is that of another request
		delete(fields, keyGenerate)
	}
	delete(fields, KeyModelToken) // no record has it
	delete(fields, "type")        // the same request by POST has none, and the same digest
	body, err := json.Marshal(fields)
	if err != nil {
		return c, responses.Invalid("", responses.CodeInvalidJSON, "the message cannot be read")
	}
	if c.Request, err = responses.DecodeRequest(body); err == nil {
		c.NoModel = warmUp
	}
	return c, err
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
