package structured_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"holon/agentd/structured"
	"holon/responses"
	"holon/test/expect"
)

func compile(schema string) (*structured.Format, error) {
	return structured.Compile(responses.TextFormat{Type: "json_schema", Name: "n", Schema: json.RawMessage(schema)})
}

func TestFormatsWithoutASchema(t *testing.T) {
	for _, f := range []responses.TextFormat{{}, {Type: "text"}} {
		if got, err := structured.Compile(f); got != nil || err != nil {
			t.Errorf("%+v: %v, %v", f, got, err)
		}
	}
	for _, f := range []responses.TextFormat{{Type: "json_object"}, {Type: "json_schema"}} {
		got, err := structured.Compile(f)
		expect.NoError(t, err)
		for answer, ok := range map[string]bool{`{"a":1}`: true, ` {} `: true, `[]`: false, `1`: false, ``: false,
			`{`: false, `{} x`: false, strings.Repeat(`[`, 1000): false} {
			if err := got.Check(answer); (err == nil) != ok {
				t.Errorf("%+v, %.20q: %v", f, answer, err)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	const tree = `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},` +
		`"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["v"],"additionalProperties":false}}}`
	const expression = `{"$defs":{"e":{"anyOf":[{"type":"number"},{"properties":{"op":{"const":"add"},` +
		`"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}},"required":["op","l","r"]},
		{"properties":{"op":{"const":"mul"},"l":{"$ref":"#/$defs/e"},"r":{"$ref":"#/$defs/e"}},"required":["op","l",` +
		`"r"]}]}},"$ref":"#/$defs/e"}`
	for _, tt := range []struct {
		schema, answer string
		why            string // part of the complaint, "" when it fits
	}{
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":1}`, ""},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":"1"}`, "integer"},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{}`, "required"},
		{`{"type":"object"}`, `Sure! {"a":1}`, "not JSON"},
		{`{"type":"object"}`, ``, "not JSON"},
		{`{"type":"array"}`, `[]`, ""},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"type":"object",` +
			`"properties":{"a":{"$ref":"#/definitions/s"}}}`, `{"a":1}`, "string"},
		{`{"properties":{"a/b":{"type":"string"},"c":{"$ref":"#/properties/a~1b"}}}`, `{"c":1}`, "string"},
		{`{"properties":{"a b":{"type":"string"},"c":{"$ref":"#/properties/a%20b"}}}`, `{"c":1}`, "string"},
		{`{"type":"string","pattern":"^[a-z]+$"}`, `"A"`, "pattern"},
		{`{"enum":["x",null,{"y":1.50}]}`, `{"z":1}`, `the value must be one of ["x",null,{"y":1.5}]`},
		{`{"properties":{"a/b":{"const":{"b":["x"]}}}}`, `{"a/b":{}}`, `the value must be {"b":["x"]}`},
		{`{"items":{"$ref":"#/$defs/b"},"$defs":{"b":{"const":null}}}`, `[{}]`, `the value must be null`},
		{`{"oneOf":[{"const":{"a":1}},{"type":"string"}]}`, `{}`, `oneOf: the value fits none of the schemas`},
		{`{"oneOf":[{},true]}`, `{}`, `oneOf: the value fits more than one of the schemas`},
		{`{"contains":{"const":1}}`, `[{"a":2}]`, `contains: no element of the list fits the schema`},
		{`{"minLength":3}`, `"ä"`, `the text has 1 characters, fewer than 3`},
		{`{"minLength":1}`, `""`, `the text must not be empty`},
		{`{"type":"string"}`, `{"a":{}}`, `type: the value has type "object", want "string"`},
		{`{"not":{}}`, `1`, "not"},
		{`{"minimum":3}`, `2.5`, "minimum: 2.5 is less than 3"},
		{`{"maximum":20971520}`, `20971521`, "maximum: 20971521 is greater than 20971520"},
		{`{"multipleOf":0.5}`, `0.7`, "multipleOf: 0.7 is not a multiple of 0.5"},
		{`{"$schema":"http://json-schema.org/draft-07/schema","type":"object"}`, `{}`, ""},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object"}`, `[]`, "object"},
		{tree, `{"v":1,"children":[{"v":2,"children":[]}]}`, ""},
		{tree, `{"v":1,"children":[{"v":2,"children":[{"w":1}]}]}`, "w"},
		{expression, `{"op":"add","l":1,"r":{"op":"mul","l":2,"r":{"op":"add","l":1,"r":3}}}`, ""},
		{expression, `{"op":"sub","l":1,"r":2}`, "anyOf"},
	} {
		f, err := compile(tt.schema)
		if err != nil {
			t.Errorf("%s: %v", tt.schema, err)
			continue
		}
		err = f.Check(tt.answer)
		if tt.why == "" && err != nil || tt.why != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.why) || len(err.Error()) > 400 ||
				strings.ContainsAny(err.Error(), "\n<") || strings.Contains(err.Error(), "map[")) {
			t.Errorf("%s\n%s: %v", tt.schema, tt.answer, err)
		}
	}
}

