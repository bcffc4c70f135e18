package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	var b bytes.Buffer
	w := jsonWriter{to: jsontext.NewEncoder(&b), left: maxNodes}
	if err := w.write(n, 0); err != nil {
		return "", err
	}
	if text := strings.TrimSpace(b.String()); strings.HasPrefix(text, "{") {
		return text, nil
	}
	return "", fmt.Errorf("line %d: must be a mapping; use raw for anything else", n.Line)
}

// jsonWriter turns YAML nodes into JSON.
type jsonWriter struct {
	to   *jsontext.Encoder
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
		err := w.to.WriteToken(jsontext.BeginArray)
		for _, elem := range n.Content {
			if err == nil {
				err = w.write(elem, depth+1)
			}
		}
		if err != nil {
			return err
		}
		return w.to.WriteToken(jsontext.EndArray)
	case yaml.MappingNode:
		return w.mapping(n, depth)
	}
	return w.scalar(n)
}

func (w *jsonWriter) mapping(n *yaml.Node, depth int) error {
	if err := w.to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return fmt.Errorf("line %d: keys must be plain texts", key.Line)
		}
		if err := w.to.WriteToken(jsontext.String(key.Value)); errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("line %d: the key %s is repeated", key.Line, Excerpt(key.Value))
		} else if err != nil {
			return err
		}
		if err := w.write(value, depth+1); err != nil {
			return err
		}
	}
	return w.to.WriteToken(jsontext.EndObject)
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
	return json.MarshalEncode(w.to, v)
}
