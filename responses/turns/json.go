package turns

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"holon/responses"
)

// decode reads one JSON object that came from outside.
func decode(data []byte, v any) error {
	if err := responses.CheckShape(data); err != nil {
		return err
	}
	if jsontext.Value(data).Kind() != '{' {
		return responses.Invalid("", responses.CodeInvalidJSON, "this is not a JSON object")
	}
	return responses.Unmarshal(data, v)
}

func invalid(param, message string) error {
	return responses.Invalid(param, responses.CodeInvalidValue, message)
}

// marshal encodes v with lists and maps that are never null, and replaces invalid UTF-8.
func marshal(v any, options ...json.Options) ([]byte, error) {
	return json.Marshal(v, json.JoinOptions(options...), jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
}
