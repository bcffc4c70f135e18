package wire

import (
	"bytes"
	rawjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"holon/state"
)

// Decode reads the object that body holds into out, a pointer to a struct with json tags. Keys of the runtime
// specification in camelCase are taken for those in snake_case. A key that is unknown, repeated, or null where not any
// JSON is taken, an id that is empty, text that is not UTF-8 and anything after the object are refused with a
// *state.Error that names the key.
func Decode(body []byte, out any) error {
	if err := CheckJSON(body); err != nil {
		return err
	}
	if jsontext.Value(body).Kind() != '{' {
		return &state.Error{Code: CodeInvalidJSON, Message: "the body is not a JSON object", Hint: "send a JSON object"}
	}
	return explain(json.Unmarshal(body, out, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(refuseNothing))))
}

// maxDepth bounds the nesting of bodies, which are stored within other JSON.
const maxDepth = 256

// CheckJSON refuses what is not one JSON value in UTF-8, or is nested too deeply.
func CheckJSON(body []byte) error {
	if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)) {
		return &state.Error{Code: CodeInvalidJSON, Message: "the body is not valid JSON",
			Hint: "send one JSON value, in UTF-8"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	for dec.StackDepth() <= maxDepth {
		if _, err := dec.ReadToken(); err != nil {
			return nil // at its end
		}
	}
	return &state.Error{Code: CodeInvalidJSON, Hint: "send flatter JSON",
		Message: fmt.Sprintf("the JSON is nested deeper than %d levels", maxDepth)}
}

// refuseNothing refuses a value that says nothing: null, which package json takes for a key that is not there, and an
// empty text that was meant to name something.
func refuseNothing(dec *jsontext.Decoder, out any) error {
	switch out := out.(type) {
	case *rawjson.RawMessage: // it takes any JSON
		return errors.ErrUnsupported
	case *string:
		names := strings.HasSuffix(strings.ToLower(string(dec.StackPointer())), "id")
		if dec.PeekKind() != '"' || !names {
			break
		}
		token, err := dec.ReadToken()
		if *out = token.String(); err == nil && *out == "" {
			err = &state.Error{Code: CodeInvalidValue, Param: param(dec.StackPointer()),
				Message: fmt.Sprintf("the key %.100q is empty", param(dec.StackPointer())),
				Hint:    "give a value, or leave it out"}
		}
		return err
	}
	if dec.PeekKind() != 'n' {
		return errors.ErrUnsupported // package json decodes it
	}
	at := param(dec.StackPointer())
	return &state.Error{Code: CodeInvalidValue, Param: at, Message: fmt.Sprintf("%.100q can't be null", at),
		Hint: "give a value, or leave it out"}
}

// param names a place in a body: origin.kind.
func param(at jsontext.Pointer) string { return strings.Join(slices.Collect(at.Tokens()), ".") }

// explain makes an error of package json one that names the key and the remedy.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if ours, ok := errors.AsType[*state.Error](err); ok {
		return ours
	}
	e := &state.Error{Code: CodeInvalidValue, Hint: "GET /openapi.json says what it may be"}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok { // of valid JSON: a key
		e.Param = param(syntactic.JSONPointer)
		e.Message, e.Hint = fmt.Sprintf("the key %.100q is repeated", e.Param), "give it once"
	} else if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		e.Param = param(wrong.JSONPointer)
		e.Message = fmt.Sprintf("%.100q can't be a %s", e.Param, wrong.JSONKind)
	}
	if errors.Is(err, json.ErrUnknownName) {
		e.Code, e.Hint = CodeUnknownField, "GET /openapi.json lists the keys"
		e.Message = fmt.Sprintf("there is no key %.100q here", e.Param)
	}
	return e
}
