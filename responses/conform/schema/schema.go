// Package schema validates what a server sends by the protocol's own OpenAPI
// document. It is apart from package conform because the validator is large and
// the document is not part of this module; both are for tests alone.
package schema

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is a loaded OpenAPI document. It is safe for concurrent use.
type Document struct {
	components openapi3.Schemas
	events     map[string]*openapi3.Schema // by the type that they fix
}

// Load reads the document at path.
func Load(path string) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("load the OpenAPI document: %w", err)
	}
	d := &Document{components: doc.Components.Schemas, events: make(map[string]*openapi3.Schema)}
	for name, ref := range d.components {
		if !strings.HasSuffix(name, "StreamingEvent") {
			continue
		}
		typ := ref.Value.Properties["type"].Value
		if typ == nil || len(typ.Enum) != 1 {
			return nil, fmt.Errorf("load the OpenAPI document: %s does not fix its type", name)
		}
		d.events[fmt.Sprint(typ.Enum[0])] = ref.Value
	}
	if len(d.events) == 0 {
		return nil, fmt.Errorf("load the OpenAPI document: %s has no streaming events", path)
	}
	return d, nil
}

// Events returns the number of event types that the document has.
func (d *Document) Events() int { return len(d.events) }

// Object validates data by the component of that name.
func (d *Document) Object(component string, data []byte) error {
	ref := d.components[component]
	if ref == nil {
		return fmt.Errorf("the OpenAPI document has no %s", component)
	}
	if err := visit(ref.Value, data); err != nil {
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
	err := visit(s, data)
	if err != nil && head.Type == "error" && d.Object("WebSocketErrorEvent", data) == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("event %s: %w: %.1000s", head.Type, err, data)
	}
	return nil
}

func visit(s *openapi3.Schema, data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return s.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors())
}
