package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/responses"
	"holon/state"
)

// Decode reads the object that body holds into out, a pointer to a struct with
// json tags. Keys of the runtime specification in camelCase are taken for those
// in snake_case, also in the objects of nested. A key that is not known, one
// that stands twice, one that is null and is not for any JSON, nesting without bound, text that is no UTF-8 and anything
// after the object are refused with a *state.Error that names the key.
func Decode(body []byte, out any, nested ...string) error {
	if err := CheckJSON(body); err != nil {
		return err
	}
	fields, err := object(body)
	if err != nil {
		return err
	}
	kind := reflect.TypeOf(out).Elem()
	if err := refuseNull("", fields, kind); err != nil {
		return err
	}
	for i, f := range fields {
		meant := strings.HasSuffix(f.name, "_id") || f.name == "cmd" && kind == reflect.TypeFor[Command]()
		if meant && string(f.value) == `""` { // to name something, or to be run in place of work
			return &state.Error{Code: CodeInvalidValue, Param: f.name,
				Message: fmt.Sprintf("the key %.100q is empty", f.name), Hint: "give a value, or leave it out"}
		}
		if !slices.Contains(nested, f.name) || !bytes.HasPrefix(f.value, []byte("{")) {
			continue
		}
		inner, err := object(f.value)
		if err != nil {
			return err
		}
		if err := refuseNull(f.name+".", inner, typeOf(kind, f.name)); err != nil {
			return err
		}
		fields[i].value = join(inner)
	}
	dec := json.NewDecoder(bytes.NewReader(join(fields)))
	dec.DisallowUnknownFields()
	return explain(dec.Decode(out))
}

// refuseNull refuses keys of a struct that are null, which package json takes for keys that are not there. Null is a
// value where any JSON is taken.
func refuseNull(prefix string, fields []field, of reflect.Type) error {
	for _, f := range fields {
		t := typeOf(of, f.name)
		if string(f.value) != "null" || t == nil || t == reflect.TypeFor[json.RawMessage]() {
			continue
		}
		return &state.Error{Code: CodeInvalidValue, Param: prefix + f.name,
			Message: fmt.Sprintf("%.100q can't be null", prefix+f.name), Hint: "give a value, or leave it out"}
	}
	return nil
}

// typeOf is the type of what a struct, or what a pointer to one leads to, has under a key; nil when it has no such key.
func typeOf(of reflect.Type, key string) reflect.Type {
	if of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of == nil || of.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return f.Type
		}
	}
	return nil
}

// CheckJSON refuses what is no JSON, or is nested too deeply, or no UTF-8.
func CheckJSON(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return &state.Error{Code: CodeInvalidJSON, Message: "the body is empty", Hint: "send a JSON object"}
	}
	if err := responses.CheckDepth(body); err != nil {
		return &state.Error{Code: CodeInvalidJSON, Message: err.Error(), Hint: "send flatter JSON"}
	}
	if !utf8.Valid(body) || !json.Valid(body) {
		return &state.Error{Code: CodeInvalidJSON, Message: "the body is not valid JSON",
			Hint: "send one JSON value, in UTF-8"}
	}
	return nil
}

type field struct {
	name  string
	value json.RawMessage
}

// object returns the keys of a JSON object in snake_case. The JSON is valid.
func object(data []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, &state.Error{Code: CodeInvalidJSON, Message: "the body is no JSON object",
			Hint: "send a JSON object"}
	}
	var out []field
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, explain(err)
		}
		name, _ := t.(string) // keys are strings
		f := field{name: snake(name)}
		if err := dec.Decode(&f.value); err != nil {
			return nil, explain(err)
		}
		if slices.ContainsFunc(out, func(g field) bool { return g.name == f.name }) {
			return nil, &state.Error{Code: CodeInvalidValue, Param: f.name,
				Message: fmt.Sprintf("the key %.100q stands twice", f.name), Hint: "give it once"}
		}
		if out = append(out, f); len(out) > maxKeys {
			return nil, &state.Error{Code: CodeInvalidJSON,
				Message: fmt.Sprintf("the object has more than %d keys", maxKeys),
				Hint:    "put what is yours into metadata"}
		}
	}
	return out, nil
}

// maxKeys bounds the keys of the objects that are looked into.
const maxKeys = 64

func join(fields []field) []byte {
	out := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = responses.AppendString(out, f.name)
		out = append(append(out, ':'), f.value...)
	}
	return append(out, '}')
}

// snake makes a snake_case name of a camelCase one.
func snake(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// explain makes an error of package json one that names the key and the remedy.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &state.Error{Code: CodeInvalidValue, Param: wrong.Field,
			Message: fmt.Sprintf("%.100q can't be a %s", wrong.Field, wrong.Value),
			Hint:    "GET /openapi.json says what it may be"}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name = strings.Trim(name, `"`)
		return &state.Error{Code: CodeUnknownField, Param: name,
			Message: fmt.Sprintf("there is no key %.100q here", name), Hint: "GET /openapi.json lists the keys"}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &state.Error{Code: CodeInvalidJSON, Message: "the body ends too early", Hint: "send a whole JSON object"}
	}
	return &state.Error{Code: CodeInvalidJSON, Message: "the body is not valid JSON", Hint: "send a JSON object",
		Err: err}
}
