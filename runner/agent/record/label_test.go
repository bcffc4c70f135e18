package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// The registry has every constant that names an event, once, and says what it is.
func TestEvents(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range events {
		if seen[e.Name] {
			t.Errorf("%s is in the registry twice", e.Name)
		}
		if e.Level < LevelActionRequired || e.Level > LevelTrace {
			t.Errorf("%s has level %d", e.Name, e.Level)
		}
		if e.Category == "" || !strings.HasSuffix(e.Doc, ".") {
			t.Errorf("%s has category %q and says %q, want both", e.Name, e.Category, e.Doc)
		}
		seen[e.Name] = true
		if got, ok := Event(e.Name); !ok || got != e {
			t.Errorf("%s is not found", e.Name)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "label.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, _ := strconv.Unquote(lit.Value)
			if named++; !seen[name] {
				t.Errorf("%s is not in the registry", name)
			}
		}
		return true
	})
	if named != len(seen) {
		t.Errorf("the registry has %d types, the constants name %d", len(seen), named)
	}
}
