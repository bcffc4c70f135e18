package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"holon/internal/visible"
)

// SchemaComplaint says in the words of JSON why a value does not fit a schema. err is
// what the library for JSON Schema says: a chain that names one part of the schema after
// another, with values as Go prints them.
func SchemaComplaint(err error, schema json.RawMessage) string {
	place := ""
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
		if rest, ok := strings.CutPrefix(err.Error(), "validating /"); ok {
			place, _, _ = strings.Cut(rest, ": ")
		}
	}
	complaint := err.Error()
	if i := strings.LastIndex(complaint, "}: "); strings.HasPrefix(complaint, "validating") && i >= 0 {
		complaint = complaint[i+3:]
	}
	keyword, rest, _ := strings.Cut(complaint, ": ")
	switch keyword {
	case "type":
		if i := strings.LastIndex(rest, " has type "); i >= 0 {
			return "type: the value" + rest[i:]
		}
	case "const":
		return "the value must be " + schemaValue(schema, place, keyword)
	case "enum":
		return "the value must be one of " + schemaValue(schema, place, keyword)
	case "minLength", "maxLength":
		return plainLength(complaint)
	case "anyOf":
		return "anyOf: the value fits none of the schemas"
	case "oneOf":
		if strings.HasPrefix(rest, "validated") {
			return "oneOf: the value fits more than one of the schemas"
		}
		return "oneOf: the value fits none of the schemas"
	case "not":
		return "not: the value fits the schema that it must not fit"
	case "contains":
		return "contains: no element of the list fits the schema"
	}
	return plainNumbers(complaint)
}

// schemaValue returns the JSON of a keyword in the part of a schema at a place.
func schemaValue(schema json.RawMessage, place, keyword string) string {
	var part any
	if json.Unmarshal(schema, &part) != nil {
		return "what " + keyword + " says"
	}
	for step := range strings.SplitSeq(place, "/") {
		if step != "" {
			part = schemaStep(part, step)
		}
	}
	keys, _ := part.(map[string]any)
	text, err := encode(keys[keyword])
	if err != nil || keys == nil {
		return "what " + keyword + " says"
	}
	return visible.Clip(string(text), 200)
}

// plainLength rewrites a complaint about the length of a text, which quotes all of it.
func plainLength(complaint string) string {
	m := regexp.MustCompile(` contains ([0-9]+) Unicode code points, (.*) ([0-9]+)$`).FindStringSubmatch(complaint)
	switch {
	case m == nil:
		return complaint
	case m[1] == "0":
		return "the text must not be empty"
	}
	return fmt.Sprintf("the text has %s characters, %s %s", m[1], m[2], m[3])
}

// plainNumbers rewrites a complaint about the size of a number, which prints 2.5 as 5/2
// and bounds with six digits. Other text stays.
func plainNumbers(complaint string) string {
	form := regexp.MustCompile(`^((?:multipleOf|minimum|maximum|exclusiveMinimum|exclusiveMaximum):) ` +
		`(-?[0-9]+(?:/[0-9]+)?) (is .*) (-?[0-9]+\.[0-9]+)$`)
	m := form.FindStringSubmatch(complaint)
	if m == nil {
		return complaint
	}
	value, ok := new(big.Rat).SetString(m[2])
	bound, err := strconv.ParseFloat(m[4], 64)
	if !ok || err != nil {
		return complaint
	}
	number, _ := value.Float64()
	return fmt.Sprintf("%s %s %s %s", m[1], plain(number), m[3], plain(bound))
}
