package main

import (
	"bytes"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/control/wire"
	"holon/test/expect"
)

// A command says that the daemon is of another version, once, and nothing where it is of the same or an older one that
// does not say it.
func TestVersionSkewIsSaid(t *testing.T) {
	home := t.TempDir()
	socket := filepath.Join(home, "s")
	t.Setenv("HOLON_HOME", home)
	t.Setenv("HOLON_SOCKET_PATH", socket)
	for version, lines := range map[string]int{"v0.1": 1, buildVersion(): 0, "": 0} {
		listener, err := net.Listen("unix", socket)
		expect.NoError(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if version != "" {
				w.Header()[wire.HeaderVersion] = []string{version}
			}
			_, _ = w.Write([]byte("[]"))
		})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(listener)
		}()
		var out, errs bytes.Buffer
		code := run([]string{"agent", "list", "--json"}, notTerminals(&out, &errs))
		expect.Equal(t, "exit code", code, 0)
		expect.Equal(t, "output", strings.TrimSpace(out.String()), "[]")
		expect.Equal(t, "lines about the version "+version, strings.Count(errs.String(), "this command"), lines)
		_ = server.Close()
		<-done
	}
}
