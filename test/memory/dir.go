package memory

import "os"

// Test is what Dir needs of *testing.T, *testing.B or *rapid.T.
type Test interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Dir makes a directory that it removes with the test, with a path short enough for sockets. It is in memory where that
// is possible, so that a commit of a store costs no write to a disk: the end of a process, which tests try, loses
// nothing of it. A test of what the end of the machine leaves needs a real disk, which t.TempDir has.
func Dir(t Test) string {
	t.Helper()
	dir, err := os.MkdirTemp(Place(), "holon-test-")
	if err != nil {
		t.Fatalf("make a directory in memory: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove a directory in memory: %v", err)
		}
	})
	return dir
}
