package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holon/test/expect"
)

// Commands that errors and progress name exist and have the flags that are named. One that takes --agent says which
// agent the error is about: without it, it would be about the default one.
func TestRemediesAreCommands(t *testing.T) {
	t.Parallel()
	root := newRoot(notTerminals(nil, nil))
	named := regexp.MustCompile(`\bholon ((?:[a-z]+ )*[a-z]+)((?: -[-a-z]+)*)([^;"]*)`)
	flag := regexp.MustCompile(`-[-a-z]+`)
	found := 0
	for _, dir := range []string{".", "../../runner", "../../state"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, text := range messages(t, path) {
				for _, m := range named.FindAllStringSubmatch(text, -1) {
					cmd, _, err := root.Find(strings.Fields(m[1]))
					if err != nil || cmd == root {
						continue // "its holon was killed"
					}
					found++
					for _, name := range flag.FindAllString(m[2], -1) {
						if f := cmd.Flags(); f.Lookup(name[2:]) == nil && f.ShorthandLookup(name[1:2]) == nil && name != "--help" {
							t.Errorf("%s: %q: %s has no flag %s", path, text, cmd.CommandPath(), name)
						}
					}
					rest := strings.ToLower(m[2] + m[3])
					if aboutAgent(cmd) && !strings.Contains(rest, "agent") && !slices.Contains(anyAgent, cmd.CommandPath()) {
						t.Errorf("%s: %q does not say which agent %s is about", path, text, cmd.CommandPath())
					}
				}
			}
			return nil
		})
		expect.NoError(t, err)
	}
	if found < 80 {
		t.Errorf("there are only %d commands: does the test still find them?", found)
	}
}

// anyAgent are commands that are named where no agent is known.
var anyAgent = []string{"holon task input", "holon work pick", "holon tui"}

// aboutAgent reports whether --agent says which agent a command is about.
func aboutAgent(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("agent")
	return f != nil && strings.Contains(f.Usage, "HOLON_AGENT_ID")
}

// messages are the texts of a file, put together, but for the help texts. What is not a literal stands in them as in
// the source.
func messages(t *testing.T, path string) (texts []string) {
	t.Helper()
	source, err := os.ReadFile(path)
	expect.NoError(t, err)
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	expect.NoError(t, err)
	help := []string{"Long", "Example", "Short"}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			return !ok || !slices.Contains(help, key.Name)
		case *ast.AssignStmt:
			to, ok := n.Lhs[0].(*ast.SelectorExpr)
			return !ok || !slices.Contains(help, to.Sel.Name)
		case *ast.BinaryExpr, *ast.BasicLit:
			texts = append(texts, textOf(n.(ast.Expr), set, source))
			return false
		}
		return true
	})
	return texts
}

func textOf(e ast.Expr, set *token.FileSet, source []byte) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return textOf(e.X, set, source) + textOf(e.Y, set, source)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil && e.Kind == token.STRING {
			return text
		}
	}
	return string(source[set.Position(e.Pos()).Offset:set.Position(e.End()).Offset])
}
