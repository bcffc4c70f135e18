package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every promise of the crash contract names tests, and they exist.
func TestCrashContract(t *testing.T) {
	page, err := os.ReadFile("../docs/explanation/crash-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+): (Test[A-Za-z0-9]+)`").FindAllSubmatch(page, -1)
	if len(named) < 15 {
		t.Fatalf("the page names %d tests", len(named))
	}
	for _, name := range named {
		dir, test := string(name[1]), string(name[2])
		sources, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, source := range sources {
			text, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			found = found || regexp.MustCompile(`(?m)^func `+test+`\(`).Match(text)
		}
		if !found {
			t.Errorf("there is no %s in %s", test, dir)
		}
	}
	// A row without a test is a promise without proof.
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]+\|[^|]*\|[^|]*\|([^|]*)\|$`).FindAllSubmatch(page, -1) {
		if tests := string(row[1]); tests != " tests " && tests != "---" &&
			!regexp.MustCompile("`.*: Test").MatchString(tests) {
			t.Errorf("a promise names no test: %s", row[0])
		}
	}
}
