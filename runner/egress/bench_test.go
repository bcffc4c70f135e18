package egress_test

import (
	"io"
	"net/http"
	"testing"
)

// BenchmarkConnect is a whole allowed connection: judged, recorded, tunnelled,
// one request, closed. Most of it is TLS and the disk.
func BenchmarkConnect(b *testing.B) {
	r := newRig(b, worldWide, "example.com")
	client := r.client("")
	client.Transport.(*http.Transport).DisableKeepAlives = true
	for b.Loop() {
		if _, err := r.get(client, "https://example.com/"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTunnel is what an open tunnel carries, TLS of both ends included.
func BenchmarkTunnel(b *testing.B) {
	r := newRig(b, worldWide, "example.com")
	client := r.client("")
	b.SetBytes(8 << 20)
	for b.Loop() {
		resp, err := client.Get("https://example.com/large")
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); err != nil || n != 8<<20 {
			b.Fatal(n, err)
		}
	}
}
