package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/state"
	"holon/test/expect"
)

func TestHome(t *testing.T) {
	user := t.TempDir()
	file := filepath.Join(user, "file")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	real := filepath.Join(user, "real")
	link := filepath.Join(user, "link")
	expect.NoError(t, errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, link)))
	for _, tc := range []struct {
		name, holonHome, userHome string
		want                      string // empty: an error
	}{
		{"default", "", user, filepath.Join(user, ".holon")},
		{"given", filepath.Join(user, "other"), user, filepath.Join(user, "other")},
		{"given without a user", filepath.Join(user, "third"), "", filepath.Join(user, "third")},
		{"nested", filepath.Join(user, "a", "b", "c"), user, filepath.Join(user, "a", "b", "c")},
		{"link", link, user, real},
		{"relative", "holon", user, ""},
		{"file", file, user, ""},
		{"beneath a file", filepath.Join(file, "x"), user, ""},
		{"nothing known", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// Looking writes nothing.
			if found, err := state.FindHome(tc.holonHome, tc.userHome); err == nil && tc.name != "link" {
				if _, err := os.Lstat(found.Dir()); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("FindHome made the directory: %v", err)
				}
			}
			h, err := state.MakeHome(tc.holonHome, tc.userHome)
			if tc.want == "" {
				e, ok := errors.AsType[*state.Error](err)
				if !ok || e.Code != state.CodeHomeUnusable || e.Param != "HOLON_HOME" || e.Hint == "" {
					t.Fatalf("the error is %v", err)
				}
				return
			}
			expect.NoError(t, err)
			checkHome(t, h, tc.want)
			if again, err := state.FindHome(tc.holonHome, tc.userHome); err != nil || again != h {
				t.Errorf("found again: %v, %v; want %v", again, err, h)
			}
		})
	}
}

// checkHome checks a home that was made: its directories exist and nothing else does.
func checkHome(t *testing.T, h state.Home, want string) {
	t.Helper()
	if h.Dir() != want {
		t.Fatalf("home = %q, want %q", h.Dir(), want)
	}
	for _, dir := range []string{h.Dir(), h.RunsDir(), h.CacheDir(), filepath.Dir(h.IPCDir("run_1"))} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s has mode %v, want a directory with 0700", dir, info.Mode())
		}
	}
	if entries, err := os.ReadDir(h.RunsDir()); err != nil || len(entries) > 0 {
		t.Errorf("left in the home: %v, %v; want nothing", entries, err)
	}
}

func TestUserHomeWithoutPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("permissions don't bind root")
	}
	dir := filepath.Join(t.TempDir(), "home")
	expect.NoError(t, os.Mkdir(dir, 0o500))
	if _, err := state.MakeHome(dir, ""); !state.IsCode(err, state.CodeHomeUnusable) {
		t.Fatalf("error = %v", err)
	}
}

func TestCheckRunID(t *testing.T) {
	for id, want := range map[string]bool{
		state.NewRunID(): true, "run_1": true, "run_": false, "": false, "turn_1": false, "run_../x": false,
		"run_a/b": false,
		"run_a b": false, "run_\n": false, "RUN_1": false, ".run_1": false, "run_" + strings.Repeat("x", 124): true,
		"run_" + strings.Repeat("x", 125): false,
	} {
		err := state.CheckRunID(id)
		if (err == nil) != want || err != nil && !state.IsCode(err, state.CodeInvalidRunID) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestOutcomeExitCodes(t *testing.T) {
	for outcome, want := range map[state.Outcome]int{
		state.OutcomeSuccess: 0, state.OutcomeFailure: 1, state.OutcomeWaiting: 3, state.OutcomeRefused: 4,
		state.OutcomeDeadline: 124, state.OutcomeCancelled: 130, "": 1, "other": 1,
	} {
		if got := outcome.ExitCode(); got != want {
			t.Errorf("%q: %d, want %d", outcome, got, want)
		}
	}
}

func FuzzDecodeStart(f *testing.F) {
	valid, err := state.Start{Schema: state.StartSchema, RunID: "run_1", CreatedAt: turns.At(time.Now()),
		OutputDir: "/x", PID: 1}.Encode()
	expect.NoError(f, err)
	f.Add(valid)
	f.Add([]byte(`{"schema":"holon.run-start/1","run_id":"../x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := state.DecodeStart(data)
		if err != nil {
			if !state.IsCode(err, state.CodeManifestInvalid) {
				t.Fatalf("error = %v", err)
			}
			return
		}
		if state.CheckRunID(s.RunID) != nil {
			t.Fatalf("run id %q", s.RunID)
		}
	})
}
