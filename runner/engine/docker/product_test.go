package docker

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"holon/runner/engine"
	"holon/test/expect"
)

// What answers is told apart by its own words: the texts are those of Docker 20.10 and 28, of Docker Desktop 4, and of
// Podman 4.3, each shortened to what matters.
func TestProduct(t *testing.T) {
	const engineComponent = `{"Name":"Engine","Version":"20.10.24"}`
	const podmanComponent = `{"Name":"Podman Engine","Version":"4.3.1"}`
	const seccomp, rootless = `"name=seccomp,profile=default"`, `"name=rootless"`
	for name, tc := range map[string]struct {
		system, options, components string
		product                     string
		rootless                    bool
	}{
		"docker":           {"Debian GNU/Linux 12 (bookworm)", seccomp, engineComponent, engine.ProductDocker, false},
		"rootless docker":  {"Debian GNU/Linux 12", seccomp + "," + rootless, engineComponent, engine.ProductDocker, true},
		"desktop":          {"Docker Desktop", seccomp, engineComponent, engine.ProductDesktop, false},
		"podman":           {"debian", seccomp, podmanComponent, engine.ProductPodman, false},
		"nothing is known": {"", "", "", engine.ProductDocker, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				w.Header().Set("Api-Version", "1.41")
				w.Header().Set("Ostype", "linux")
				switch {
				case strings.HasSuffix(r.URL.Path, "/info"):
					fmt.Fprintf(w, `{"OperatingSystem":%q,"SecurityOptions":[%s]}`, tc.system, tc.options)
				case strings.HasSuffix(r.URL.Path, "/version"):
					fmt.Fprintf(w, `{"Components":[%s]}`, tc.components)
				}
			}), func() {})
			info, err := e.Check(t.Context())
			expect.NoError(t, err)
			if info.Product != tc.product || info.Rootless != tc.rootless {
				t.Errorf("product %q, rootless %t, want %q, %t", info.Product, info.Rootless, tc.product, tc.rootless)
			}
			asked.Store(0)
			streams, err := e.Streams(t.Context())
			expect.NoError(t, err)
			expect.Equal(t, "by a stream", streams, tc.product != engine.ProductDocker || tc.rootless)
			expect.Equal(t, "how often it was asked again", asked.Load(), 0)
		})
	}
}
