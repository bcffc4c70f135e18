package control_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/control"
	"holon/state"
	"holon/state/files"
	"holon/test/expect"
)

// Files of a turn are given whole or in ranges, and nothing that a link or a path leads to.
func TestTurnFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	session := r.session
	dir := filepath.Join(session, "output", "turns", "turn_1")
	expect.NoError(t, os.MkdirAll(filepath.Join(dir, "tools"), 0o700))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "tools", "a b"), []byte("0123456789"), 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(session, "secret"), []byte("secret"), 0o600))
	expect.NoError(t, os.Symlink("tools", filepath.Join(dir, "link")))
	expect.NoError(t, os.Symlink("a b", filepath.Join(dir, "tools", "same")))
	expect.NoError(t, os.Symlink(session, filepath.Join(dir, "out")))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "big"), nil, 0o600))
	expect.NoError(t, os.Truncate(filepath.Join(dir, "big"), 16<<20+1))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "p%41"), []byte("escaped once"), 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "pA"), []byte("escaped twice"), 0o600))
	for _, tt := range []struct {
		path, ranges string
		status       int
		want         string
	}{
		{"main/turns/turn_1/files/tools/a%20b", "", 200, "0123456789"},
		{"main/turns/turn_1/files/tools%2Fa%20b", "bytes=2-4", 206, "234"},
		{"main/turns/turn_1/files/tools/a%20b", "bytes=20-", 416,
			`{"ok":false,"error":{"code":"range_not_satisfiable","message":"the file has no such range","param":"Range",` +
				`"hint":"ask for bytes within the size that Content-Range has","retryable":false}}`},
		{"main/turns/turn_1/files/p%2541", "", 200, "escaped once"},
		{"main/turns/turn_1/files/p%41", "", 200, "escaped twice"},
		{"main/turns/turn_1/files/big", "", 413, ""},
		{"main/turns/turn_1/files/tools", "", 404, ""},
		{"main/turns/turn_1/files/tools/same", "", 404, ""},
		{"main/turns/turn_1/files/link/a%20b", "", 404, ""},
		{"main/turns/turn_1/files/out/secret", "", 404, ""},
		{"main/turns/turn_1/files/..%2F..%2F..%2Fsecret", "", 404, ""},
		{"main/turns/turn_1%2F..%2Fturn_1/files/tools/a%20b", "", 404, ""},
		{"main/turns/turn_2/files/turn.json", "", 404, ""},
		{"other/turns/turn_1/files/tools/a%20b", "", 404, ""},
	} {
		r.wantFile("agents/"+tt.path, tt.ranges, tt.status, tt.want)
	}
	for path, status := range map[string]int{"tools/a%20b": 200, "gone": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead,
			"http://holon/agents/main/turns/turn_1/files/"+path, nil)
		expect.NoError(t, err)
		resp, err := r.raw().Do(req)
		expect.NoError(t, err)
		expect.NoError(t, resp.Body.Close())
		expect.Equal(t, "HEAD of "+path, resp.StatusCode, status)
		expect.Equal(t, "its size", status != 200 || resp.ContentLength == 10, true)
	}
}

// wantFile asks for ranges of a file, "" for all of it.
func (r *rig) wantFile(path, ranges string, status int, want string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://holon/"+path, nil)
	expect.NoError(r.t, err)
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	resp, err := r.raw().Do(req)
	expect.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.NoError(r.t, err)
	if resp.StatusCode != status || want != "" && string(body) != want {
		r.t.Errorf("%s is answered %d %s, want %d %s", path, resp.StatusCode, body, status, want)
	}
}

// Files of a run that its record names are given whole or in ranges; others of its directory, those of a run that has
// not ended, and what a link leads to are not.
func TestRunFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	ended, chosen, running := r.newRun(""), r.newRun(t.TempDir()), r.newRun("")
	for _, run := range []*files.Run{ended, chosen} {
		dir := run.OutputDir()
		expect.NoError(t, os.MkdirAll(filepath.Join(dir, "artifacts"), 0o700))
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "artifacts", "a b"), []byte("0123456789"), 0o600))
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "artifacts", "later"), []byte("l"), 0o600))
		expect.NoError(t, os.Symlink("a b", filepath.Join(dir, "artifacts", "link")))
		expect.NoError(t, run.WriteManifest(named(run.ID(), "artifacts/a b", "artifacts/link", "artifacts/gone")))
	}
	for _, run := range []*files.Run{ended, chosen} {
		at := "runs/" + run.ID() + "/files/"
		r.wantFile(at+"artifacts/a%20b", "", 200, "0123456789")
		r.wantFile(at+"artifacts%2Fa%20b", "bytes=2-4", 206, "234")
		for _, path := range []string{"artifacts/later", "artifacts/link", "artifacts/gone", "artifacts", "run.json",
			"artifacts/..%2F..%2Frun.json"} {
			r.wantFile(at+path, "", 404, "")
		}
		r.wantFile(at+"manifest.json", "bytes=0-0", 206, "{")
	}
	r.wantFile("runs/"+running.ID()+"/files/manifest.json", "", 404, "")
	r.wantFile("runs/run_none/files/manifest.json", "", 404, "")
	r.wantFile("runs/..%2Fagents/files/manifest.json", "", 404, "")
}

// newRun begins a run that keeps its results in out.
func (r *rig) newRun(out string) *files.Run {
	r.t.Helper()
	run, err := r.runs.Create(r.t.Context(), files.NewRun{ID: state.NewRunID(), OutputDir: out, CreatedAt: time.Now()})
	expect.NoError(r.t, err)
	r.t.Cleanup(func() { expect.NoError(r.t, run.Close()) })
	return run
}

// named is the record of a run with the names of results.
func named(id string, paths ...string) *state.Manifest {
	now := turns.At(time.Now())
	m := &state.Manifest{Schema: state.ManifestSchema, RunID: id, Status: state.StatusCompleted,
		Outcome: state.OutcomeSuccess, StartedAt: now, CompletedAt: now}
	for _, path := range paths {
		m.Artifacts = append(m.Artifacts, state.Artifact{Path: path, SHA256: strings.Repeat("0", 64)})
	}
	return m
}
