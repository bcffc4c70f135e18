package anthropic_test

import (
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/test/expect"
	"holon/test/modeltest"
)

// Every stream gives the right text, calls, usage and end, or the right error,
// however its bytes arrive, over TCP and over a socket.
func TestStreams(t *testing.T) {
	for _, stream := range modeltest.Streams(t, "messages") {
		t.Run(stream.Name, func(t *testing.T) {
			for _, unix := range []bool{false, true} {
				var sizes []int
				tr := serve(t, unix, func(w http.ResponseWriter, r *http.Request) {
					replay(stream.Events, sizes...)(w, r)
				})
				for _, sizes = range modeltest.Cuts(t) {
					a, failed := modeltest.Ask(t.Context(), t, tr, model.Request{Model: "claude-sonnet-4-5"})
					modeltest.Golden(t, stream.Name+".json", a)
					if failed != nil {
						continue
					}
					want := accumulate(t, stream.Events)
					got := modeltest.Answer{Text: a.Text, Refusal: a.Refusal, Calls: a.Calls, Usage: a.Usage}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("in pieces of %v it is not what the official client reads (-want +got):\n%s", sizes,
							diff)
					}
				}
			}
		})
	}
}

// accumulate returns what the official client makes of an answer.
func accumulate(t *testing.T, events []string) (want modeltest.Answer) {
	t.Helper()
	var m sdk.Message
	for _, line := range events {
		var ev sdk.MessageStreamEventUnion
		expect.NoError(t, json.Unmarshal([]byte(line), &ev))
		if ev.Type == "ping" {
			continue
		}
		expect.NoError(t, m.Accumulate(ev))
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			want.Text += b.Text
		case "tool_use":
			if m.StopReason != sdk.StopReasonMaxTokens { // the call was cut short
				want.Calls = append(want.Calls, anthropic.TagCallID(b.ID, m.ID)+" "+b.Name+" "+string(b.Input))
			}
		}
	}
	if m.StopReason == sdk.StopReasonRefusal {
		want.Refusal = m.StopDetails.Explanation
	}
	want.Usage.InputTokens, want.Usage.OutputTokens = m.Usage.InputTokens, m.Usage.OutputTokens
	want.Usage.TotalTokens = m.Usage.InputTokens + m.Usage.OutputTokens
	return want
}
