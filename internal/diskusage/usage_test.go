package diskusage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/diskusage"
	"holon/test/expect"
)

// A file with many names takes the disk once.
func TestUsageOfHardLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := filepath.Join(dir, "f")
	expect.NoError(t, os.WriteFile(first, []byte(strings.Repeat("x", 1<<20)), 0o600))
	for i := range 100 {
		expect.NoError(t, os.Link(first, filepath.Join(dir, fmt.Sprint("f", i))))
	}
	if used, _, err := diskusage.Dir(t.Context(), dir); err != nil || used < 1<<20 || used > 3<<20 {
		t.Errorf("it takes %d bytes, %v", used, err)
	}
}
