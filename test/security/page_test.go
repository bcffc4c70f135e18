package security

import (
	"go/ast"
	"go/parser"
	"go/token"
	"holon/test/expect"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testName = regexp.MustCompile("`(?:([a-z0-9/]+) )?(Test[A-Za-z0-9]+)(/[^`]+)?`")

// Every test that docs/explanation/security.md names exists, in the package that it names or
// here, and every subtest's name stands in that package. Every test of this
// package is on the page.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/explanation/security.md")
	expect.NoError(t, err)
	named := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		for _, found := range testName.FindAllStringSubmatch(line, -1) {
			pkg := found[1]
			if pkg == "" {
				pkg = "test/security"
				named[found[2]] = true
			}
			tests, texts := testsOf(t, filepath.Join("../..", pkg))
			if !slices.Contains(tests, found[2]) {
				t.Errorf("%s: %s has no %s", strings.TrimSpace(line), pkg, found[2])
			}
			if sub := strings.TrimPrefix(found[3], "/"); sub != "" && !strings.Contains(texts, `"`+sub+`"`) {
				t.Errorf("%s: %s has no %s/%s", strings.TrimSpace(line), pkg, found[2], sub)
			}
		}
	}
	if len(named) == 0 {
		t.Fatal("the page names no test")
	}
	own, _ := testsOf(t, ".")
	for _, name := range own {
		if !named[name] && name != "TestMain" && name != "TestPage" {
			t.Errorf("the page does not name %s", name)
		}
	}
}

// testsOf returns the names of a package's tests and the text of their files.
func testsOf(t *testing.T, dir string) (names []string, texts string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	expect.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		expect.NoError(t, err)
		texts += string(text)
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		expect.NoError(t, err)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names, texts
}
