package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/responses/stream"
	"holon/responses/turns"
	"holon/state"
	"holon/test/conform"
	"holon/test/expect"
)

// checkRecord checks what every run that had a turn leaves: the manifest with
// its artifacts, a legal stream with an end, and the turn's record, which agree.
func checkRecord(t *testing.T, r result) *turns.Record {
	t.Helper()
	if r.manifest == nil {
		t.Fatalf("no manifest:\n%s", r.stderr)
	}
	checkKeys(t, r)
	checkArtifacts(t, r)
	events := r.read(t, turns.EventsFile)
	if err := conform.CheckStream([]byte(events), stream.NDJSON); err != nil {
		t.Errorf("%s: %v", turns.EventsFile, err)
	}
	for line := range strings.Lines(r.read(t, "runtime.ndjson")) {
		if _, err := turns.DecodeRuntimeEvent([]byte(strings.TrimSpace(line))); err != nil {
			t.Errorf("runtime.ndjson: %v: %.200s", err, line)
		}
	}
	rec, err := turns.DecodeRecord([]byte(r.read(t, turns.RecordFile)))
	expect.NoError(t, err)
	if !rec.Status.Terminal() {
		t.Errorf("the turn's record has status %s", rec.Status)
	}
	switch turn := r.manifest.Turn; {
	case turn == nil:
		t.Error("turn = nil, want a value")
	case turn.TurnID != rec.TurnID:
		t.Errorf("turn.TurnID = %q, want %q", turn.TurnID, rec.TurnID)
	case turn.ResponseID != rec.ResponseID:
		t.Errorf("turn.ResponseID = %q, want %q", turn.ResponseID, rec.ResponseID)
	case turn.SessionID != rec.SessionID:
		t.Errorf("turn.SessionID = %q, want %q", turn.SessionID, rec.SessionID)
	}
	return rec
}

// checkKeys checks that every key of the manifest's schema is there.
func checkKeys(t *testing.T, r result) {
	t.Helper()
	var m map[string]json.RawMessage
	expect.NoError(t, json.Unmarshal([]byte(r.read(t, state.ManifestFile)), &m))
	for _, key := range []string{
		"schema", "run_id", "name", "task", "status", "outcome", "exit_code", "started_at", "completed_at", "timings",
		"model", "usage",
		"engine", "image", "limits", "isolation", "egress", "workspace", "turn", "artifacts", "notes", "warnings",
		"error", "holon_version",
	} {
		if _, ok := m[key]; !ok {
			t.Errorf("the manifest lacks %q", key)
		}
	}
	switch {
	case r.manifest.Engine.Name != "docker":
		t.Errorf(`engine: r.manifest.Engine.Name = %q, want "docker"`, r.manifest.Engine.Name)
	case r.manifest.Engine.Version == "":
		t.Error(`engine: r.manifest.Engine.Version = "", want another value`)
	case len(r.manifest.Engine.ContainerID) != 64:
		t.Errorf("engine: len(r.manifest.Engine.ContainerID) = %d (%q), want 64", len(r.manifest.Engine.ContainerID),
			r.manifest.Engine.ContainerID)
	}
}

// checkArtifacts checks that the manifest lists all files of the results, each
// with its size and digest, and nothing else.
func checkArtifacts(t *testing.T, r result) {
	t.Helper()
	listed := map[string]bool{state.ManifestFile: true, state.StartFile: true, state.LeaseFile: true}
	for _, a := range r.manifest.Artifacts {
		listed[a.Path] = true
		data, err := os.ReadFile(filepath.Join(r.dir, a.Path))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(data); int64(len(data)) != a.Bytes || hex.EncodeToString(sum[:]) != a.SHA256 {
			t.Errorf("%s is not as the manifest says: %d bytes, not %d", a.Path, len(data), a.Bytes)
		}
	}
	for path, what := range describe(t, r.dir, func(_ string, info os.FileInfo) string {
		return info.Mode().Type().String()
	}) {
		if what == "----------" && !listed[path] && !strings.HasPrefix(path, "objects/") &&
			!strings.HasPrefix(path, "conversation/") {
			t.Errorf("%s is among the results and not in the manifest", path)
		}
	}
	for _, path := range []string{"diff.patch", "summary.md", turns.EventsFile, turns.RecordFile} {
		if !slices.ContainsFunc(r.manifest.Artifacts, func(a state.Artifact) bool { return a.Path == path }) {
			t.Errorf("%s is not among the artifacts", path)
		}
	}
}

// changed lists what the manifest says was changed, as "status path".
func changed(t *testing.T, r result) []string {
	t.Helper()
	ws := r.manifest.Workspace
	if ws == nil || ws.Changes == nil {
		return nil
	}
	expect.Equal(t, "the patch", ws.Changes.Patch, "diff.patch")
	var all []string
	for _, f := range ws.Changes.Files {
		all = append(all, f.Status+" "+f.Path)
	}
	slices.Sort(all)
	return all
}

// checkChanged compares it with what is expected, sorted.
func checkChanged(t *testing.T, r result, want ...string) {
	t.Helper()
	if got := changed(t, r); !slices.Equal(got, want) {
		t.Errorf("changed:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
