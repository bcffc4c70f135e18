package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

// Every stream gives the right text, calls, usage and end, or the right error,
// however its bytes arrive, over TCP and over a socket.
func TestStreams(t *testing.T) {
	for _, stream := range modeltest.Streams(t, "responses") {
		t.Run(stream.Name, func(t *testing.T) {
			for _, unix := range []bool{false, true} {
				var got []modeltest.Answer
				for _, events := range answers(stream.Events) {
					tr := serve(t, unix, replay(events, true))
					a, failed := ask(t.Context(), t, tr, model.Request{})
					if failed == nil {
						checkAgainst(t, events[len(events)-1], a)
					}
					got = append(got, a)
				}
				modeltest.Golden(t, stream.Name+".json", got)
			}
		})
	}
}

// answers splits the events of a stream into its answers.
func answers(events []string) (list [][]string) {
	for _, ev := range events {
		if responses.EventType([]byte(ev)) == responses.EventCreated {
			list = append(list, nil)
		}
		list[len(list)-1] = append(list[len(list)-1], ev)
	}
	return list
}

// checkAgainst compares an answer with the content of the terminal event, which
// the transport does not read when there were deltas.
func checkAgainst(t *testing.T, terminal string, got modeltest.Answer) {
	t.Helper()
	var ev struct {
		Response struct {
			Output []struct {
				Type, Arguments, Input, Name string
				CallID                       string `json:"call_id"`
				EncryptedContent             string `json:"encrypted_content"`
				Summary                      []struct{ Text string }
				Content                      []struct {
					Text, Refusal string
					Annotations   []struct{ URL string }
				}
			}
			Usage responses.Usage
		}
	}
	expect.NoError(t, json.Unmarshal([]byte(terminal), &ev))
	want := modeltest.Answer{Usage: ev.Response.Usage, Stop: got.Stop, RequestID: got.RequestID}
	for _, item := range ev.Response.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				want.Text, want.Refusal = want.Text+part.Text, want.Refusal+part.Refusal
				for _, note := range part.Annotations {
					want.Notes = append(want.Notes, note.URL)
				}
			}
		case "reasoning":
			for _, part := range item.Summary {
				want.Summary = append(want.Summary, part.Text)
			}
			for _, part := range item.Content {
				want.Summary = append(want.Summary, part.Text)
				want.Opaque = []string{model.Seal("openai", "reasoning_text")}
			}
			if item.EncryptedContent != "" {
				want.Opaque = append(want.Opaque, item.EncryptedContent)
			}
		case "function_call", "custom_tool_call":
			want.Calls = append(want.Calls, item.CallID+" "+item.Name+" "+item.Arguments+item.Input)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer is not what the terminal event holds (-want +got):\n%s", diff)
	}
}
