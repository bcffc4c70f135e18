package control_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// pages is a console whose streams last until their requests end.
type pages struct{}

func (pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "page", r.URL.Path)
	if r.Header.Get("Accept") == "text/event-stream" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func (pages) Login() (string, time.Time) { return "/ui/login?token=T", time.Unix(1700000000, 0) }

// The console is on the TCP port alone, without a bearer token and by the names of the port, and its streams end with
// the server. Only the operator gets a link to it.
func TestConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	if _, err := r.client().UILogin(t.Context()); !state.IsCode(err, wire.CodeUnsupported) {
		t.Errorf("without a console: %v", err)
	}
	r.stop()
	r.options.Console = pages{}
	r.server = control.New(r.options)
	r.run(tcp())
	if _, err := r.client().UILogin(t.Context()); !state.IsCode(err, wire.CodeUnsupported) {
		t.Errorf("without a port: %v", err)
	}
	r.host.info.AdvertiseURL = "http://" + r.addr
	link, err := r.client().UILogin(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "link", link.URL, "http://"+r.addr+"/ui/login?token=T")
	expect.Equal(t, "end", link.ExpiresAt.Time().Unix(), 1700000000)

	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(c *http.Client, method, url, host, accept string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		expect.NoError(t, err)
		req.Header.Set("Accept", accept)
		req.Host = host
		resp, err := c.Do(req)
		expect.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	base := "http://" + r.addr
	expect.Equal(t, "a page", ask(hc, "GET", base+"/ui/", "", "").StatusCode, 200)
	expect.Equal(t, "a page by localhost", ask(hc, "GET", base+"/ui/x", "localhost:1", "").StatusCode, 200)
	expect.Equal(t, "a name that was rebound", ask(hc, "GET", base+"/ui/", "evil.example", "").StatusCode, 403)
	expect.Equal(t, "the socket", ask(r.raw(), "GET", "http://holon/ui/", "", "").StatusCode, 404)
	expect.Equal(t, "a link for a stranger", ask(hc, "POST", base+"/control/ui/login", "", "").StatusCode, 401)
	stream := ask(hc, "GET", base+"/ui/stream", "", "text/event-stream")
	began := make([]byte, 64)
	_, err = stream.Body.Read(began)
	expect.NoError(t, err)
	r.stop() // which would wait for a stream that goes on
	if _, err := stream.Body.Read(began); err == nil {
		t.Error("the stream goes on behind the end of the server")
	}
}
