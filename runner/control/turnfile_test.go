package control_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/control"
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
	for _, tt := range []struct {
		path, ranges string
		status       int
		want         string
	}{
		{"main/turns/turn_1/files/tools/a%20b", "", 200, "0123456789"},
		{"main/turns/turn_1/files/tools%2Fa%20b", "bytes=2-4", 206, "234"},
		{"main/turns/turn_1/files/tools/a%20b", "bytes=20-", 416, ""},
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holon/agents/"+tt.path, nil)
		expect.NoError(t, err)
		if tt.ranges != "" {
			req.Header.Set("Range", tt.ranges)
		}
		resp, err := r.raw().Do(req)
		expect.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		expect.NoError(t, err)
		resp.Body.Close()
		if resp.StatusCode != tt.status || tt.want != "" && string(body) != tt.want {
			t.Errorf("%s is answered %d %s, want %d %s", tt.path, resp.StatusCode, body, tt.status, tt.want)
		}
	}
}
