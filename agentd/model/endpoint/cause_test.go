package endpoint

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/internal/providers"
	"holon/test/expect"
)

// What the host's gateway says of a request without an answer, and of the provider's address, is in the diagnosis. Any
// other server is not believed.
func TestCauseOfTheGateway(t *testing.T) {
	cause := `{"connect":true,"timeout":true,"chain":["dial tcp 10.0.0.1:443: i/o timeout","i/o timeout"]}`
	for _, tt := range []struct {
		name, cause string
		status      int
		gateway     bool
		want        model.Diagnostics
	}{
		{"no connection", cause, http.StatusBadGateway, true, model.Diagnostics{Stage: model.StageSend,
			URL: "https://llm.example/v1", Timeout: true, Connect: true,
			Chain: []string{"dial tcp 10.0.0.1:443: i/o timeout", "i/o timeout"}}},
		{"dropped", `{"chain":["EOF"]}`, http.StatusBadGateway, true, model.Diagnostics{Stage: model.StageSend,
			URL: "https://llm.example/v1", Request: true, Chain: []string{"EOF"}}},
		{"no cause", "1", http.StatusBadGateway, true, model.Diagnostics{Stage: model.StageStatus,
			URL: "https://llm.example/v1"}},
		{"an answer that broke off", "", http.StatusOK, true, model.Diagnostics{Stage: model.StageBody, Body: true,
			URL: "https://llm.example/v1", Chain: []string{"the event stream ended before its terminal event"}}},
		{"no answer in time", "", 0, true, model.Diagnostics{Stage: model.StageSend, URL: "https://llm.example/v1",
			Timeout: true, Request: true, Chain: []string{"the provider is silent"}}},
		{"another server", cause, http.StatusBadGateway, false, model.Diagnostics{Stage: model.StageStatus}},
	} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // a handler of a test that looks at nothing
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set(providers.AddressHeader, "https://llm.example/v1")
			if tt.status == 0 {
				w.WriteHeader(http.StatusEarlyHints)
				<-r.Context().Done()
				return
			}
			w.Header().Set(providers.GatewayHeader, tt.cause)
			w.WriteHeader(tt.status)
		}))
		opts := Options{Provider: "lab", KeyOptional: true}
		if tt.status == 0 {
			opts.IdleTimeout = time.Second
		}
		if tt.gateway {
			dir, err := os.MkdirTemp("", "holon-endpoint-") // whose path is short
			expect.NoError(t, err)
			defer os.RemoveAll(dir)
			opts.SocketPath = filepath.Join(dir, "s")
			expect.NoError(t, server.Listener.Close())
			server.Listener, err = net.Listen("unix", opts.SocketPath)
			expect.NoError(t, err)
		}
		server.Start()
		defer server.Close()
		if !tt.gateway {
			opts.BaseURL, tt.want.URL = server.URL, server.URL
		}
		e, err := New(opts)
		expect.NoError(t, err)
		defer e.Close()
		var last error
		for _, last = range e.Stream(t.Context(), model.Request{},
			func(model.Request) (Request, error) { return Request{}, nil },
			func(model.Request, http.Header, func(model.Event) bool) Answer { return answer{} }) {
		}
		if diff := cmp.Diff(&tt.want, model.AsError(last).Diagnostics); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
