package cmd

import (
	"holon/test/expect"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	testOnPage = regexp.MustCompile("`([a-z0-9/]+): (Test[A-Za-z0-9]+)`")
	testInCode = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing`)
	crashTest  = regexp.MustCompile(`^Test(Killed|Recover)`)
)

// The crash contract and the crash tests belong together: every row of promises
// names a test, every test that the page names exists, and every test of a killed
// or recovering process in the packages that the page names is on the page.
func TestCrashContract(t *testing.T) {
	data, err := os.ReadFile("../docs/explanation/crash-contract.md")
	expect.NoError(t, err)
	page := string(data)
	named := make(map[string][]string) // tests by package
	for _, found := range testOnPage.FindAllStringSubmatch(page, -1) {
		named[found[1]] = append(named[found[1]], found[2])
	}
	if len(named) == 0 {
		t.Fatal("the page names no test")
	}
	for dir, tests := range named {
		exist := testsIn(t, filepath.Join("..", dir))
		for _, test := range tests {
			if !slices.Contains(exist, test) {
				t.Errorf("the page names %s: %s, which does not exist", dir, test)
			}
		}
		for _, test := range exist {
			if crashTest.MatchString(test) && !slices.Contains(tests, test) {
				t.Errorf("%s: %s is not on the page: add it to the promise that it tests", dir, test)
			}
		}
	}
	promises := regexp.MustCompile(`(?m)^\| [^|]+\|[^|]*\|[^|]*\|([^|]*)\|$`)
	for _, row := range promises.FindAllStringSubmatch(page, -1) {
		if tests := row[1]; tests != " tests " && tests != "---" && !testOnPage.MatchString(tests) {
			t.Errorf("a promise names no test: %s", row[0])
		}
	}
}

// testsIn returns the names of the tests in a directory.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	expect.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.NoError(t, err)
		for _, found := range testInCode.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	return names
}
