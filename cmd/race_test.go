package cmd_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"holon/test/expect"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A package that starts a goroutine is tested with the race detector, or the list says why not.
func TestRaceList(t *testing.T) {
	detected, leftOut := raceList(t)
	var all []string
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		all = append(all, name)
		starts := slices.ContainsFunc(p.GoFiles, func(file string) bool {
			return startsGoroutine(t, filepath.Join(p.Dir, file))
		})
		switch {
		case strings.HasPrefix(name, "test/"): // what tests import runs as their packages do
		case starts && !slices.Contains(detected, name) && !slices.Contains(leftOut, name):
			t.Errorf("%s starts a goroutine and is not in .ci/race", name)
		}
	}
	for _, name := range slices.Concat(detected, leftOut) {
		if !slices.Contains(all, name) {
			t.Errorf(".ci/race has %s, and there is no such package", name)
		}
	}
}

// raceList reads .ci/race: the packages that run with the detector, and those that are left out with a reason.
func raceList(t *testing.T) (detected, leftOut []string) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", ".ci", "race"))
	expect.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case strings.HasPrefix(lines.Text(), "#"):
		case words[0] == "-" && len(words) > 2:
			leftOut = append(leftOut, words[1])
		case len(words) == 1:
			detected = append(detected, words[0])
		default:
			t.Errorf("line %q: a package, or \"- PACKAGE REASON\"", lines.Text())
		}
	}
	expect.NoError(t, lines.Err())
	return detected, leftOut
}

// starters are the functions and methods that start a goroutine: of a WaitGroup or an errgroup, of time and context.
var starters = []string{"Go", "AfterFunc"}

// startsGoroutine says whether a file has a go statement or calls one of starters.
func startsGoroutine(t *testing.T, path string) (found bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	expect.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(starters, method.Sel.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}
