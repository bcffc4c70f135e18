package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"holon/internal/visible"
)

// Bounds of a JSON Schema.
const (
	maxSchemaBytes   = 256 << 10
	maxSchemaNesting = 64
)

// schemaTypes are the values of the keyword type.
var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// CheckSchema refuses a JSON Schema whose keywords have values that no validator can
// use. It does not refuse keywords that it does not know, since dialects have their
// own, nor patterns in a dialect of regular expressions that is not Go's. The error
// names the value below param.
func CheckSchema(param string, raw json.RawMessage) error {
	if len(raw) > maxSchemaBytes {
		return Invalid(param, CodeInvalidValue,
			fmt.Sprintf("%s may have at most %d bytes, this has %d", orBody(param), maxSchemaBytes, len(raw)))
	}
	if err := CheckDepth(raw); err != nil {
		return within(param, err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		return within(param, err)
	}
	if _, ok := root.(map[string]any); !ok {
		return schemaError(param, "must be a JSON Schema object, not %s", root)
	}
	c := schemaCheck{root: root, at: param, rebased: bytes.Contains(raw, []byte(`"$id"`)), seen: make(map[uintptr]bool)}
	return c.schema(param, root, 0)
}

// schemaCheck walks one schema. It is rebased when it may hold an $id below its root,
// which changes what # means there.
type schemaCheck struct {
	root    any
	at      string // of root
	rebased bool
	seen    map[uintptr]bool // schemas that a search for circles entered; false once it has left them
}

// schemaError says what a value at a place must be; format has one verb, for the value.
func schemaError(at, format string, value any) error {
	text, err := Marshal(value) // which writes numbers as they were
	if err != nil {
		text = nil // it was decoded from JSON, so it can be encoded
	}
	return Invalid(at, CodeInvalidValue, visible.Clip(at, 200)+" "+fmt.Sprintf(format, visible.Clip(string(text), 64)))
}

func (c *schemaCheck) schema(at string, v any, nesting int) error {
	keys, ok := v.(map[string]any)
	if !ok {
		if _, ok := v.(bool); ok {
			return nil
		}
		return schemaError(at, "must be a JSON Schema, an object or a boolean, not %s", v)
	}
	if nesting > maxSchemaNesting {
		return Invalid(at, CodeInvalidValue,
			fmt.Sprintf("the schema is nested deeper than %d levels at %s", maxSchemaNesting, visible.Clip(at, 200)))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := c.keyword(schemaPath(at, key), key, keys[key], nesting); err != nil {
			return err
		}
	}
	if ref, ok := keys["$ref"]; ok && !c.rebased {
		if at := c.circle(at, keys, ""); at != "" {
			return schemaError(at, "leads back to itself without an end: %s", ref)
		}
	}
	return nil
}

// keyword checks the value of a keyword at a place.
func (c *schemaCheck) keyword(at, key string, v any, nesting int) error {
	switch key {
	case "type":
		return checkSchemaType(at, v)
	case "enum":
		if list, ok := v.([]any); !ok || len(list) == 0 {
			return schemaError(at, "must be a list of at least one value, not %s", v)
		}
	case "not", "if", "then", "else", "additionalItems", "unevaluatedItems", "contains", "propertyNames",
		"additionalProperties", "unevaluatedProperties":
		return c.schema(at, v, nesting+1)
	case "items":
		if list, ok := v.([]any); ok { // as draft-07 has it
			return c.list(at, list, nesting)
		}
		return c.schema(at, v, nesting+1)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return schemaError(at, "must be a list of at least one schema, not %s", v)
		}
		return c.list(at, list, nesting)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
		"dependentRequired":
		return c.named(at, key, v, nesting)
	case "required":
		return checkSchemaNames(at, v)
	case "$ref":
		return c.reference(at, v)
	case "pattern":
		return checkSchemaPattern(at, v)
	}
	return checkSchemaScalar(at, key, v)
}

func (c *schemaCheck) list(at string, list []any, nesting int) error {
	for i, v := range list {
		if err := c.schema(fmt.Sprintf("%s[%d]", at, i), v, nesting+1); err != nil {
			return err
		}
	}
	return nil
}

