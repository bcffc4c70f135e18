package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"holon/test/expect"
)

// The engine is the one of the Docker tools: of DOCKER_HOST, DOCKER_CONTEXT, or their current context.
func TestContexts(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("config.json", `{"currentContext":"other"}`)
	for name, endpoint := range map[string]string{"other": `{"Host":"unix:///other.sock"}`,
		"third": `{"Host":"tcp://third:2375"}`, "far": `{"Host":"ssh://far"}`, "none": `{}`} {
		sum := sha256.Sum256([]byte(name))
		write("contexts/meta/"+hex.EncodeToString(sum[:])+"/meta.json", `{"Endpoints":{"docker":`+endpoint+`}}`)
	}
	for _, tt := range []struct{ config, named, host, want string }{
		{dir, "", "", "unix:///other.sock"},
		{dir, "third", "", "tcp://third:2375"},
		{dir, "default", "", "unix:///var/run/docker.sock"},
		{dir, "third", "unix:///host.sock", "unix:///host.sock"},
		{t.TempDir(), "", "", "unix:///var/run/docker.sock"},
		{dir, "far", "", "ssh://far"},
		{dir, "third", "ssh://me@far:2222/run/d.sock", "ssh://far:2222"},
		{dir, "none", "", ""},
		{dir, "missing", "", ""},
	} {
		t.Setenv("DOCKER_CONFIG", tt.config)
		t.Setenv("DOCKER_CONTEXT", tt.named)
		t.Setenv("DOCKER_HOST", tt.host)
		e, err := New("", "")
		if err != nil {
			expect.Contains(t, tt.named+": refused", err.Error(), `docker context "`+tt.named+`"`)
			expect.Equal(t, tt.named+": the engine", "", tt.want)
			continue
		}
		expect.Equal(t, tt.named+": the engine", e.api.DaemonHost(), tt.want)
		expect.NoError(t, e.Close())
	}
}
