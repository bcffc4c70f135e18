package turns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"holon/responses"
)

// decode reads one JSON object that came from outside.
func decode(data []byte, v any) error {
	if err := responses.CheckShape(data); err != nil {
		return err
	}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return responses.Invalid("", responses.CodeInvalidJSON, "this is no JSON object")
	}
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(t.Field, fmt.Sprintf("%s must not be a JSON %s", t.Field, t.Value))
	}
	return responses.Invalid("", responses.CodeInvalidJSON, "the JSON cannot be read: "+err.Error())
}

func invalid(param, message string) error {
	return responses.Invalid(param, responses.CodeInvalidValue, message)
}

// marshal encodes v without HTML escaping, as package responses does.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