// named checks a keyword whose value has schemas, or lists of names, by name.
func (c *schemaCheck) named(at, key string, v any, nesting int) error {
	values, ok := v.(map[string]any)
	if !ok {
		return schemaError(at, "must be an object, not %s", v)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		place, value := schemaPath(at, name), values[name]
		_, isList := value.([]any)
		var err error
		switch {
		case key == "dependentRequired", key == "dependencies" && isList:
			err = checkSchemaNames(place, value)
		case key == "patternProperties":
			err = firstError(checkSchemaPattern(place, name), c.schema(place, value, nesting+1))
		default:
			err = c.schema(place, value, nesting+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reference checks that a reference leads to something within the schema: nothing is fetched.
func (c *schemaCheck) reference(at string, v any) error {
	ref, ok := v.(string)
	if !ok {
		return schemaError(at, "must be a string, not %s", v)
	}
	if !strings.HasPrefix(ref, "#") {
		return schemaError(at, "must begin with #, since nothing is fetched, not be %s", ref)
	}
	if !strings.HasPrefix(ref, "#/") || c.rebased {
		return nil
	}
	switch _, to := c.target(ref); to.(type) {
	case map[string]any, bool:
		return nil
	}
	return schemaError(at, "names no part of the schema: %s", ref)
}

// target follows a reference of the form # or #/path. It returns nil if that leads nowhere.
func (c *schemaCheck) target(ref string) (at string, to any) {
	at, to = c.at, c.root
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return at, to
	}
	for step := range strings.SplitSeq(path, "/") {
		if _, isList := to.([]any); isList {
			at += "[" + step + "]"
		} else {
			at = schemaPath(at, step)
		}
		to = schemaStep(to, step)
	}
	return at, to
}

// circle follows what a schema applies to the very value that it is applied to. It
// returns the place of the reference by which that leads back, or "". ref is the last
// reference on the way.
func (c *schemaCheck) circle(at string, v any, ref string) string {
	keys, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	id := reflect.ValueOf(keys).Pointer()
	if entered, known := c.seen[id]; known {
		if entered {
			return ref
		}
		return ""
	}
	c.seen[id] = true
	defer func() { c.seen[id] = false }()
	found := ""
	for _, key := range []string{"not", "if", "then", "else"} {
		found = cmp.Or(found, c.circle(schemaPath(at, key), keys[key], ref))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := keys[key].([]any)
		for i, v := range list {
			found = cmp.Or(found, c.circle(fmt.Sprintf("%s[%d]", schemaPath(at, key), i), v, ref))
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		schemas, _ := keys[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(schemas)) {
			found = cmp.Or(found, c.circle(schemaPath(schemaPath(at, key), name), schemas[name], ref))
		}
	}
	if to, ok := keys["$ref"].(string); ok && (to == "#" || strings.HasPrefix(to, "#/")) {
		there, schema := c.target(to)
		found = cmp.Or(found, c.circle(there, schema, schemaPath(at, "$ref")))
	}
	return found
}

// schemaStep follows one step of a JSON pointer; nil is nothing.
func schemaStep(v any, step string) any {
	if plain, err := url.PathUnescape(step); err == nil {
		step = plain
	}
	step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	switch v := v.(type) {
	case map[string]any:
		return v[step]
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// schemaPath names a value below a place. A key that is not a plain word is quoted.
func schemaPath(at, key string) string {
	key = visible.Clip(key, 64)
	odd := func(r rune) bool { return r != '$' && (r > 127 || !isIDByte(byte(r))) }
	if key != "" && strings.IndexFunc(key, odd) < 0 {
		return joinPath(at, key)
	}
	return at + "[" + strconv.Quote(key) + "]"
}

func checkSchemaType(at string, v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		if name, ok := one.(string); !ok || !slices.Contains(schemaTypes, name) {
			return schemaError(at, "must be "+strings.Join(schemaTypes, ", ")+", or a list of them, not %s", one)
		}
	}
	if len(list) == 0 {
		return schemaError(at, "must name at least one type, not %s", v)
	}
	return nil
}

func checkSchemaNames(at string, v any) error {
	list, ok := v.([]any)
	for _, one := range list {
		_, isName := one.(string)
		ok = ok && isName
	}
	if !ok {
		return schemaError(at, "must be a list of names of properties, not %s", v)
	}
	return nil
}

// checkSchemaPattern refuses a pattern that is not a regular expression in any dialect.
func checkSchemaPattern(at string, v any) error {
	pattern, ok := v.(string)
	if !ok {
		return schemaError(at, "must be a regular expression, not %s", v)
	}
	_, err := syntax.Parse(pattern, syntax.Perl)
	e, _ := err.(*syntax.Error)
	if e == nil || strings.Contains(pattern, "[^]") || strings.Contains(pattern, "[]") { // classes of JavaScript
		return nil
	}
	switch e.Code {
	case syntax.ErrMissingBracket, syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrTrailingBackslash,
		syntax.ErrMissingRepeatArgument:
		return schemaError(at, "is not a regular expression ("+string(e.Code)+"): %s", pattern)
	}
	return nil
}

// scalarKeywords are the keywords whose values are numbers, strings or booleans, by what fits.
var scalarKeywords = []struct {
	want string
	fits func(v any) bool
	keys []string
}{
	{"a number", isFinite, []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
	{"a number above 0", func(v any) bool { return isFinite(v) && number(v) > 0 }, []string{"multipleOf"}},
	{"an integer of at least 0", func(v any) bool {
		n := number(v)
		return n >= 0 && n <= 1<<53 && n == math.Trunc(n)
	}, []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
		"maxContains"}},
	{"true or false", func(v any) bool {
		_, ok := v.(bool)
		return ok
	}, []string{"uniqueItems", "deprecated", "readOnly", "writeOnly"}},
	{"a string", func(v any) bool {
		_, ok := v.(string)
		return ok || v == nil
	}, []string{"$schema", "$id", "$anchor", "$comment", "title", "description", "format", "contentEncoding",
		"contentMediaType"}},
}

func checkSchemaScalar(at, key string, v any) error {
	for _, kind := range scalarKeywords {
		if slices.Contains(kind.keys, key) && !kind.fits(v) {
			return schemaError(at, "must be "+kind.want+", not %s", v)
		}
	}
	return nil
}

// number is the value of a number, and NaN for anything else.
func number(v any) float64 {
	literal, ok := v.(json.Number)
	if !ok {
		return math.NaN()
	}
	n, _ := literal.Float64() // infinite beyond the range of a float64
	return n
}

func isFinite(v any) bool { return !math.IsNaN(number(v)) && !math.IsInf(number(v), 0) }
