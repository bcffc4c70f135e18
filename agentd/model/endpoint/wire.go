package endpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"holon/agentd/model"
	"holon/responses"
)

// Unanswered is sent in place of a missing output: providers refuse a call without
// one, and the conversation could not continue.
const Unanswered = "There is no output: the call was not answered."

// EmptySchema is the schema of a tool without arguments.
const EmptySchema = `{"type":"object","properties":{}}`

// MaxItems bounds the items of one answer, far above the output of models.
const MaxItems = 4096

// MaxArguments bounds the arguments of one call, and a thought, in bytes.
const MaxArguments = 16 << 20

// Malformed is the error of an answer that breaks its protocol.
func Malformed(format string, args ...any) *model.Error {
	return &model.Error{Kind: model.KindProtocol, Code: responses.CodeModelError, Message: fmt.Sprintf(format, args...)}
}

// Unreadable says in words of JSON why it can't be read.
func Unreadable(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("its %s is of the wrong type: %s", cmp.Or(wrong.Field, "whole"), wrong.Value)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "it is not JSON"
	}
	return err.Error()
}

// Refused is the error of a part of a request that the provider does not accept.
func Refused(part string, err error) *model.Error {
	return &model.Error{Kind: model.KindInvalidRequest, Code: responses.CodeInvalidValue,
		Message: part + ": " + err.Error(), Err: err}
}

// RefusedItem is Refused for an item of the conversation.
func RefusedItem(i int, err error) *model.Error {
	return Refused(fmt.Sprintf("item %d of the conversation", i), err)
}

// Referred is the cause of RefusedItem for an item that is not there.
func Referred(item *responses.ItemReference) error {
	return fmt.Errorf("the item %.64q is only referred to, not given", item.ID)
}

// EncodeJSON returns v in JSON without escapes for HTML. The error is a *model.Error.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, Refused("the request has no form in JSON", err)
	}
	return b.Bytes(), nil
}

// ObjectArguments returns the arguments of a call as a JSON object, which providers
// require. Other arguments of a model are wrapped unchanged.
func ObjectArguments(arguments string) string {
	text := strings.TrimSpace(arguments)
	switch {
	case text == "":
		return "{}"
	case text[0] == '{' && json.Valid([]byte(text)):
		return text
	}
	b, _ := EncodeJSON(map[string]string{"malformed_arguments": arguments}) // a string always has a form
	return string(bytes.TrimSpace(b))
}

// maxCallID is how long the id of a call may be (Open Responses, "call_id").
const maxCallID = 64

// CallIDs are the ids of the calls of one answer.
type CallIDs map[string]bool

// Add returns the id of a call, with a suffix: the provider's, or a new one if that
// is not unique.
func (ids CallIDs) Add(id, suffix string) string {
	if id == "" || len(id+suffix) > maxCallID || ids[id+suffix] {
		id = responses.NewID(responses.PrefixCallID)
	}
	ids[id+suffix] = true
	return id + suffix
}
