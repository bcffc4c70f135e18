// Package schema validates what a server sends by the protocol's own OpenAPI
// document. It is apart from package conform because the document is not part
// of this module; both are for tests alone.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a loaded OpenAPI document, whose schemas are compiled once: that
// takes many times as long as validating. It is safe for concurrent use.
type Document struct {
	components map[string]*jsonschema.Schema
	events     map[string]*jsonschema.Schema // by the type that they fix
}

// Load reads the document at path, which is OpenAPI 3.1: its schemas are JSON
// Schema 2020-12.
func Load(path string) (*Document, error) {
	d, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("load the OpenAPI document %s: %w", path, err)
	}
	return d, nil
}

func load(path string) (*Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var names struct {
		Components struct {
			Schemas map[string]struct {
				Properties struct {
					Type struct{ Enum []string }
				}
			}
		}
	}
	if err := json.Unmarshal(data, &names); err != nil {
		return nil, err
	}
	const location = "file:///openapi.json" // a name, nothing is read from there
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource(location, whole); err != nil {
		return nil, err
	}
	d := &Document{components: make(map[string]*jsonschema.Schema), events: make(map[string]*jsonschema.Schema)}
	for name, component := range names.Components.Schemas {
		s, err := compiler.Compile(location + "#/components/schemas/" + name)
		if err != nil {
			return nil, err
		}
		d.components[name] = s
		if !strings.HasSuffix(name, "StreamingEvent") {
			continue
		}
		if len(component.Properties.Type.Enum) != 1 {
			return nil, fmt.Errorf("%s does not fix its type", name)
		}
		d.events[component.Properties.Type.Enum[0]] = s
	}
	if len(d.events) == 0 {
		return nil, fmt.Errorf("it has no streaming events")
	}
	return d, nil
}

// Events returns the number of event types that the document has.
func (d *Document) Events() int { return len(d.events) }

// Object validates data by the component of that name.
func (d *Document) Object(component string, data []byte) error {
	s := d.components[component]
	if s == nil {
		return fmt.Errorf("the OpenAPI document has no %s", component)
	}
	if err := validate(s, data); err != nil {
		return fmt.Errorf("it is no %s: %w: %.1000s", component, err, data)
	}
	return nil
}

// Event validates data by the component of the event's type. An error event may
// also have the form that it has on a WebSocket.
func (d *Document) Event(data []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("the event is no JSON object: %w", err)
	}
	s := d.events[head.Type]
	if s == nil {
		return fmt.Errorf("the OpenAPI document has no event %q", head.Type)
	}
	err := validate(s, data)
	if err != nil && head.Type == "error" && d.Object("WebSocketErrorEvent", data) == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("event %s: %w: %.1000s", head.Type, err, data)
	}
	return nil
}

func validate(s *jsonschema.Schema, data []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(v)
}
