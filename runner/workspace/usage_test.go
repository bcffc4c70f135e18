package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file with many names takes the disk once.
func TestUsageOfHardLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := filepath.Join(dir, "f")
	if err := os.WriteFile(first, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprint("f", i))); err != nil {
			t.Fatal(err)
		}
	}
	if used, err := Usage(t.Context(), dir); err != nil || used < 1<<20 || used > 3<<20 {
		t.Errorf("it takes %d bytes, %v", used, err)
	}
}
