package responses_test

import (
	"testing"

	"holon/responses"
)

// BenchmarkDelta measures the path of every token: one delta of ordinary size.
// The text that is kept for the end of the part grows, hence the bytes.
func BenchmarkDelta(b *testing.B) {
	for name, delta := range map[string]string{"ascii": " function returns the", "escaped": "\tif x != \"\" {\n",
		"unicode": "größer als 日本 "} {
		b.Run(name, func(b *testing.B) {
			e, err := responses.NewEmitter(newResponse(b, responses.StatusInProgress), func(string, []byte) error {
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(delta)))
			n := 0
			for b.Loop() {
				if n++; n%10_000 == 0 { // as long as a long answer
					b.StopTimer()
					if err := e.BeginMessage(responses.PhaseCommentary); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if err := e.Text(delta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAnswer measures a whole stream of 10,000 deltas, with the events at
// its end that repeat the text.
func BenchmarkAnswer(b *testing.B) {
	const n = 10_000
	b.ReportAllocs()
	for b.Loop() {
		e, err := responses.NewEmitter(newResponse(b, responses.StatusInProgress), func(string, []byte) error {
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		for range n {
			if err := e.Text(" function returns the"); err != nil {
				b.Fatal(err)
			}
		}
		if err := e.Complete(usage, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
}

func BenchmarkDecodeEvent(b *testing.B) {
	line := record(b, "text").lines[4]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := responses.DecodeEvent(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := []byte(`{"model":"scripted/demo","input":[{"role":"user","content":"fix the failing test"}],` +
		`"stream":true,"holon":{"turn_id":"turn_1"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := responses.DecodeRequest(body); err != nil {
			b.Fatal(err)
		}
	}
}
