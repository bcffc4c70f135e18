// Package yamltext says what the errors of a YAML decoder mean to the author of the file: no types of ours, and no
// tags.
package yamltext

import (
	"errors"
	"fmt"
	"strings"

	"holon/internal/pattern"

	"go.yaml.in/yaml/v3"
)

// maxErrors bounds the mistakes of one file that are told.
const maxErrors = 3

// Explain returns a decoder's error as one line: "line 3: x is a text, where a list is wanted".
func Explain(err error) string {
	var lines []string
	if t := new(yaml.TypeError); errors.As(err, &t) {
		for _, line := range t.Errors[:min(maxErrors, len(t.Errors))] {
			lines = append(lines, explain(line))
		}
	} else {
		lines = []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	return strings.Join(strings.Fields(strings.Join(lines, "; ")), " ")
}

var (
	mismatch = pattern.Lazy("^(line \\d+: )cannot unmarshal (!!\\w+)(?: `(.*)`)? into (.+)$")
	unknown  = pattern.Lazy(`^(line \d+: )field (.+) not found in type .+$`)
	twice    = pattern.Lazy(`^(line \d+: )mapping key (.+) already defined at (line \d+)$`)
)

func explain(line string) string {
	if m := mismatch().FindStringSubmatch(line); m != nil {
		what := "this"
		if m[3] != "" {
			what = fmt.Sprintf("%.60q", strings.TrimSuffix(m[3], "..."))
		}
		return fmt.Sprintf("%s%s is %s, where %s is wanted", m[1], what, kind(m[2]), wanted(m[4]))
	}
	if m := unknown().FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("%sthe key %.60q is unknown", m[1], m[2])
	}
	if m := twice().FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("%sthe key %.60s stands at %s too", m[1], m[2], m[3])
	}
	return line
}

// kind is what a tag stands for.
func kind(tag string) string {
	switch tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!seq":
		return "a list"
	case "!!map":
		return "a list of keys"
	case "!!null":
		return "empty"
	}
	return "a text"
}

// wanted is what a Go type reads.
func wanted(typ string) string {
	switch typ = strings.TrimLeft(typ, "*"); {
	case strings.HasPrefix(typ, "[]"):
		return "a list"
	case typ == "string":
		return "a text"
	case typ == "time.Duration":
		return "a time such as 30s"
	case typ == "bool":
		return "true or false"
	case strings.HasPrefix(typ, "int"), strings.HasPrefix(typ, "uint"), strings.HasPrefix(typ, "float"):
		return "a number"
	case strings.HasPrefix(typ, "map["), strings.Contains(typ, "."):
		return "a list of keys"
	}
	return "something else"
}
