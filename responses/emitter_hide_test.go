package responses_test

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/internal/redact"
	"holon/responses"
	"holon/test/expect"
)

// However a text is cut into deltas, no event shows the secret, the deltas add up
// to the text of the part, and log probabilities don't spell it.
func TestEmitterHidesSecrets(t *testing.T) {
	const secret = "tok-0123456789äbcdef"
	known := &redact.Set{}
	known.Add("A_TOKEN", secret)
	text := "first " + secret + " then\ntok-01 and " + secret
	want := strings.ReplaceAll(text, secret, redact.Mask)
	for size := 1; size <= len(text); size++ {
		var said, stream strings.Builder
		probs := ""
		e, err := responses.NewEmitter(responses.NewResponse("resp_1", "m/m", 1, &responses.Request{}),
			func(kind string, data []byte) error {
				stream.Write(data)
				var ev struct {
					Delta    string              `json:"delta"`
					Logprobs []responses.LogProb `json:"logprobs"`
				}
				if kind == responses.EventTextDelta {
					expect.NoError(t, json.Unmarshal(data, &ev))
					said.WriteString(ev.Delta)
					for _, p := range ev.Logprobs {
						probs += p.Token
					}
				}
				return nil
			})
		expect.NoError(t, err)
		e.Hide(known)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			expect.NoError(t, e.TextLogprobs(rest[:n], []responses.LogProb{{Token: rest[:n]}}))
			rest = rest[n:]
		}
		expect.NoError(t, e.BeginFunctionCall("call_1", "f"))
		for rest := `{"a":"` + secret + `"}`; rest != ""; {
			n := min(size, len(rest))
			expect.NoError(t, e.Arguments(rest[:n]))
			rest = rest[n:]
		}
		if err := e.Fail(&responses.Error{Type: responses.TypeServerError, Code: "c", Message: "no: " + secret},
			responses.Usage{}); err != nil {
			t.Fatal(err)
		}
		if said.String() != want {
			t.Fatalf("deltas of %d: %q", size, said.String())
		}
		if strings.Contains(stream.String(), "äbcdef") || strings.Contains(probs, "äbcdef") {
			t.Fatalf("deltas of %d show the secret: %s, %s", size, stream.String(), probs)
		}
		output := e.Response().Output
		if call, ok := output[1].(*responses.FunctionCall); !ok || call.Arguments != `{"a":"[redacted]"}` {
			t.Fatalf("deltas of %d: %+v", size, output[1])
		}
	}
}
