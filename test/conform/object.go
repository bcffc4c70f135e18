package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"holon/responses"
)

// object reads the keys of one JSON object. The first thing wrong with it, or
// with an object within it, is kept in the event they all belong to.
type object struct {
	keys map[string]any
	path string // for messages, "" for the event itself
	ev   *event
}

// event is one decoded event.
type event struct {
	object
	typ   string
	fault *Violation
}

// decodeEvent reads an event; what is wrong with it is in its fault.
func decodeEvent(data []byte) *event {
	ev := &event{}
	ev.object = object{ev: ev}
	if err := responses.CheckDepth(data); err != nil {
		ev.fail(RuleJSON, "%v", err)
		return ev
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&ev.keys); err != nil || ev.keys == nil {
		ev.fail(RuleJSON, "it is no JSON object: %v", err)
		return ev
	}
	if _, err := dec.Token(); err != io.EOF {
		ev.fail(RuleJSON, "something follows the JSON object")
		return ev
	}
	if bytes.ContainsAny(data, "\r\n") {
		ev.fail(RuleJSON, "the JSON object is not one line")
		return ev
	}
	ev.typ = ev.str("type")
	if ev.typ == "" {
		ev.fail(RuleJSON, "it has no type")
	}
	return ev
}

// fail notes a violation, unless one was noted before.
func (o *object) fail(rule Rule, format string, args ...any) {
	if o.ev.fault == nil {
		detail := fmt.Sprintf(format, args...)
		if o.path != "" {
			detail = o.path + ": " + detail
		}
		o.ev.fault = &Violation{Rule: rule, Detail: detail}
	}
}

func (o *object) has(key string) bool {
	_, ok := o.keys[key]
	return ok
}

// value reads a required key as a T.
func value[T any](o *object, key, want string) T {
	v, ok := o.keys[key].(T)
	if !ok {
		rule := RuleShape
		if _, null := o.keys[key]; null && o.keys[key] == nil && want == "a list" {
			rule = RuleNullList
		}
		o.fail(rule, "%s must be %s, not %s", key, want, kind(o, key))
	}
	return v
}

func kind(o *object, key string) string {
	v, ok := o.keys[key]
	switch v.(type) {
	case nil:
		if !ok {
			return "absent"
		}
		return "null"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	}
	return "an object"
}

func (o *object) str(key string) string   { return value[string](o, key, "a string") }
func (o *object) list(key string) []any   { return value[[]any](o, key, "a list") }
func (o *object) boolean(key string) bool { return value[bool](o, key, "a boolean") }

func (o *object) integer(key string) int64 {
	n, err := value[json.Number](o, key, "an integer").Int64()
	if err != nil {
		o.fail(RuleShape, "%s must be an integer", key)
	}
	return n
}

func (o *object) number(key string) { value[json.Number](o, key, "a number") }

// obj reads a required object. It is never nil.
func (o *object) obj(key string) *object {
	return &object{keys: value[map[string]any](o, key, "an object"), path: o.join(key), ev: o.ev}
}

// within wraps an element of a list.
func (o *object) within(key string, i int, v any) *object {
	path := fmt.Sprintf("%s[%d]", o.join(key), i)
	keys, ok := v.(map[string]any)
	in := &object{keys: keys, path: path, ev: o.ev}
	if !ok {
		in.fail(RuleShape, "must be an object")
	}
	return in
}

func (o *object) join(key string) string { return strings.TrimPrefix(o.path+"."+key, ".") }

// isNull reports whether a required key is null.
func (o *object) isNull(key string) bool {
	v, ok := o.keys[key]
	if !ok {
		o.fail(RuleShape, "%s is absent; it may be null", key)
	}
	return v == nil
}

// absentOrSet refuses null for optional keys.
func (o *object) absentOrSet(keys ...string) {
	for _, key := range keys {
		if v, ok := o.keys[key]; ok && v == nil {
			o.fail(RuleNullList, "%s is null; leave it out", key)
		}
	}
}

// equal compares decoded JSON; an empty list equals a nil one.
func equal(a, b any) bool {
	x, ok1 := a.([]any)
	y, ok2 := b.([]any)
	if ok1 && ok2 && len(x) == 0 && len(y) == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}
