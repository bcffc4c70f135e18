package runner

import (
	"path/filepath"
	"testing"

	"holon/responses/client"
)

// A container that answers no more has no number of tasks.
func TestTasksOfTheDead(t *testing.T) {
	s := &Session{client: client.Unix(filepath.Join(t.TempDir(), "none.sock"))}
	if n, err := s.Tasks(t.Context()); n != 0 || err == nil {
		t.Errorf("Tasks() = %d, %v, want 0 and an error", n, err)
	}
}
