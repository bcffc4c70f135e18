package scripted_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"holon/test/expect"
)

// The examples of the documentation are valid scenarios.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "scripted-model.md"))
	expect.NoError(t, err)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) == 0 {
		t.Fatal("the page has no example")
	}
	for i, example := range examples {
		tr, _ := open(t, map[string]string{"e.yaml": string(example[1])})
		if err := tr.Check("e"); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
	}
}
