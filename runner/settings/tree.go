package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file.
const (
	maxFile  = 256 << 10
	maxDepth = 8
)

// syntaxError is a file that is not valid JSON or YAML, or uses a part of YAML that settings refuse.
type syntaxError struct {
	line int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// parseJSON reads one JSON object. It accepts nothing beyond JSON, such as comments, which a change of the file would
// lose.
func parseJSON(data []byte) (*yaml.Node, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a number that is too large is reported with its key
	root := jsonNode(dec, data)
	return root, checkNode(root, 0)
}

// checkJSON says where a file is not JSON.
func checkJSON(data []byte) error {
	if invalid, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(any))); ok {
		return &syntaxError{lineAt(data, invalid.Offset), "is not JSON: " + invalid.Error()}
	}
	return nil
}

// lineAt returns the line of the byte that ends at an offset.
func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:max(0, offset-1)], []byte("\n"))
}

// jsonNode reads the next value of valid JSON, which is a key, too.
func jsonNode(dec *json.Decoder, data []byte) *yaml.Node {
	token, _ := dec.Token()
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: lineAt(data, dec.InputOffset())}
	switch t := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, ""
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for dec.More() {
			n.Content = append(n.Content, jsonNode(dec, data))
		}
		_, _ = dec.Token() // its end
	case string:
		n.Tag, n.Value = "!!str", t
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	}
	return n
}

// CheckSyntax says where a file is neither YAML nor JSON, in the words that files of settings have for it.
func CheckSyntax(data []byte) error {
	err := yaml.Unmarshal(data, new(yaml.Node))
	if err == nil {
		return nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) { // JSON, of which more can be said
		return cmp.Or(checkJSON(data), yamlError(err))
	}
	return yamlError(err)
}

// parseYAML reads one YAML document. Aliases are refused, because a file with aliases can describe far more
// values than it has bytes.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1}, nil
	} else if err != nil {
		return nil, yamlError(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &syntaxError{doc.Line, "there is a second document; one is enough"}
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1}, nil
	}
	return doc.Content[0], checkNode(doc.Content[0], 0)
}

func yamlError(err error) error {
	e := &syntaxError{1, strings.TrimPrefix(err.Error(), "yaml: ")}
	_, _ = fmt.Sscanf(e.what, "line %d: ", &e.line) // without a line it is the first
	e.what = "is not YAML there, or in the line before; see to its indentation, colons, quotes and brackets"
	return e
}

// checkNode refuses aliases, deep nesting and keys that occur twice in an object.
func checkNode(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return &syntaxError{n.Line, "aliases are not allowed; write the value out"}
	case depth > maxDepth:
		return &syntaxError{n.Line, fmt.Sprintf("values are nested deeper than %d", maxDepth)}
	}
	names := make(map[string]bool)
	for i, below := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if names[below.Value] {
				return &syntaxError{below.Line, fmt.Sprintf("duplicate key %.60q", below.Value)}
			}
			names[below.Value] = true
			continue
		}
		if err := checkNode(below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// textNode returns a string as a value.
func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// listNode returns a list of strings as a value.
func listNode(list []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range list {
		n.Content = append(n.Content, textNode(item))
	}
	return n
}

// scalarTag returns the short tag of a scalar, "" for a list or an object.
func scalarTag(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.ShortTag()
}

// isText reports whether a value is a string, or a scalar of a kind that settings do not use, such as a date.
func isText(n *yaml.Node) bool {
	switch scalarTag(n) {
	case "", "!!null", "!!bool", "!!int", "!!float":
		return false
	}
	return true
}

func isNumber(n *yaml.Node) bool { return scalarTag(n) == "!!int" || scalarTag(n) == "!!float" }
