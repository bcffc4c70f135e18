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

// object reads the keys of one JSON object that fits the protocol's document. The first thing wrong with it, or with
// an object within it, is kept in the event they all belong to.
type object struct {
	resource
	path string // for messages, "" for the event itself
	ev   *event
}

// event is one decoded event, or a response object.
type event struct {
	object
	typ   string
	fault *Violation
}

// decodeObject reads one JSON object; what is wrong with it is in its fault.
func decodeObject(data []byte) *event {
	ev := &event{}
	ev.object = object{ev: ev}
	if err := responses.CheckDepth(data); err != nil {
		ev.fail(RuleJSON, "%v", err)
		return ev
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&ev.resource); err != nil || ev.resource == nil {
		ev.fail(RuleJSON, "it is no JSON object: %v", err)
	} else if _, err := dec.Token(); err != io.EOF {
		ev.fail(RuleJSON, "something follows the JSON object")
	}
	return ev
}

// decodeEvent reads an event, which is one line.
func decodeEvent(data []byte) *event {
	ev := decodeObject(data)
	if bytes.ContainsAny(data, "\r\n") {
		ev.fail(RuleJSON, "the JSON object is not one line")
	}
	if ev.typ = ev.str("type"); ev.typ == "" {
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

// integer reads a number that is written in digits and fits 64 bits: the document allows more.
func (o *object) integer(key string) int64 {
	n, _ := o.resource[key].(json.Number)
	i, err := n.Int64()
	if err != nil {
		o.fail(RuleShape, "%s must be an integer in digits, not %q", key, n)
	}
	return i
}

// obj reads an object. It is never nil.
func (o *object) obj(key string) *object {
	keys, ok := o.resource[key].(map[string]any)
	in := &object{resource: keys, path: o.join(key), ev: o.ev}
	if !ok {
		in.fail(RuleShape, "must be an object")
	}
	return in
}

func (o *object) each(key string, check func(*object)) {
	for i, v := range o.list(key) {
		keys, _ := v.(map[string]any)
		check(&object{resource: keys, path: fmt.Sprintf("%s[%d]", o.join(key), i), ev: o.ev})
	}
}

func (o *object) join(key string) string { return strings.TrimPrefix(o.path+"."+key, ".") }

// equal compares decoded JSON; an empty list equals a nil one.
func equal(a, b any) bool {
	x, ok1 := a.([]any)
	y, ok2 := b.([]any)
	if ok1 && ok2 && len(x) == 0 && len(y) == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}
