package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"holon/internal/visible"

	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a function that the client runs (FunctionTool). All keys are always
// written; the nullable ones as null.
type Tool struct {
	Type        functionType    `json:"type"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON Schema object, or nil
	Strict      *bool           `json:"strict"`
}

// functionType is the type of a Tool.
type functionType struct{}

// MarshalText writes the type.
func (functionType) MarshalText() ([]byte, error) { return []byte("function"), nil }

// UnmarshalText takes any type: DecodeRequest has looked at it.
func (functionType) UnmarshalText([]byte) error { return nil }

// ToolChoice restricts which tools the model may or must call. Mode is auto, none
// or required; Name forces one function; Allowed limits calls to a list.
type ToolChoice struct {
	Mode    string
	Name    string
	Allowed []string
}

// Allows reports whether the tool of that name may be called.
func (c ToolChoice) Allows(name string) bool {
	return c.Mode != "none" && (c.Allowed == nil || slices.Contains(c.Allowed, name))
}

// MarshalJSON writes the string or object form that fits.
func (c ToolChoice) MarshalJSON() ([]byte, error) {
	type function struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	switch {
	case c.Allowed != nil:
		tools := make([]function, len(c.Allowed))
		for i, name := range c.Allowed {
			tools[i] = function{"function", name}
		}
		return encode(struct {
			Type  string     `json:"type"`
			Tools []function `json:"tools"`
			Mode  string     `json:"mode"`
		}{"allowed_tools", tools, c.mode()})
	case c.Name != "":
		return encode(function{"function", c.Name})
	}
	return encode(c.mode())
}

func (c ToolChoice) mode() string {
	if c.Mode == "" {
		return "auto"
	}
	return c.Mode
}

// UnmarshalJSON reads the string form, a function or an allowed_tools object.
func (c *ToolChoice) UnmarshalJSON(data []byte) error {
	*c = ToolChoice{}
	switch jsontext.Value(data).Kind() {
	case 'n':
		return nil
	case '"':
		if err := Unmarshal(data, &c.Mode); err != nil {
			return err
		}
		return checkWord("", c.Mode, "", "none", "auto", "required")
	case '{':
		return c.decodeObject(data)
	}
	return Invalid("", CodeInvalidValue,
		"the value must be a string or an object, not "+kindName(jsontext.Value(data).Kind()))
}

func (c *ToolChoice) decodeObject(data []byte) error {
	var w struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Mode  string `json:"mode"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := Unmarshal(data, &w); err != nil {
		return err
	}
	switch w.Type {
	case "function":
		if w.Name == "" {
			return Invalid("name", CodeMissingParameter, "tool_choice of type function needs a name")
		}
		c.Name = w.Name
		return nil
	case "allowed_tools":
		if n := len(w.Tools); n < 1 || n > maxAllowedTools {
			return Invalid("tools", CodeInvalidValue,
				fmt.Sprintf("allowed_tools must list 1 to %d tools, this lists %d", maxAllowedTools, n))
		}
		for i, t := range w.Tools {
			if t.Name == "" {
				return Invalid(fmt.Sprintf("tools[%d].name", i), CodeMissingParameter, "an allowed tool needs a name")
			}
			c.Allowed = append(c.Allowed, t.Name)
		}
		c.Mode = cmp.Or(w.Mode, "auto")
		return checkWord("mode", c.Mode, "none", "auto", "required")
	}
	return Invalid("", CodeInvalidValue,
		fmt.Sprintf("tool_choice must be none, auto, required, or an object of type function or "+
			"allowed_tools, not type %q", visible.Clip(w.Type, 64)))
}
