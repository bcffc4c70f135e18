package agentruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"holon/responses"
)

// maxDepth is how deep an event may be nested.
const maxDepth = 64

// misfit is a field of an event that is not of its type: what was there, and what type it has.
type misfit struct{ got, want string }

// UnmarshalJSON decodes one event and refuses a field that is not of its type.
func (e *Event) UnmarshalJSON(data []byte) error {
	keys, err := objectKeys(data)
	if err != nil {
		return err
	}
	*e = Event{}
	e.decode(keys)
	for _, wrong := range e.misfits {
		return fmt.Errorf("%s, expected %s", wrong.got, wrong.want)
	}
	return nil
}

// decodeLine decodes one line of a log. It takes keys as they are written and each once, and leaves fields that are not
// of their type to the rules.
func decodeLine(data []byte, e *Event) error {
	if err := responses.CheckStrict(data, maxDepth); err != nil {
		return err
	}
	keys, err := objectKeys(data)
	if err != nil {
		return err
	}
	e.decode(keys)
	names := slices.Clone(idNames[:])
	for field := range reflect.TypeFor[Event]().Fields() {
		names = append(names, keyOf(field))
	}
	for key := range keys {
		for _, name := range names {
			if key != name && strings.EqualFold(key, name) {
				return fmt.Errorf("the key %q, which is not %s", key, name)
			}
		}
	}
	return nil
}

func objectKeys(data []byte) (map[string]json.RawMessage, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, errors.New("no JSON object")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, fmt.Errorf("bad JSON: %w", err)
	}
	return keys, nil
}

// decode takes the fields of an event. One that is not of its type counts as absent and is noted.
func (e *Event) decode(keys map[string]json.RawMessage) {
	d := fieldDecoder{e, keys, ""}
	d.fields(reflect.ValueOf(e).Elem())
	for kind, name := range idNames {
		d.text(name, &e.IDs[kind])
	}
	correlation := keys["correlation"]
	if correlation == nil || string(correlation) == "null" {
		return
	}
	keys, err := objectKeys(correlation)
	if err != nil {
		d.misfit("correlation", correlation, "an object")
		return
	}
	fieldDecoder{e, keys, "correlation."}.fields(reflect.ValueOf(&e.Correlation).Elem())
}

// fieldDecoder decodes the fields of one object of an event. Null is an absent field.
type fieldDecoder struct {
	event *Event
	keys  map[string]json.RawMessage
	of    string // before the names of the fields
}

// fields decodes the fields of a struct that are texts, whole numbers or JSON.
func (d fieldDecoder) fields(of reflect.Value) {
	for field, value := range of.Fields() {
		if !field.IsExported() {
			continue
		}
		switch to := value.Addr().Interface().(type) {
		case *string:
			d.text(keyOf(field), to)
		case *int64:
			d.whole(keyOf(field), to)
		case *json.RawMessage:
			*to = d.keys[keyOf(field)]
		}
	}
}

// keyOf is the key of a field in JSON.
func keyOf(field reflect.StructField) string {
	key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return key
}

func (d fieldDecoder) text(name string, to *string) {
	if data := d.keys[name]; data != nil && json.Unmarshal(data, to) != nil {
		d.misfit(name, data, "a text")
	}
}

// whole takes a number without a fraction, however it is written: 4, 4.0 and 4e0 are the same number in JSON.
func (d fieldDecoder) whole(name string, to *int64) {
	data := d.keys[name]
	if data == nil || string(data) == "null" {
		return
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		const exact = 1 << 53 // beyond it a float64 is not every whole number
		f, err := strconv.ParseFloat(string(data), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
			d.misfit(name, data, "a whole number")
			return
		}
		n = int64(f)
	}
	*to = n
}

func (d fieldDecoder) misfit(name string, data json.RawMessage, want string) {
	if d.event.misfits == nil {
		d.event.misfits = map[string]misfit{}
	}
	name = d.of + name
	d.event.misfits[name] = misfit{fmt.Sprintf("%s %.80s", name, data), want}
}
