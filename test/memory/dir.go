package memory

import "os"

// Test is what Dir needs of *testing.T, *testing.B or *rapid.T.
type Test interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Dir makes a directory for the store of a test, which it removes with the test. The directory is in memory where that
// is possible, so that a commit costs no write to a disk: the end of a process, which tests try, loses nothing of it.
// A test of what the end of the machine leaves needs a real disk, which t.TempDir has.
func Dir(t Test) string {
	t.Helper()
	dir, err := os.MkdirTemp(shared, "holon-test-")
	if err != nil { // there is no such place, or this user may not write to it
		dir, err = os.MkdirTemp("", "holon-test-")
	}
	if err != nil {
		t.Fatalf("make a directory for a store: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the directory of a store: %v", err)
		}
	})
	return dir
}
