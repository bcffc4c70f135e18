package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/responses/turns"
	"holon/state"
	"holon/test/expect"
)

func TestArtifacts(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	digest := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		expect.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(text), 0o600)))
	}
	for _, path := range []string{"b.txt", "a/z", "a/manifest.json", "a.txt", "line\nend", "empty"} {
		write(path, path)
	}
	for _, path := range []string{"manifest.json", "run.json", "lease", ".tmp-0123"} {
		write(path, "the host's own")
	}
	write("bad\xff", "x")
	expect.NoError(t, errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "a", "dirlink")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "sparse"), 10<<30),
	))
	var want []state.Artifact
	for _, path := range []string{"a.txt", "a/manifest.json", "a/z", "b.txt", "empty", "line\nend"} {
		want = append(want, state.Artifact{Path: path, Bytes: int64(len(path)), SHA256: digest(path)})
	}
	got, warnings, err := Artifacts(t.Context(), dir)
	expect.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	for _, name := range []string{`"bad\xff"`, `"link"`, `"a/dirlink"`, `"fifo"`, `"sparse"`} {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, name) }) {
			t.Errorf("no warning of %s in %q", name, warnings)
		}
	}
	if len(warnings) != 5 {
		t.Errorf("warnings = %q", warnings)
	}
	now := turns.At(time.Unix(1, 0))
	m := state.Manifest{Schema: state.ManifestSchema, RunID: "run_1", Status: state.StatusCompleted,
		Outcome: state.OutcomeSuccess, StartedAt: now, CompletedAt: now, Artifacts: got}
	if _, err := m.Encode(); err != nil {
		t.Errorf("the manifest refuses what was listed: %v", err)
	}
}

func TestArtifactLimits(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d", i)), make([]byte, 100), 0o600))
	}
	deep := filepath.Join(dir, "deep")
	for range 100 {
		deep = filepath.Join(deep, "d")
	}
	expect.NoError(t, errors.Join(os.MkdirAll(deep, 0o700), os.WriteFile(filepath.Join(deep, "x"), nil, 0o600)))
	for _, tc := range []struct {
		name   string
		limits limits
		want   int
	}{
		{"none reached but depth", limits{1000, 1 << 20, 1 << 20, 1 << 20}, 50},
		{"files", limits{20, 1 << 20, 1 << 20, 1 << 20}, 20},
		{"bytes", limits{1000, 1050, 1 << 20, 1 << 20}, 10},
		{"bytes of a file", limits{1000, 1 << 20, 99, 1 << 20}, 0},
		{"names", limits{1000, 1 << 20, 1 << 20, 50}, 10},
		{"entries", limits{5, 1 << 20, 1 << 20, 1 << 20}, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, warnings, err := walkResults(t.Context(), dir, tc.limits, nil)
			if err != nil || len(got) != tc.want {
				t.Errorf("%d artifacts, %v; want %d", len(got), err, tc.want)
			}
			if len(warnings) == 0 || len(warnings) > 101 {
				t.Errorf("%d warnings", len(warnings))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Artifacts(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, _, err := Artifacts(t.Context(), filepath.Join(dir, "absent")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// A file with many names is read once and listed under each.
func TestArtifactLinks(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "f000")
	expect.NoError(t, os.WriteFile(first, make([]byte, 1000), 0o600))
	for i := range 100 {
		expect.NoError(t, os.Link(first, filepath.Join(dir, fmt.Sprintf("f%03d", i+1))))
	}
	got, warnings, err := walkResults(t.Context(), dir, limits{1000, 1500, 1500, 1 << 20}, nil)
	if err != nil || len(got) != 101 || len(warnings) > 0 {
		t.Fatalf("%d artifacts, %q, %v", len(got), warnings, err)
	}
	for _, a := range got {
		if a.Bytes != 1000 || a.SHA256 != got[0].SHA256 {
			t.Errorf("%+v", a)
		}
	}
}
