package agentd

import (
	"os"
	"path/filepath"
	"testing"

	"holon/test/expect"
)

func TestHoldsMore(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path string, size int64) {
		t.Helper()
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.NoError(t, os.WriteFile(path, nil, 0o600))
		expect.NoError(t, os.Truncate(path, size))
	}
	write(filepath.Join(dir, "events.ndjson"), 100)
	write(filepath.Join(dir, "tools/call_1/stdout.log"), 50)
	write(filepath.Join(dir, "state/journal"), 1000)
	write(filepath.Join(outside, "big"), 1000)
	for name, target := range map[string]string{"file": filepath.Join(outside, "big"), "folder": outside} {
		expect.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	skip := filepath.Join(dir, "state")
	for _, test := range []struct {
		limit int64
		skip  string
		want  bool
	}{{150, skip, false}, {149, skip, true}, {150, "", true}, {1150, "", false}} {
		if got := holdsMore(dir, test.skip, test.limit, nil); got != test.want {
			t.Errorf("more than %d without %q: %t", test.limit, test.skip, got)
		}
	}
	if holdsMore(filepath.Join(dir, "absent"), "", 0, nil) {
		t.Error("a directory that is not there holds something")
	}
}
