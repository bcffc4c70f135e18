package responses_test

import (
	"errors"
	"strings"
	"testing"

	"holon/responses"
)

// Schemas that cannot work are refused where they stand, with the place.
func TestSchemasThatCannotWork(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 65) + `{}` + strings.Repeat(`}`, 65)
	for schema, at := range map[string]string{
		`{"type":"zzz"}`:                                                         ".type",
		`{"type":5}`:                                                             ".type",
		`{"type":[]}`:                                                            ".type",
		`{"type":["object","zzz"]}`:                                              ".type",
		`{"type":null}`:                                                          ".type",
		`{"properties":{"a":{"multipleOf":0}}}`:                                  ".properties.a.multipleOf",
		`{"properties":{"a":{"multipleOf":-1}}}`:                                 ".properties.a.multipleOf",
		`{"properties":{"a b":{"type":"zzz"}}}`:                                  `.properties["a b"].type`,
		`{"properties":[]}`:                                                      ".properties",
		`{"properties":{"a":"string"}}`:                                          ".properties.a",
		`{"properties":{"a":null}}`:                                              ".properties.a",
		`{"required":"a"}`:                                                       ".required",
		`{"required":[1]}`:                                                       ".required",
		`{"properties":{"a":{"required":true}}}`:                                 ".properties.a.required",
		`{"properties":{"a":{"enum":[]}}}`:                                       ".properties.a.enum",
		`{"properties":{"a":{"enum":"x"}}}`:                                      ".properties.a.enum",
		`{"properties":{"a":{"pattern":"("}}}`:                                   ".properties.a.pattern",
		`{"properties":{"a":{"pattern":1}}}`:                                     ".properties.a.pattern",
		`{"patternProperties":{"[":{}}}`:                                         `.patternProperties["["]`,
		`{"properties":{"a":{"minimum":"1"}}}`:                                   ".properties.a.minimum",
		`{"properties":{"a":{"maximum":1e400}}}`:                                 ".properties.a.maximum",
		`{"properties":{"a":{"exclusiveMinimum":true}}}`:                         ".properties.a.exclusiveMinimum",
		`{"properties":{"a":{"minLength":-1}}}`:                                  ".properties.a.minLength",
		`{"properties":{"a":{"maxItems":1.5}}}`:                                  ".properties.a.maxItems",
		`{"properties":{"a":{"uniqueItems":1}}}`:                                 ".properties.a.uniqueItems",
		`{"properties":{"a":{"description":1}}}`:                                 ".properties.a.description",
		`{"properties":{"a":{"$ref":"#/$defs/b"}}}`:                              ".properties.a.$ref",
		`{"properties":{"a":{"$ref":1}}}`:                                        ".properties.a.$ref",
		`{"properties":{"a":{"$ref":"https://example.com/s.json"}}}`:             ".properties.a.$ref",
		`{"$ref":"s.json#/a"}`:                                                   ".$ref",
		`{"$ref":"#"}`:                                                           ".$ref",
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#"}}}`:                        ".$ref",
		`{"$defs":{"a":{"allOf":[{"not":{"$ref":"#/$defs/a"}}]}}}`:               ".$defs.a.allOf[0].not.$ref",
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"then":{"$ref":"#/$defs/a"}}}}`: ".$defs.b.then.$ref",
		`{"dependentSchemas":{"a":{"oneOf":[{},{"$ref":"#"}]}}}`:                 ".dependentSchemas.a.oneOf[1].$ref",
		`{"$defs":{"b":{"allOf":[{},{"anyOf":[]}]}}}`:                            ".$defs.b.allOf[1].anyOf",
		`{"properties":{"a":{"items":[{},{"items":3}]}}}`:                        ".properties.a.items[1].items",
		`{"additionalProperties":"no"}`:                                          ".additionalProperties",
		`{"dependentRequired":{"a":"b"}}`:                                        ".dependentRequired.a",
		`{"dependencies":{"a":[1]}}`:                                             ".dependencies.a",
		`[]`:                                                                     "",
		`"object"`:                                                               "",
		`true`:                                                                   "",
		deep:                                                                     strings.Repeat(".items", 65),
		`{"description":"` + strings.Repeat("x", 256<<10) + `"}`:                 "",
	} {
		for place, body := range map[string]string{
			"tools[1].parameters": `{"input":"x","tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":S}]}`,
			"text.format.schema":  `{"input":"x","text":{"format":{"type":"json_schema","name":"n","schema":S}}}`,
		} {
			_, err := responses.DecodeRequest([]byte(strings.Replace(body, "S", schema, 1)))
			e, ok := errors.AsType[*responses.Error](err)
			switch {
			case !ok:
				t.Errorf("%.100s at %s: error %v, want one", schema, place, err)
			case e.Param != place+at || e.Code != responses.CodeInvalidValue:
				t.Errorf("%.100s: param %q and code %q, want %q and invalid_value", schema, e.Param, e.Code, place+at)
			case strings.HasSuffix(schema, ":-1}}}") && !strings.HasSuffix(e.Message, "not -1"):
				t.Errorf("%.100s: message %q, want one that ends with the number", schema, e.Message)
			case !strings.Contains(e.Message, place) || len(e.Message) > 500 || strings.Contains(e.Message, "Go "):
				t.Errorf("%.100s: message %q, want one that names %s", schema, e.Message, place)
			}
		}
	}
}

// Schemas that some validator understands are for the provider to judge.
func TestSchemasThatAreTaken(t *testing.T) {
	for _, schema := range []string{`{}`, `{"type":"object"}`, `{"type":["object","null"]}`,
		`{"properties":{"a":{"type":"string","pattern":"^(?!x)[^]\\u0041$"}}}`,
		`{"properties":{"a":{"nullable":true,"x-odd":[1],"example":null,"title":null}}}`,
		`{"properties":{"a":{"$ref":"#/$defs/b~1c%20d"}},"$defs":{"b/c d":{}}}`,
		`{"properties":{"a":{"$ref":"#"}}}`, `{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#"}}}}`,
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"b":{"$ref":"#"}}}}}`,
		`{"properties":{"a":{"allOf":[true]},"b":{"$ref":"#/properties/a/allOf/0"}}}`,
		`{"properties":{"a":{"minimum":5,"maximum":1,"multipleOf":0.01,"maxLength":9007199254740991}}}`,
		`{"properties":{"type":{"type":"string"},"enum":{"const":[]},"required":{"default":{}}}}`,
		`{"properties":{"a":{"items":[{"type":"string"}],"minItems":2.0,"additionalItems":false}}}`,
		`{"dependencies":{"a":["b"],"c":{"type":"object"}},"required":[]}`,
	} {
		body := `{"input":"x","tools":[{"type":"function","name":"f","parameters":` + schema + `}]}`
		if _, err := responses.DecodeRequest([]byte(body)); err != nil {
			t.Errorf("%s: %v, want no error", schema, err)
		}
	}
}

// A function's arguments are an object; an answer need not be one.
func TestArgumentsAreAnObject(t *testing.T) {
	for kind, ok := range map[string]bool{`"object"`: true, `["null","object"]`: true, `"string"`: false,
		`["null"]`: false} {
		body := `{"input":"x","tools":[{"type":"function","name":"f","parameters":{"type":` + kind + `}}]}`
		_, err := responses.DecodeRequest([]byte(body))
		if got := err == nil; got != ok {
			t.Errorf("arguments of type %s are taken: %t (%v), want %t", kind, got, err, ok)
		}
		if err != nil && responses.AsError(err).Param != "tools[0].parameters.type" {
			t.Errorf("param = %q, want tools[0].parameters.type", responses.AsError(err).Param)
		}
	}
}