// Schemas that would loop, reach out, or grow without bound are refused.
func TestHostileSchemas(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"items":`, n) + `{}` + strings.Repeat(`}`, n) }
	many := strings.TrimSuffix(strings.Repeat(`{},`, 5000), ",")
	for name, schema := range map[string]string{
		"no object":       `[]`,
		"broken":          `{`,
		"itself":          `{"$ref":"#"}`,
		"itself in allOf": `{"allOf":[{"$ref":"#"}]}`,
		"a circle": `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":` +
			`"#/$defs/a"}}}}`,
		"an unused circle":  `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		"dependent circle":  `{"dependentSchemas":{"x":{"$ref":"#"}}}`,
		"remote":            `{"$ref":"http://example.com/schema"}`,
		"file":              `{"$ref":"file:///etc/passwd"}`,
		"relative":          `{"$ref":"other.json#/x"}`,
		"missing":           `{"$ref":"#/$defs/none"}`,
		"into no schema":    `{"enum":[{}],"$ref":"#/enum/0"}`,
		"dynamic":           `{"$dynamicRef":"#x"}`,
		"anchor":            `{"$defs":{"a":{"$anchor":"x"}}}`,
		"inner id":          `{"$defs":{"a":{"$id":"http://x/"}}}`,
		"too deep":          nested(65),
		"far too deep":      nested(1000),
		"too many":          `{"anyOf":[` + many + `]}`,
		"too large":         `{"description":"` + strings.Repeat("x", 256<<10) + `"}`,
		"pattern too long":  `{"pattern":"` + strings.Repeat("x", 1001) + `"}`,
		"pattern of others": `{"pattern":"^(?!x)"}`,
		"broken pattern":    `{"patternProperties":{"(":{}}}`,
		"repeated pattern":  `{"pattern":"((a{1000}){1000}){1000}"}`,
		"wrong keyword":     `{"type":5}`,
	} {
		_, err := compile(schema)
		e, ok := errors.AsType[*responses.Error](err)
		switch {
		case !ok:
			t.Errorf("%s: %#v", name, err)
		case e.Param != "text.format.schema":
			t.Errorf(`%s: e.Param = %q, want "text.format.schema"`, name, e.Param)
		case e.Code != responses.CodeInvalidValue:
			t.Errorf("%s: e.Code = %q, want %q", name, e.Code, responses.CodeInvalidValue)
		case e.Hint == "":
			t.Errorf(`%s: e.Hint = "", want another value`, name)
		case len(e.Message) > 400:
			t.Errorf("%s: len(e.Message) = %d (%q), want at most 400", name, len(e.Message), e.Message)
		}
	}
}

// A check that could take too long is not begun.
func TestHostileAnswers(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	doubling := `{"$defs":{`
	for i := range 40 {
		doubling += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling += `"d40":{}},"$ref":"#/$defs/d0"}`
	for name, tt := range map[string]struct{ schema, answer string }{
		"doubling in one place":   {doubling, `1`},
		"doubling at every level": {`{"items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, deep(200)},
		"patterns over long text": {`{"type":"string","pattern":"^(a?){500}(x{1,400}y)*$"}`,
			`"` + strings.Repeat("a", 4<<20) + `"`},
	} {
		f, err := compile(tt.schema)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := f.Check(tt.answer); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := compile(`{"type":"array","items":{"type":"array","items":{"$ref":"#"}}}`)
	expect.NoError(t, err)
	if err := f.Check(deep(200)); err != nil {
		t.Errorf("plain recursion: %v", err)
	}
}

// An ordinary answer of a megabyte is checked.
func TestLargeAnswer(t *testing.T) {
	f, err := compile(`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object",` +
		`"properties":{"id":{"type":"integer"},"name":{"type":"string","pattern":"^[A-Z]"},"kind":{"enum":["a","b",` +
		`"c"]}},"required":["id","name","kind"],"additionalProperties":false}}},"required":["rows"],` +
		`"additionalProperties":false}`)
	expect.NoError(t, err)
	row := `{"id":1,"name":"Name of a thing that is a little longer","kind":"b"}`
	answer := `{"rows":[` + strings.Repeat(row+",", 15000) + row + `]}`
	expect.NoError(t, f.Check(answer))
	if err := f.Check(strings.Replace(answer, `"b"}]}`, `"d"}]}`, 1)); err == nil {
		t.Error("a wrong last row was accepted")
	}
}

// There is a verdict on every schema and answer.
func FuzzCheck(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":1}}`}, {`{"$ref":"#"}`, `1`},
		{`{"items":[{},true],"additionalItems":false,"$schema":"http://json-schema.org/draft-07/schema#"}`, `[1,2,3]`},
		{`{"if":{"const":1},"then":{"multipleOf":0},"else":{"pattern":"a+"}}`, `"aaa"`},
		{`{"patternProperties":{"^x":{"minLength":1e3}},"unevaluatedProperties":{"not":{}}}`, `{"x":"","y":1e300}`},
		{`{"dependencies":{"a":["b"],"c":{"required":["d"]}},"uniqueItems":true}`, `[[],[]]`}, {`true`, `null`},
		{`{"contains":{"$ref":"#/$defs/x"},"$defs":{"x":false}}`, `[1]`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, answer string) {
		format, err := compile(schema)
		if err != nil {
			if _, ok := errors.AsType[*responses.Error](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if err := format.Check(answer); err != nil && len(err.Error()) > 2000 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
	})
}
