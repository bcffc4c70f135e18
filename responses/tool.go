package responses

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Tool is a function that the client runs (FunctionTool). All keys are always
// written; the nullable ones as null.
type Tool struct {
	Name        string
	Description *string
	Parameters  json.RawMessage // a JSON Schema object, or nil
	Strict      *bool
}

// MarshalJSON writes the five keys of a FunctionTool.
func (t Tool) MarshalJSON() ([]byte, error) {
	parameters := t.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage("null")
	}
	return marshal(struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}{"function", t.Name, t.Description, parameters, t.Strict})
}

// UnmarshalJSON reads a FunctionTool as MarshalJSON writes it.
func (t *Tool) UnmarshalJSON(data []byte) error {
	var w struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	if err := unmarshal(data, &w); err != nil {
		return err
	}
	*t = Tool{Name: w.Name, Description: w.Description, Strict: w.Strict}
	if !isNull(w.Parameters) {
		t.Parameters = w.Parameters
	}
	return nil
}

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
		return marshal(struct {
			Type  string     `json:"type"`
			Tools []function `json:"tools"`
			Mode  string     `json:"mode"`
		}{"allowed_tools", tools, c.mode()})
	case c.Name != "":
		return marshal(function{"function", c.Name})
	}
	return marshal(c.mode())
}

func (c ToolChoice) mode() string {
	if c.Mode == "" {
		return "auto"
	}
	return c.Mode
}

// UnmarshalJSON reads the string form, a function or an allowed_tools object.
func (c *ToolChoice) UnmarshalJSON(data []byte) error {
	const param = "tool_choice"
	*c = ToolChoice{}
	var mode string
	if unmarshal(data, &mode) != nil {
		var w struct {
			Type  string `json:"type"`
			Name  string `json:"name"`
			Mode  string `json:"mode"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		}
		err := unmarshal(data, &w)
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field == "" {
			_, got := jsonNames("", "", t.Value)
			return Invalid(param, CodeInvalidValue, param+" must be a string or an object, not "+got)
		}
		if err != nil {
			return decodeError(param, err)
		}
		switch w.Type {
		case "function":
			if w.Name == "" {
				return Invalid(param+".name", CodeMissingParameter, "tool_choice of type function needs a name")
			}
			*c = ToolChoice{Name: w.Name}
			return nil
		case "allowed_tools":
			if n := len(w.Tools); n < 1 || n > maxAllowedTools {
				return Invalid(param+".tools", CodeInvalidValue,
					fmt.Sprintf("allowed_tools must list 1 to %d tools, this lists %d", maxAllowedTools, n))
			}
			c.Allowed = make([]string, len(w.Tools))
			for i, t := range w.Tools {
				if t.Name == "" {
					return Invalid(fmt.Sprintf("%s.tools[%d].name", param, i), CodeMissingParameter,
						"an allowed tool needs a name")
				}
				c.Allowed[i] = t.Name
			}
			if mode = cmp.Or(w.Mode, "auto"); mode != "auto" && mode != "none" && mode != "required" {
				return Invalid(param+".mode", CodeInvalidValue,
					fmt.Sprintf("%s.mode must be none, auto or required, not %q", param, clip(mode, 64)))
			}
		default:
			return Invalid(param, CodeInvalidValue,
				fmt.Sprintf("tool_choice must be none, auto, required, or an object of type function or "+
					"allowed_tools, not type %q", clip(w.Type, 64)))
		}
	}
	switch mode {
	case "", "auto", "none", "required":
		c.Mode = mode
		return nil
	}
	return Invalid(param, CodeInvalidValue,
		fmt.Sprintf("tool_choice must be none, auto or required, not %q", clip(mode, 64)))
}
