package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file.
const (
	maxFile  = 256 << 10
	maxDepth = 8
)

// kind is what a value of a file is.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindObject
)

// node is a value of a file, with the line it begins on.
type node struct {
	line   int
	kind   kind
	text   string // of a scalar
	list   []node
	fields []field // of an object, in order
}

type field struct {
	name  string
	line  int
	value node
}

// get returns the field of that name, nil if there is none.
func (n *node) get(name string) *node {
	for i := range n.fields {
		if n.fields[i].name == name {
			return &n.fields[i].value
		}
	}
	return nil
}

// syntaxError is a file that cannot be read as what it should be.
type syntaxError struct {
	line int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// parseJSON reads one JSON object. Keys that come twice are errors, as are
// comments and anything after the object.
func parseJSON(data []byte) (node, error) {
	if !utf8.Valid(data) {
		return node{}, &syntaxError{1, "the file is not UTF-8"}
	}
	p := &jsonParser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	n, err := p.value(0)
	if err == nil {
		if _, err = p.dec.Token(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err == nil {
			err = &syntaxError{p.line(), "there is something after the object"}
		}
	}
	if e, ok := errors.AsType[*syntaxError](err); ok {
		return node{}, e
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return node{}, &syntaxError{p.lineAt(e.Offset), e.Error()}
	}
	return node{}, &syntaxError{p.line(), "the file ends too early"}
}

type jsonParser struct {
	data []byte
	dec  *json.Decoder
}

func (p *jsonParser) lineAt(offset int64) int {
	return 1 + bytes.Count(p.data[:min(max(offset, 0), int64(len(p.data)))], []byte("\n"))
}

func (p *jsonParser) line() int { return p.lineAt(p.dec.InputOffset()) }

func (p *jsonParser) value(depth int) (n node, err error) {
	token, err := p.dec.Token()
	n.line = p.line()
	if err != nil {
		return n, err
	}
	if depth > maxDepth {
		return n, &syntaxError{n.line, fmt.Sprintf("values are nested deeper than %d", maxDepth)}
	}
	switch t := token.(type) {
	case nil:
		n.kind = kindNull
	case bool:
		n.kind, n.text = kindBool, fmt.Sprint(t)
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case string:
		n.kind, n.text = kindString, t
	case json.Delim:
		if t == '[' {
			n.kind = kindList
			for p.dec.More() {
				item, err := p.value(depth + 1)
				if err != nil {
					return n, err
				}
				n.list = append(n.list, item)
			}
		} else if err := p.object(&n, depth); err != nil {
			return n, err
		}
		_, err = p.dec.Token() // the end
	}
	return n, err
}

func (p *jsonParser) object(n *node, depth int) error {
	n.kind = kindObject
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return err
		}
		f := field{line: p.line()}
		f.name, _ = token.(string) // the decoder lets nothing else pass
		if n.get(f.name) != nil {
			return &syntaxError{f.line, fmt.Sprintf("%.60q is there twice", f.name)}
		}
		if f.value, err = p.value(depth + 1); err != nil {
			return err
		}
		n.fields = append(n.fields, f)
	}
	return nil
}

// parseYAML reads one YAML document. Aliases are refused: the file comes from
// others, and they are how such files grow without bound.
func parseYAML(data []byte) (node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return node{line: 1, kind: kindObject}, nil
	} else if err != nil {
		return node{}, yamlError(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return node{}, &syntaxError{doc.Line, "there is a second document; one is enough"}
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return node{line: 1, kind: kindObject}, nil
	}
	return fromYAML(doc.Content[0], 0)
}

func yamlError(err error) error {
	e := &syntaxError{1, strings.TrimPrefix(err.Error(), "yaml: ")}
	if n, err := fmt.Sscanf(e.what, "line %d: ", &e.line); n == 1 && err == nil {
		_, e.what, _ = strings.Cut(e.what, ": ")
	}
	return e
}

func fromYAML(y *yaml.Node, depth int) (n node, err error) {
	n.line = y.Line
	if depth > maxDepth {
		return n, &syntaxError{n.line, fmt.Sprintf("values are nested deeper than %d", maxDepth)}
	}
	switch y.Kind {
	case yaml.ScalarNode:
		n.text = y.Value
		switch y.ShortTag() {
		case "!!null":
			n.kind = kindNull
		case "!!bool":
			n.kind = kindBool
		case "!!int", "!!float":
			n.kind = kindNumber
		default:
			n.kind = kindString
		}
	case yaml.SequenceNode:
		n.kind = kindList
		for _, item := range y.Content {
			value, err := fromYAML(item, depth+1)
			if err != nil {
				return n, err
			}
			n.list = append(n.list, value)
		}
	case yaml.MappingNode:
		n.kind = kindObject
		for i := 0; i+1 < len(y.Content); i += 2 {
			f := field{name: y.Content[i].Value, line: y.Content[i].Line}
			if n.get(f.name) != nil {
				return n, &syntaxError{f.line, fmt.Sprintf("%.60q is there twice", f.name)}
			}
			if f.value, err = fromYAML(y.Content[i+1], depth+1); err != nil {
				return n, err
			}
			n.fields = append(n.fields, f)
		}
	default:
		return n, &syntaxError{n.line, "aliases are not allowed; write the value out"}
	}
	return n, nil
}
