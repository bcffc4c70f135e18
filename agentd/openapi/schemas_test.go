package openapi_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holon/agentd/openapi"
	"holon/test/conform/schema"
	"holon/test/expect"
)

// tree is our schemas as JSON, by component.
var tree = sync.OnceValues(func() (map[string]any, error) {
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	err := json.Unmarshal(openapi.Document("test", 1, 2), &doc)
	return doc.Components.Schemas, err
})

func components(t testing.TB) map[string]any {
	t.Helper()
	m, err := tree()
	expect.NoError(t, err)
	return m
}

func load(t testing.TB, schemas map[string]any) *schema.Document {
	t.Helper()
	data, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
	expect.NoError(t, err)
	doc, err := schema.Parse(data)
	expect.NoError(t, err)
	return doc
}

// lax is our schemas as they are.
func lax(t testing.TB) *schema.Document { return load(t, components(t)) }

// strict is our schemas without the right to other keys.
func strict(t testing.TB) *schema.Document {
	closed, _ := closeObjects(components(t)).(map[string]any)
	return load(t, closed)
}

// closeObjects returns a copy of a schema in which objects that list their keys
// may have no others.
func closeObjects(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = closeObjects(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v)+1)
		for k, elem := range v {
			out[k] = closeObjects(elem)
		}
		_, listed := v["properties"].(map[string]any)
		_, said := v["additionalProperties"]
		if v["type"] == "object" && listed && !said {
			out["additionalProperties"] = false
		}
		return out
	}
	return v
}

// constants reads the string constants of a file whose names begin with prefix.
func constants(t *testing.T, path, prefix string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	expect.NoError(t, err)
	out := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if out[spec.Names[0].Name], err = strconv.Unquote(lit.Value); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants %s…", path, prefix)
	}
	return out
}
