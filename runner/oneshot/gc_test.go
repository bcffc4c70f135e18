package oneshot

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"holon/runner/engine"
	"holon/state"
	"holon/state/files"
	"holon/test/expect"
)

// A dry run finds what the run finds: runs that are settled first count among those that have ended.
func TestDryRun(t *testing.T) {
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	begin := time.Now().Add(-time.Hour)
	for i := range 3 { // of holons that were killed
		run, err := files.New(home).Create(t.Context(), files.NewRun{ID: state.NewRunID(), Source: "/src",
			CreatedAt: begin.Add(time.Duration(i) * time.Minute)})
		if err == nil {
			err = run.Close()
		}
		expect.NoError(t, err)
	}
	collect := func(dry bool) (list []Finding) {
		c := Collector{Recovery: Recovery{Home: home, Version: "test",
			Engines: func(string) (engine.Engine, error) { return nil, nil }}, KeepRuns: 1, KeepFor: -1,
			DryRun: dry, Now: time.Now()}
		list, err := c.Collect(t.Context())
		expect.NoError(t, err)
		for i := range list {
			if list[i].Done == dry {
				t.Errorf("dry run %v, and %+v", dry, list[i])
			}
			list[i].Done = false
		}
		return list
	}
	would := collect(true)
	if did := collect(false); len(did) != 5 || !slices.Equal(would, did) {
		t.Errorf("it would do %+v\nand did %+v", would, did)
	}
	if left, err := files.New(home).List(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("%d runs are left, %v", len(left), err)
	}
}

// How long an orphan is left alone is written as all durations are.
func TestLeftText(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour - time.Second: "1h", 61 * time.Minute: "1h1m"} {
		if got := leftText(d); got != want {
			t.Errorf("leftText(%s) = %q, want %q", d, got, want)
		}
	}
}

// How long ago a run ended is neither rounded up nor away.
func TestAgoText(t *testing.T) {
	for d, want := range map[time.Duration]string{24*time.Second + 900*time.Millisecond: "24s", 61 * time.Second: "1m",
		119 * time.Minute: "1h59m", 0: "0s"} {
		if got := agoText(d); got != want {
			t.Errorf("agoText(%s) = %q, want %q", d, got, want)
		}
	}
}
