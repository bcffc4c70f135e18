package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/responses"
)

// Bounds on the arguments of a call.
const (
	maxArgumentBytes = 16 << 20 // a patch of 4 MiB in the worst escaping fits
	maxArgumentDepth = 64
)

// check validates raw and returns it in normal form: an object, without the
// nulls that models send for optional arguments they leave out, as a strict
// schema makes them do.
func (p *parameters) check(raw json.RawMessage) (json.RawMessage, *Error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if len(raw) > maxArgumentBytes {
		return nil, InvalidInput("", fmt.Sprintf("the arguments are %d bytes; the limit is %d", len(raw),
			maxArgumentBytes), "split the work into smaller calls")
	}
	if err := responses.CheckStrict(raw, maxArgumentDepth); err != nil {
		return nil, InvalidInput("", "the arguments are not valid: "+Clip(err.Error(), 300),
			"send one JSON object in which each key occurs once")
	}
	var args map[string]any
	if err := json.Unmarshal(raw, &args); err != nil || args == nil {
		return nil, InvalidInput("", "the arguments must be a JSON object", p.wanted())
	}
	if p.foreign {
		return raw, nil
	}
	normal := raw
	if p.dropNulls(args) {
		data, err := responses.Marshal(args)
		if err != nil {
			return nil, InvalidInput("", "the arguments cannot be encoded", "send plain JSON")
		}
		normal = data
	}
	if err := p.validate("", args); err != nil {
		return nil, err
	}
	return normal, nil
}

func (p *parameters) wanted() string {
	if p.foreign {
		return "send a JSON object"
	}
	return "send an object with these keys: " + strings.Join(p.names, ", ")
}

// dropNulls takes the nulls of optional members out of v, at any depth.
func (p *parameters) dropNulls(v any) (dropped bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			prop := p.props[name]
			switch {
			case prop == nil:
			case member == nil && !p.required[name]:
				delete(v, name)
				dropped = true
			default:
				dropped = prop.dropNulls(member) || dropped
			}
		}
	case []any:
		if p.items == nil {
			return false
		}
		for _, elem := range v {
			dropped = p.items.dropNulls(elem) || dropped
		}
	}
	return dropped
}

// validate names the first argument that is wrong, in an order that does not
// depend on Go's maps. path is where v lies, "" for the arguments themselves.
func (p *parameters) validate(path string, v any) *Error {
	switch v := v.(type) {
	case map[string]any:
		if p.props == nil {
			break
		}
		if err := p.validateMembers(path, v); err != nil {
			return err
		}
	case []any:
		if p.items == nil {
			break
		}
		for i, elem := range v {
			if err := p.items.validate(fmt.Sprintf("%s[%d]", path, i), elem); err != nil {
				return err
			}
		}
	}
	err := p.schema.Validate(v)
	switch {
	case err == nil:
		return nil
	case path == "":
		return InvalidInput("", "the arguments do not match the schema: "+p.reason(err),
			"send arguments that match the published schema")
	}
	return InvalidInput(path, fmt.Sprintf("argument %q does not match the schema: %s", path, p.reason(err)),
		"correct this argument and call again")
}

func (p *parameters) validateMembers(path string, v map[string]any) *Error {
	if path != "" {
		path += "."
	}
	given := slices.Sorted(maps.Keys(v))
	for _, name := range given {
		if p.props[name] == nil {
			name = Clip(name, 100)
			return InvalidInput(path+name, fmt.Sprintf("unknown argument %q", path+name),
				"remove it; the arguments are: "+strings.Join(p.names, ", "))
		}
	}
	for _, name := range p.names {
		if _, ok := v[name]; !ok && p.required[name] {
			return InvalidInput(path+name, fmt.Sprintf("argument %q is missing", path+name),
				"add it; required are: "+strings.Join(slices.Sorted(maps.Keys(p.required)), ", "))
		}
	}
	for _, name := range given {
		if err := p.props[name].validate(path+name, v[name]); err != nil {
			return err
		}
	}
	return nil
}

// reason says why a value does not fit, with bounded quotations.
func (p *parameters) reason(err error) string {
	schema, failed := responses.Marshal(p.schema.Schema())
	if failed != nil {
		schema = nil // it was made from JSON, so this does not happen
	}
	msg := responses.SchemaComplaint(err, schema)
	if len(msg) > 300 {
		// The value comes first and the complaint last.
		cut := len(msg) - 150
		for !utf8.RuneStart(msg[cut]) {
			cut++
		}
		msg = Clip(msg, 150) + msg[cut:]
	}
	return msg
}
