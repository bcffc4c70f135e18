package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/test/memory"
)

const benchEvents = 10_000

// BenchmarkFirstByte compares a provider asked directly with the same one asked
// through the gateway: request to first byte of the answer.
func BenchmarkFirstByte(b *testing.B) {
	up := newBenchUpstream(b, 1, false)
	compare(b, up, func(b *testing.B, client *http.Client, url string) {
		first := make([]byte, 1)
		for b.Loop() {
			resp, err := client.Post(url, "application/json",
				strings.NewReader(`{"model":"m","input":"hi","stream":true}`))
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
	`data: {"type":"response.output_text.delta","sequence_number":123,"item_id":"msg_0123456789abcdef",` +
	`"output_index":0,"content_index":0,"delta":" word"}` + "\n\n"

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

// BenchmarkRatio asks a provider directly, through a floor and through the
// gateway, in turns within one loop, and reports medians: of the time to the
// first byte that each adds, and of the events a second relative to direct. The
// floor is a proxy on a Unix socket that flushes each piece and does nothing else. A machine that is busy is
// so for all three.
func BenchmarkRatio(b *testing.B) {
	for _, tc := range []struct {
		name   string
		events int
		flush  bool
		pause  time.Duration
	}{{"burst", benchEvents, false, 0}, {"flushed", benchEvents, true, 0}, {"paced", 200, true, 200 * time.Microsecond},
		{"single", 1, true, 0}} {
		b.Run(tc.name, func(b *testing.B) {
			up := newPacedUpstream(b, tc.events, tc.flush, tc.pause)
			direct := &http.Client{Transport: &http.Transport{DisableCompression: true, ReadBufferSize: 32 << 10}}
			defer direct.CloseIdleConnections()
			ways := []way{
				{direct, up.URL + "/responses", nil, nil},
				{floorProxy(b, up.URL), "http://floor/responses", nil, nil},
				{serve(b, openAI(up.URL)).client, "http://model/openai/responses", nil, nil},
			}
			for b.Loop() {
				for i := range ways {
					ways[i].ask(b, int64(tc.events*len(benchEvent)))
				}
			}
			for i, name := range []string{"", "floor", "gateway"} {
				if name != "" {
					b.ReportMetric(medianOf(ways[0].whole, ways[i].whole, func(d, w time.Duration) float64 {
						return float64(d) / float64(w)
					}), name+"-rate/direct")
					b.ReportMetric(medianOf(ways[0].first, ways[i].first, func(d, w time.Duration) float64 {
						return float64(w-d) / 1e6
					}), name+"-first-ms-added")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// way is a client's way to the provider, and how long each answer took.
type way struct {
	client       *http.Client
	url          string
	first, whole []time.Duration
}

func (w *way) ask(b *testing.B, size int64) {
	begin := time.Now()
	resp, err := w.client.Post(w.url, "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	w.first = append(w.first, time.Since(begin))
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size-1 {
		b.Fatalf("%s: read %d bytes: %v", w.url, n, err)
	}
	w.whole = append(w.whole, time.Since(begin))
}

// medianOf is the median of what the samples of each round make together.
func medianOf(a, b []time.Duration, of func(a, b time.Duration) float64) float64 {
	values := make([]float64, len(a))
	for i := range a {
		values[i] = of(a[i], b[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func newPacedUpstream(b *testing.B, events int, flush bool, pause time.Duration) *upstream {
	if pause == 0 {
		return newBenchUpstream(b, events, flush)
	}
	return newUpstream(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			io.WriteString(w, benchEvent)
			http.NewResponseController(w).Flush()
			time.Sleep(pause)
		}
	})
}

// floor passes requests on and flushes each piece of an answer.
type floor struct {
	to        string
	transport *http.Transport
}

func (f floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, f.to+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return
	}
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	control, buffer := http.NewResponseController(w), make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buffer)
		w.Write(buffer[:n])
		control.Flush()
	}
}

// floorProxy is a client of a floor in front of the provider.
func floorProxy(b *testing.B, to string) *http.Client {
	path := filepath.Join(memory.Dir(b), "floor.sock")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, ReadBufferSize: 32 << 10}
	server := &http.Server{Handler: floor{to, transport}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client := unixClient(path)
	b.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
		<-served
		transport.CloseIdleConnections()
	})
	return client
}
