// Package openapi holds the OpenAPI document that agentd serves. The file is
// written by hand. Tests compare it with what package responses decodes and
// encodes and with the protocol's own document; those of package agentd compare
// it with the routes and with every answer that they get.
package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed openapi.json
var document string

// Values in the file that stand for those of a server.
const (
	anyVersion = `"0.0.0"`
	anyOutput  = `"default": 8000, "minimum": 1, "maximum": 64000`
)

// Document returns the document of a server of this version. Its tools show
// outputTokens of their output by default, and at most maxTokens.
func Document(version string, outputTokens, maxTokens int) []byte {
	name, _ := json.Marshal(version) // a string can be encoded
	output := fmt.Sprintf(`"default": %d, "minimum": 1, "maximum": %d`, outputTokens, maxTokens)
	return []byte(strings.NewReplacer(anyVersion, string(name), anyOutput, output).Replace(document))
}
