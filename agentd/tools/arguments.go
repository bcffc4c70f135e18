package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds on the arguments of a call.
const (
	maxArgumentBytes = 16 << 20 // a patch of 4 MiB in the worst escaping fits
	maxArgumentDepth = 64
)

// check validates raw and returns it in normal form: an object, without the
// nulls that models send for optional arguments they leave out.
func (p *parameters) check(raw json.RawMessage) (json.RawMessage, *Error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if len(raw) > maxArgumentBytes {
		return nil, InvalidInput("", fmt.Sprintf("the arguments are %d bytes; the limit is %d", len(raw), maxArgumentBytes), "split the work into smaller calls")
	}
	if err := strict(raw); err != nil {
		return nil, InvalidInput("", "the arguments are not valid: "+Clip(err.Error(), 300), "send one JSON object in which each key occurs once")
	}
	var args map[string]any
	if err := json.Unmarshal(raw, &args); err != nil || args == nil {
		return nil, InvalidInput("", "the arguments must be a JSON object", "send an object with these keys: "+strings.Join(p.names, ", "))
	}
	normal := raw
	if p.dropNulls(args) {
		data, err := encode(args)
		if err != nil {
			return nil, InvalidInput("", "the arguments cannot be encoded", "send plain JSON")
		}
		normal = data
	}
	if err := p.validate(args); err != nil {
		return nil, err
	}
	return normal, nil
}

func (p *parameters) dropNulls(args map[string]any) (dropped bool) {
	for name, v := range args {
		if v == nil && p.props[name] != nil && !p.required[name] {
			delete(args, name)
			dropped = true
		}
	}
	return dropped
}

// validate names the first argument that is wrong, in an order that does not
// depend on Go's maps.
func (p *parameters) validate(args map[string]any) *Error {
	given := make([]string, 0, len(args))
	for name := range args {
		given = append(given, name)
	}
	slices.Sort(given)
	for _, name := range given {
		if p.props[name] == nil {
			return InvalidInput(Clip(name, 100), fmt.Sprintf("unknown argument %q", Clip(name, 100)), p.suggest(name))
		}
	}
	for _, name := range p.names {
		if _, ok := args[name]; !ok && p.required[name] {
			return InvalidInput(name, fmt.Sprintf("argument %q is missing", name), "add it; required are: "+strings.Join(p.requiredNames(), ", "))
		}
	}
	for _, name := range given {
		if err := p.props[name].Validate(args[name]); err != nil {
			return InvalidInput(name, fmt.Sprintf("argument %q does not match the schema: %s", name, reason(err)), "correct this argument and call again")
		}
	}
	if err := p.whole.Validate(args); err != nil {
		return InvalidInput("", "the arguments do not match the schema: "+reason(err), "send arguments that match the published schema")
	}
	return nil
}

func (p *parameters) requiredNames() []string {
	return slices.DeleteFunc(slices.Clone(p.names), func(n string) bool { return !p.required[n] })
}

func (p *parameters) suggest(name string) string {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	for _, known := range p.names {
		if fold(known) == fold(name) {
			return fmt.Sprintf("did you mean %q?", known)
		}
	}
	return "remove it; the arguments are: " + strings.Join(p.names, ", ")
}

// reason is the last link of a validator's chain, without the schema path and
// with bounded quotations.
func reason(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(next) {
		err = next
	}
	msg := err.Error()
	if i := strings.LastIndex(msg, "}: "); strings.HasPrefix(msg, "validating") && i >= 0 {
		msg = msg[i+3:]
	}
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

// strict refuses what encoding/json lets through and a reader of the record
// would see differently: duplicate keys, invalid UTF-8, data after the value,
// and nesting without bound.
func strict(raw []byte) error {
	if !utf8.Valid(raw) {
		return errors.New("invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	type level struct {
		keys    map[string]bool // nil for an array
		wantKey bool
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			if len(stack) > 0 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		if err != nil {
			return err
		}
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if n := len(stack); n > 0 && stack[n-1].keys != nil {
			top := &stack[n-1]
			if top.wantKey {
				key := tok.(string)
				if top.keys[key] {
					return fmt.Errorf("duplicate key %q", Clip(key, 100))
				}
				top.keys[key] = true
				top.wantKey = false
				continue
			}
			top.wantKey = true
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{keys: make(map[string]bool), wantKey: true})
		case json.Delim('['):
			stack = append(stack, level{})
		}
		if len(stack) > maxArgumentDepth {
			return fmt.Errorf("nested deeper than %d levels", maxArgumentDepth)
		}
	}
}
