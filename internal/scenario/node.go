package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a call's arguments; aliases could otherwise expand without end.
const (
	maxNodes = 100_000
	maxDepth = 64
)

// argumentsJSON writes the arguments of a call as JSON with the keys in the
// order of the file. No arguments are {}.
func argumentsJSON(n *yaml.Node) (string, error) {
	if n.IsZero() {
		return "{}", nil
	}
	w := jsonWriter{left: maxNodes}
	if err := w.write(n, 0); err != nil {
		return "", err
	}
	if text := w.b.String(); strings.HasPrefix(text, "{") {
		return text, nil
	}
	return "", fmt.Errorf("line %d: must be a mapping; use raw for anything else", n.Line)
}

// jsonWriter turns YAML nodes into JSON.
type jsonWriter struct {
	b    bytes.Buffer
	left int // nodes
}

func (w *jsonWriter) write(n *yaml.Node, depth int) error {
	if w.left--; w.left < 0 || depth > maxDepth {
		return fmt.Errorf("line %d: too large or nested too deeply", n.Line)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.write(n.Alias, depth+1)
	case yaml.SequenceNode:
		w.b.WriteByte('[')
		for i, elem := range n.Content {
			if i > 0 {
				w.b.WriteByte(',')
			}
			if err := w.write(elem, depth+1); err != nil {
				return err
			}
		}
		w.b.WriteByte(']')
		return nil
	case yaml.MappingNode:
		return w.mapping(n, depth)
	}
	return w.scalar(n)
}

func (w *jsonWriter) mapping(n *yaml.Node, depth int) error {
	seen := make(map[string]bool)
	w.b.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return fmt.Errorf("line %d: keys must be plain texts", key.Line)
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: the key %s stands here twice", key.Line, Excerpt(key.Value))
		}
		seen[key.Value] = true
		if i > 0 {
			w.b.WriteByte(',')
		}
		if err := w.value(key.Value); err != nil {
			return err
		}
		w.b.WriteByte(':')
		if err := w.write(value, depth+1); err != nil {
			return err
		}
	}
	w.b.WriteByte('}')
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	var v any = n.Value
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
	case "!!null", "!!bool", "!!int", "!!float":
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %s can't be read", n.Line, Excerpt(n.Value))
		}
		if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			return fmt.Errorf("line %d: JSON has no %s", n.Line, Excerpt(n.Value))
		}
	default:
		return fmt.Errorf("line %d: a value tagged %s has no form in JSON", n.Line, Excerpt(n.ShortTag()))
	}
	return w.value(v)
}

// value writes a scalar without HTML escapes: it may be source code.
func (w *jsonWriter) value(v any) error {
	enc := json.NewEncoder(&w.b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	w.b.Truncate(w.b.Len() - 1) // the encoder's line end
	return nil
}
