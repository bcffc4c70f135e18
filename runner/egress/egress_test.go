package egress_test

import (
	"io"
	"log"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"holon/runner/egress"
	"holon/test/expect"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

type fact = egress.Fact

var worldWide = map[string][][]netip.Addr{
	"example.com.": {addrs(public)}, "www.example.com.": {addrs(public, "2606:2800:220:1::1")},
	"other.example.org.": {addrs(public)},
}

// What is allowed works as without a proxy, and is recorded.
func TestAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com", "*.example.com")
	for url, want := range map[string]string{
		"https://example.com/a?b=c%2fd": "200 example.com /a?b=c%2fd 0\n",
		"http://example.com/a%2fb?c":    "200 example.com /a%2fb?c 0\n",
		"http://www.Example.COM./":      "200 www.example.com / 0\n",
	} {
		if got, err := r.get(r.client(""), url); err != nil || got != want {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
	if got, err := r.get(r.client(""), "https://example.com/large"); err != nil || len(got) != 8<<20+len("200 ") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	resp, err := r.client("").Post("http://example.com/post", "text/plain",
		io.MultiReader(strings.NewReader("chunk"), strings.NewReader("ed")))
	expect.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil || string(body) != "example.com /post 7\n" {
		t.Errorf("%s, %v", body, err)
	}
	facts := r.close()
	if got := decisions(facts); len(got) != 5 || slices.ContainsFunc(got, func(s string) bool {
		return !strings.HasPrefix(s, "allowed listed ")
	}) {
		t.Errorf("decisions: %q", got)
	}
	large := slices.ContainsFunc(facts, func(f fact) bool {
		return f.Ended != nil && f.Ended.BytesReceived > 8<<20 && f.Ended.BytesSent > 100 &&
			f.Ended.Address == public && f.Ended.Error == ""
	})
	if !large || len(ends(facts)) != 5 {
		t.Errorf("ends: %+v", ends(facts))
	}
	for _, req := range r.asked.all() {
		for _, name := range []string{"Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "Via",
			"X-Forwarded-For"} {
			expect.Equal(t, "the host was sent", req.Header.Get(name), "")
		}
	}
}

// Redirects are the client's business, and judged like all else.
func TestRedirect(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	got, err := r.get(r.client(""), "http://example.com/away")
	if err != nil || !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "host_not_allowed") {
		t.Errorf("%q, %v", got, err)
	}
	if got := decisions(r.close()); !slices.Equal(got,
		[]string{"allowed listed example.com", "denied host_not_allowed denied.example.net"}) {
		t.Errorf("decisions: %q", got)
	}
}

// An empty list is closed.
func TestEmptyList(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide)
	if _, err := r.get(r.client(""), "https://example.com/"); err == nil ||
		!strings.Contains(err.Error(), "host_not_allowed") {
		t.Errorf("%v", err)
	}
	if got, err := r.get(r.client(""), "http://example.com/"); err != nil || !strings.HasPrefix(got, "403 ") {
		t.Errorf("%q, %v", got, err)
	}
	if len(r.net.dials()) > 0 {
		t.Errorf("dialled %v", r.net.dials())
	}
}
