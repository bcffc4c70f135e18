package scripted_test

import (
	"fmt"
	"testing"

	"holon/agentd/model"
	"holon/responses"
)

func BenchmarkRepeat(b *testing.B) {
	const n = 10_000
	tr, _ := open(b, map[string]string{"b.yaml": "rounds: [{repeat: {text: word, count: 10000}}]"})
	b.ReportAllocs()
	for b.Loop() {
		got := 0
		for _, err := range tr.Stream(b.Context(), model.Request{Model: "b"}) {
			if err != nil {
				b.Fatal(err)
			}
			got++
		}
		if got != n+2 {
			b.Fatalf("%d events", got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}

// BenchmarkReplay finds the 201st round of a turn whose rounds all branch.
func BenchmarkReplay(b *testing.B) {
	tr, _ := open(b, map[string]string{
		"b.yaml": `rounds: [{id: a, cases: [{when: {exit_status: 3}, text: x}, ` +
			`{calls: [{tool: ExecCommand}],` +
			` goto: a, times: 1000}]}]`})
	input := []responses.Item{user("x")}
	for i := range 200 {
		input = append(input, ran(fmt.Sprintf("call_t1_r%d_1", i+1), 0, "fine"))
	}
	for b.Loop() {
		for _, err := range tr.Stream(b.Context(), model.Request{Model: "b", Input: input}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
