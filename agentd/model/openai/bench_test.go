package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"holon/agentd/model"
)

// BenchmarkDeltas reads an answer of 10,000 deltas from a local server: the
// server's writing and the kernel are in the figure too.
func BenchmarkDeltas(b *testing.B) {
	const n = 10_000
	var all strings.Builder
	write := func(ev string) { all.WriteString("event: e\ndata: " + ev + "\n\n") }
	write(added)
	for i := range n {
		write(fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,`+
			`"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" word","logprobs":[],`+
			`"obfuscation":"abcdefgh"}`, i))
	}
	write(completed)
	tr := serve(b, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, all.String()) // a short answer fails the benchmark below
	})
	b.ReportAllocs()
	for b.Loop() {
		got := 0
		for ev, err := range tr.Stream(b.Context(), model.Request{Model: "m"}) {
			if err != nil {
				b.Fatal(err)
			}
			if ev.Kind == model.TextDelta {
				got++
			}
		}
		if got != n {
			b.Fatalf("%d deltas", got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
