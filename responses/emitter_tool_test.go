package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// ran is a call of a container tool as the journal keeps it.
func ran(n int) *responses.ToolCall {
	return &responses.ToolCall{ID: fmt.Sprintf("tc_%d", n), CallID: fmt.Sprintf("call_%d", n), Name: "ExecCommand",
		Arguments: `{"cmd":"ls <x>"}`, Status: responses.ItemCompleted,
		Result: json.RawMessage(`{"tool_name":"ExecCommand","status":"success"}`), Output: "a\nb",
		Media: []responses.Part{{Type: responses.PartInputImage, ImageURL: "data:,"}}}
}

// toolStream is a stream of a request that asked to see the container's calls.
func toolStream(t testing.TB) *recorder {
	t.Helper()
	rec := &recorder{failAt: -1}
	e, err := responses.NewEmitter(newResponse(t, responses.StatusInProgress), rec.take)
	expect.NoError(t, err)
	probs := []responses.LogProb{{Token: "Look", Logprob: -0.25, Bytes: []int{76},
		TopLogprobs: []responses.TopLogProb{{Token: "See", Logprob: -1.5}}}}
	expect.NoError(t, errors.Join(e.TextLogprobs("Look", probs), e.TextLogprobs("", probs), e.Text("ing \xe6\x97"),
		e.Text("\xa5."), e.TextLogprobs("", probs), e.BeginToolCall(ran(1)), e.EndToolCall(ran(1)),
		e.BeginToolCall(ran(2)), e.EndToolCall(ran(2)), e.Text("torn \xe6\x97"),
		e.Complete(usage, 1_700_000_001)))
	return rec
}

func TestToolCallsOnTheStream(t *testing.T) {
	rec := toolStream(t)
	if err := check(rec.lines, true); err != nil {
		t.Errorf("%v\n%s", err, rec.joined())
	}
	golden(t, "stream-tool-calls.ndjson", rec.joined())
	final := decodeAll(t, rec.lines[len(rec.lines)-1:])[0].Response.Output
	if m := final[0].(*responses.Message); m.Text() != "Looking 日." || len(m.Content[0].Logprobs) != 3 {
		t.Errorf("the first message is %+v", m)
	}
	if m := final[3].(*responses.Message); m.Text() != "torn \uFFFD" {
		t.Errorf("the last message is %q", m.Text())
	}
	e, err := responses.NewEmitter(newResponse(t, responses.StatusInProgress), (&recorder{failAt: -1}).take)
	expect.NoError(t, err)
	if err := e.EndToolCall(ran(1)); err == nil {
		t.Error("a call that is not open was ended")
	}
	if err := e.BeginToolCall(ran(1)); err != nil || !e.Open() {
		t.Error(err)
	}
	if err := e.EndToolCall(ran(2)); err == nil {
		t.Error("another call was ended")
	}
}

// A stream that was cut within a call ends with it incomplete, as the record
// has it.
func TestResumeToolCalls(t *testing.T) {
	lines := toolStream(t).lines
	for n := 1; n <= len(lines); n++ {
		rec := &recorder{lines: slices.Clone(lines[:n]), failAt: -1}
		e, err := responses.Resume(slices.Values(decodeAll(t, lines[:n])), rec.take)
		if err != nil {
			t.Fatalf("cut after %d events: %v", n, err)
		}
		within := e.Open() && responses.EventType(lines[n-1]) == responses.EventItemAdded && n > 10
		if !e.Ended() {
			expect.NoError(t, e.Fail(responses.Internal("interrupted", nil), usage))
		}
		if err := check(rec.lines, true); err != nil {
			t.Errorf("cut after %d events: %v\n%s", n, err, rec.joined())
		}
		output := e.Response().Output
		if c, ok := last(output).(*responses.ToolCall); within && ok &&
			(c.Status != responses.ItemIncomplete || c.Output != responses.InterruptedCall) {
			t.Errorf("cut after %d events: the call is %+v", n, c)
		}
	}
}

func last(items responses.Items) responses.Item {
	if len(items) == 0 {
		return nil
	}
	return items[len(items)-1]
}
