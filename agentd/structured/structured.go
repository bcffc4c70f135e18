// Package structured checks answers against the form that a request asked for
// (Open Responses, "text.format"): any JSON object, or JSON that fits a schema.
//
//	request's format ─▶ Compile (bounds) ─▶ Format ─▶ Check (answer)
//
// Schema and answer are both hostile: one is a client's, the other a model's.
// The invariant: neither can make a check loop, overflow the stack or take more
// than a bounded number of steps. References stay within the schema, cycles that
// consume nothing of the answer are refused, and an answer whose check could take
// too long counts as one that does not fit. The keyword format is not checked.
package structured

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/responses"
)

// Format is a form that answers must have. It is immutable.
type Format struct {
	raw    json.RawMessage
	schema *jsonschema.Resolved // of raw; nil: any JSON object
	graph  *graph
}

// Compile prepares the check of a request's format. It returns nil for plain
// text. Errors are *responses.Error values about text.format.schema.
func Compile(f responses.TextFormat) (*Format, error) {
	switch {
	case f.Type == "json_object", f.Type == "json_schema" && len(f.Schema) == 0:
		return &Format{}, nil
	case f.Type != "json_schema":
		return nil, nil
	}
	g, err := newGraph(f.Schema)
	if err != nil {
		return nil, invalid(err.Error())
	}
	resolved, err := resolve(f.Schema)
	if err != nil {
		e := invalid("a keyword has a value that cannot be used")
		e.Cause = err // it names the library's types
		return nil, e
	}
	return &Format{raw: f.Schema, schema: resolved, graph: g}, nil
}

func invalid(why string) *responses.Error {
	e := responses.Invalid("text.format.schema", responses.CodeInvalidValue, "the schema is refused: "+clip(why))
	e.Hint = "send a JSON Schema of draft 2020-12 or draft-07 whose references begin with #/"
	return e
}

// resolve compiles the schema. The library's panics are errors too: it was not
// made for schemas of strangers.
func resolve(raw json.RawMessage) (resolved *jsonschema.Resolved, err error) {
	defer recovered(&err)
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	// The library knows two drafts by their exact names; clients write others.
	if strings.Contains(schema.Schema, "/draft-0") {
		schema.Schema = "http://json-schema.org/draft-07/schema#"
	} else {
		schema.Schema = ""
	}
	return schema.Resolve(nil) // without a loader, so nothing is fetched
}

func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%v", v)
	}
}

// Check reports how an answer fails to have the form. The error is fit for a
// client.
func (f *Format) Check(answer string) error {
	if err := responses.CheckDepth([]byte(answer)); err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if f.schema == nil {
		if _, ok := v.(map[string]any); !ok {
			return errors.New("it is not a JSON object")
		}
		return nil
	}
	if steps := f.graph.steps(v); steps > maxSteps {
		return errors.New("checking it against the schema would take too long")
	}
	return f.validate(v)
}

func (f *Format) validate(v any) (err error) {
	defer recovered(&err)
	if err := f.schema.Validate(v); err != nil {
		return errors.New(clip(responses.SchemaComplaint(err, f.raw)))
	}
	return nil
}

// clip makes one bounded line.
func clip(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
