package state_test

import (
	"path/filepath"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// The directory of a part lies in that of its run, and leads back to its id. Other ids with a dash are those of runs.
func TestPartsOfRuns(t *testing.T) {
	t.Parallel()
	home, err := state.FindHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	for _, tc := range []struct{ id, dir, whole, part string }{
		{"run_x", "run_x", "run_x", ""},
		{"run_x-2", "run_x/attempts/2", "run_x", "2"},
		{"run_x-12-check", "run_x/attempts/12/check", "run_x-12", "check"},
		{"run_x-check", "run_x/check", "run_x", "check"},
		{"run_x-judge", "run_x/judge", "run_x", "judge"},
		{"run_x-02", "run_x-02", "run_x-02", ""},
		{"run_x-0", "run_x-0", "run_x-0", ""},
		{"run_x-checks", "run_x-checks", "run_x-checks", ""},
	} {
		expect.NoError(t, state.CheckRunID(tc.id))
		whole, part := state.WholeOf(tc.id)
		expect.Equal(t, tc.id+": the run", whole, tc.whole)
		expect.Equal(t, tc.id+": the part", part, tc.part)
		dir := home.RunDir(tc.id)
		expect.Equal(t, tc.id+": its directory", dir, filepath.Join(home.RunsDir(), tc.dir))
		expect.Equal(t, tc.dir+": its id", home.RunAt(dir), tc.id)
	}
	expect.Equal(t, "an attempt", state.AttemptID("run_x", 2), "run_x-2")
}
