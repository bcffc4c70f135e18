package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const benchEvents = 10_000

// BenchmarkFirstByte compares a provider asked directly with the same one asked
// through the gateway: request to first byte of the answer.
func BenchmarkFirstByte(b *testing.B) {
	up := newBenchUpstream(b, 1, false)
	compare(b, up, func(b *testing.B, client *http.Client, url string) {
		first := make([]byte, 1)
		for b.Loop() {
			resp, err := client.Post(url, "application/json", strings.NewReader(`{"model":"m","input":"hi","stream":true}`))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, first); err != nil {
				b.Fatal(err)
			}
			// Reading the rest costs both sides the same and keeps the connection.
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
}

// BenchmarkStream compares the events a second of one stream, sent as fast as
// the provider can, in bursts and with a flush after each event.
func BenchmarkStream(b *testing.B) {
	for _, flush := range []bool{false, true} {
		b.Run(fmt.Sprintf("flush=%t", flush), func(b *testing.B) {
			up := newBenchUpstream(b, benchEvents, flush)
			compare(b, up, func(b *testing.B, client *http.Client, url string) {
				buffer := make([]byte, 64<<10)
				for b.Loop() {
					resp, err := client.Post(url, "application/json", strings.NewReader(`{"model":"m"}`))
					if err != nil {
						b.Fatal(err)
					}
					n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{resp.Body}, buffer)
					if err != nil || n != benchEvents*int64(len(benchEvent)) {
						b.Fatalf("read %d bytes: %v", n, err)
					}
					resp.Body.Close()
				}
				b.ReportMetric(float64(b.N*benchEvents)/b.Elapsed().Seconds(), "events/s")
			})
		})
	}
}

const benchEvent = `event: response.output_text.delta` + "\n" +
	`data: {"type":"response.output_text.delta","sequence_number":123,"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" word"}` + "\n\n"

func newBenchUpstream(b *testing.B, events int, flush bool) *upstream {
	return newUpstream(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		for range events {
			io.WriteString(w, benchEvent)
			if flush {
				control.Flush()
			}
		}
	})
}

func compare(b *testing.B, up *upstream, run func(b *testing.B, client *http.Client, url string)) {
	b.Run("direct", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{DisableCompression: true, ReadBufferSize: 32 << 10}}
		defer client.CloseIdleConnections()
		run(b, client, up.URL+"/responses")
	})
	b.Run("gateway", func(b *testing.B) {
		g := serve(b, openAI(up.URL))
		run(b, g.client, "http://model/openai/responses")
	})
}
