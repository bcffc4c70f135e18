package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/internal/providers"
)

// Schema returns the JSON Schema of config.json. The file of a project takes the
// keys that a repository may decide, in YAML.
func Schema() ([]byte, error) {
	root := object("Settings of holon (config.json of HOLON_HOME). Flags and HOLON_… variables outweigh it.")
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	defaults := Default()
	for _, k := range keys {
		place(root, k.segments(), k.schema(&defaults))
	}
	// model: NAME is the short form of model: {default: NAME}.
	full := root.Properties["model"]
	root.Properties["model"] = &jsonschema.Schema{
		AnyOf: []*jsonschema.Schema{{Type: "string", Description: "The same as model.default."}, full}}
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(data, '\n'), nil
}

func object(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Description: description, Properties: make(map[string]*jsonschema.Schema),
		AdditionalProperties: nothing()}
}

// nothing is the schema that no value fits.
func nothing() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// place puts the schema of a key where it belongs.
func place(parent *jsonschema.Schema, path []string, leaf *jsonschema.Schema) {
	for i, segment := range path {
		if segment == "*" {
			if parent.AdditionalProperties.Not != nil {
				parent.AdditionalProperties = object("")
				names := `^[a-z][a-z0-9_.-]{0,63}$`
				if path[0] == "models" {
					names = `^[a-z][a-z0-9_.-]{0,63}/.+$`
				}
				parent.PropertyNames = &jsonschema.Schema{Pattern: names}
			}
			parent = parent.AdditionalProperties
			continue
		}
		if i == len(path)-1 {
			parent.Properties[segment] = leaf
		} else if parent.Properties[segment] == nil {
			parent.Properties[segment] = object("")
		}
		if !slices.Contains(parent.PropertyOrder, segment) {
			parent.PropertyOrder = append(parent.PropertyOrder, segment)
		}
		parent = parent.Properties[segment]
	}
}

// schema describes the values of one key.
func (k *key) schema(defaults *Settings) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string", Description: k.doc}
	switch k.sample().(type) {
	case *bool, *not:
		s.Type = "boolean"
	case *int, *int64:
		s.Type, s.Minimum = "integer", jsonschema.Ptr(1.0)
	case *float64, *Money, **Money:
		s.Type, s.Minimum = "number", jsonschema.Ptr(0.0)
	case *[]string:
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string"}
	case *time.Duration:
		s.Description += " A duration such as 30m."
	case *providers.Contract, *string, *Size:
	}
	for _, choice := range k.choices {
		s.Enum = append(s.Enum, choice)
	}
	s.Description += k.sources()
	if k.group() == plain {
		if v := k.value(defaults, ""); !emptyValue(v) {
			s.Default, _ = json.Marshal(v) // a text, number or truth value
		}
	}
	return s
}

// sources says which variable sets the key, and how a project may.
func (k *key) sources() (text string) {
	switch {
	case k.env != "" && k.group() == plain:
		text = " Variable: " + k.env + "."
	case k.env != "":
		text = " Variable of provider x: X_" + strings.ToUpper(k.env) + "."
	}
	switch k.project {
	case never:
		return text
	case lowerOnly:
		return text + " A project may set it lower."
	case strictOnly:
		return text + " A project may set it to " + k.strict + "."
	}
	return text + " A project may set it."
}
