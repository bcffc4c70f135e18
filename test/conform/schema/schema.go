// Package schema validates what a server sends by an OpenAPI document: the facts
// of the protocol's own, which openresponses.json holds, or the one that the
// server serves. It is for tests alone.
package schema

//go:generate sh -c "jq -rf derive.jq --arg sha256 $(sha256sum < $OPENAPI | cut -c-64) $OPENAPI > openresponses.json"

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a loaded OpenAPI document. Compiled schemas are kept: compiling
// takes many times as long as validating. It is safe for concurrent use.
type Document struct {
	events map[string]string // components by the event type that they fix

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by pointer
}

const (
	location   = "file:///openapi.json" // a name, nothing is read from there
	components = "/components/schemas/"
)

//go:embed openresponses.json
var facts []byte

// Official returns the facts of the protocol's own document: the names, types,
// required keys, words and bounds of its schemas.
var Official = sync.OnceValues(func() (*Document, error) { return Parse(facts) })

// Facts returns the text of the document of Official.
func Facts() []byte { return bytes.Clone(facts) }

// Parse reads a document, which is OpenAPI 3.1: its schemas are JSON Schema
// 2020-12.
func Parse(data []byte) (*Document, error) {
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var names struct {
		Components struct {
			Schemas map[string]struct {
				Properties struct {
					Type struct {
						Const string
						Enum  []any
					}
				}
			}
		}
	}
	if err := json.Unmarshal(data, &names); err != nil {
		return nil, err
	}
	d := &Document{events: make(map[string]string), compiler: jsonschema.NewCompiler(),
		compiled: make(map[string]*jsonschema.Schema)}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := d.compiler.AddResource(location, whole); err != nil {
		return nil, err
	}
	for name, component := range names.Components.Schemas {
		if _, err := d.schema(components + name); err != nil {
			return nil, err
		}
		if !strings.HasSuffix(name, "StreamingEvent") {
			continue
		}
		word := component.Properties.Type.Const
		if one := component.Properties.Type.Enum; len(one) == 1 {
			word, _ = one[0].(string)
		}
		if word != "" { // the union of them all has none
			d.events[word] = name
		}
	}
	return d, nil
}

func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(location + "#" + pointer)
	if err == nil {
		d.compiled[pointer] = s
	}
	return s, err
}

// At validates data by the schema at a JSON pointer (RFC 6901) of the document.
func (d *Document) At(pointer string, data []byte) error {
	s, err := d.schema((&url.URL{Path: pointer}).EscapedPath())
	if err != nil {
		return fmt.Errorf("the OpenAPI document has no schema at %s: %w", pointer, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		return fmt.Errorf("it does not fit %s: %w: %.1000s", pointer, err, data)
	}
	return nil
}

// Events returns the event types that the document has, in order.
func (d *Document) Events() []string { return slices.Sorted(maps.Keys(d.events)) }

// Object validates data by the component of that name.
func (d *Document) Object(component string, data []byte) error {
	return d.At(components+component, data)
}

// Event validates data by the component of the event's type. An error event may
// also have the form that it has on a WebSocket.
func (d *Document) Event(data []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("the event is not a JSON object: %w", err)
	}
	name, ok := d.events[head.Type]
	if !ok {
		return fmt.Errorf("the OpenAPI document has no event %q", head.Type)
	}
	err := d.Object(name, data)
	if err != nil && head.Type == "error" && d.Object("WebSocketErrorEvent", data) == nil {
		return nil
	}
	return err
}
