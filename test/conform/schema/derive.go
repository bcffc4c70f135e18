//go:build ignore

// Command derive reads the OpenAPI document of Open Responses and writes the
// facts in it that can be checked: names, types, required keys, words and
// bounds, without its prose.
//
//	go run derive.go < openapi.json > openresponses.json
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
)

// facts are the keywords that are kept. Of allOf, oneOf and anyOf every member
// is; of properties every name.
var facts = []string{"$ref", "type", "enum", "required", "properties", "additionalProperties", "items", "allOf",
	"oneOf", "anyOf", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties",
	"pattern"}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var doc struct {
		Info       struct{ Title, Version string }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		log.Fatal(err)
	}
	sum := sha256.Sum256(text)
	fmt.Printf(`{"openapi": "3.1.0", "info": {"title": %q, "version": %q},`+"\n", doc.Info.Title, doc.Info.Version)
	fmt.Printf(`"x-derived-from": {"sha256": %q}, "paths": {}, "components": {"schemas": {`+"\n",
		hex.EncodeToString(sum[:]))
	for i, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		if i > 0 {
			fmt.Println(",")
		}
		fmt.Printf("%q: %s", name, line(reduce(doc.Components.Schemas[name])))
	}
	fmt.Println("\n}}}")
}

// reduce returns the facts of a schema.
func reduce(v any) any {
	schema, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any)
	for _, keyword := range facts {
		value, ok := schema[keyword]
		if !ok {
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			if keyword == "properties" {
				keys := make(map[string]any)
				for name, property := range value {
					keys[name] = reduce(property)
				}
				out[keyword] = keys
				continue
			}
			out[keyword] = reduce(value)
		case []any:
			members := []any{}
			for _, member := range value {
				member = reduce(member)
				if m, ok := member.(map[string]any); ok && len(m) == 0 && keyword == "allOf" {
					continue // it was a description
				}
				members = append(members, member)
			}
			out[keyword] = members
		default:
			out[keyword] = value
		}
	}
	if all, _ := out["allOf"].([]any); len(all) == 1 && len(out) == 1 {
		return all[0]
	}
	return out
}

func line(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		log.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
