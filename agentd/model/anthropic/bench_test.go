package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
)

// BenchmarkDeltas reads an answer of 10,000 deltas from a local server: the
// server's writing and the kernel are in the figure too.
func BenchmarkDeltas(b *testing.B) {
	const n = 10_000
	events := make([]string, n)
	for i := range events {
		events[i] = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}`
	}
	all := stream(answer("end_turn", append(append([]string{text0}, events...), stop0)...)...)
	tr := serve(b, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, all) // a short answer fails the benchmark below
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

// BenchmarkRequest encodes the 200th round of a turn: 400 calls with a page of
// output each.
func BenchmarkRequest(b *testing.B) {
	req := model.Request{Model: "claude-opus-5", Input: []responses.Item{text(responses.RoleUser, "u")}}
	page := strings.Repeat("some output of a command\n", 100)
	for round := range 200 {
		for i := range 2 {
			req.Input = append(req.Input, toolCall(anthropic.TagCallID(fmt.Sprintf("toolu_%d_%d", round, i),
				fmt.Sprint(round)), page))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		body, _, err := anthropic.EncodeRequest(req)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}
