package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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

// jsonString matches a string of valid JSON, quotes included, and the colon that may follow.
var jsonString = regexp.MustCompile(`("(?:[^"\\]|\\.)*")(\s*)(:?)`)

// parseJSON reads one JSON object. It accepts nothing beyond JSON, such as comments, and no key twice. The YAML parser
// gives the lines: JSON is YAML once strings use the escapes that both know, colons follow keys at once, and tabs are
// spaces.
func parseJSON(data []byte) (*yaml.Node, error) {
	value, err := decodeJSON(data)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, &syntaxError{1, "is null instead of an object with settings"}
	}
	data = jsonString.ReplaceAllFunc(data, func(match []byte) []byte {
		part := jsonString.FindSubmatch(match)
		var text string
		_ = json.Unmarshal(part[1], &text) // the whole file is valid
		return slices.Concat(strconv.AppendQuoteToASCII(nil, text), part[3], part[2])
	})
	return parseYAML(bytes.ReplaceAll(data, []byte("\t"), []byte(" ")))
}

// CheckSyntax says where a file is neither YAML nor JSON, in the words that files of settings have for it.
func CheckSyntax(data []byte) error {
	err := yaml.Unmarshal(data, new(yaml.Node))
	if err == nil {
		return nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) { // JSON, of which more can be said
		if _, err := decodeJSON(data); err != nil {
			return err
		}
	}
	return yamlError(err)
}

// decodeJSON reads one value of JSON.
func decodeJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, &syntaxError{1, "the file is not UTF-8"}
	}
	line := func(offset int64) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a number that is too large is reported with its key
	var value any
	if err := dec.Decode(&value); err != nil {
		invalid, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return nil, &syntaxError{line(int64(len(data))), "the file ends too early"}
		}
		return nil, &syntaxError{line(invalid.Offset - 1), notJSON(data, int(invalid.Offset)-1)}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &syntaxError{line(dec.InputOffset()), "there is something after the object"}
	}
	return value, nil
}

// notJSON says what is wrong at a byte of data that JSON cannot have there.
func notJSON(data []byte, at int) string {
	before, char := data[:at], data[at]
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	what := fmt.Sprintf("%q cannot stand there", string(char))
	switch trimmed := bytes.TrimSpace(before); {
	case (char == '}' || char == ']') && bytes.HasSuffix(trimmed, []byte(",")):
		what = fmt.Sprintf("the comma before %q is one too many", string(char))
	case char == '/' || char == '#':
		what = "it has no comments"
	case char < ' ':
		what = "a text cannot go over the end of a line, or have control characters"
	case char >= utf8.RuneSelf:
		r, _ := utf8.DecodeRune(data[at:])
		what = fmt.Sprintf("%q cannot stand there", string(r))
	}
	return fmt.Sprintf("is not JSON at column %d: %s", column, what)
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
	if n, err := fmt.Sscanf(e.what, "line %d: ", &e.line); n == 1 && err == nil {
		_, e.what, _ = strings.Cut(e.what, ": ")
	}
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
	for i, below := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if get(n, below.Value) != n.Content[i+1] {
				return &syntaxError{below.Line, fmt.Sprintf("%.60q is there twice", below.Value)}
			}
			continue
		}
		if err := checkNode(below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// get returns the value of a key of an object, nil without one.
func get(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// textNode returns a string as a value.
func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// scalarTag returns the short tag of a scalar, "" for a list or an object.
func scalarTag(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.ShortTag()
}

// isText reports whether a value is a string, or a scalar of a kind that settings don't know, such as a date.
func isText(n *yaml.Node) bool {
	switch scalarTag(n) {
	case "", "!!null", "!!bool", "!!int", "!!float":
		return false
	}
	return true
}

func isNumber(n *yaml.Node) bool { return scalarTag(n) == "!!int" || scalarTag(n) == "!!float" }
