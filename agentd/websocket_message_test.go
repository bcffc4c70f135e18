package agentd

import (
	"bytes"
	"encoding/json"
	"testing"

	"holon/responses"
)

// The same request by POST and on a WebSocket is the same request.
func TestMessageHasTheDigestOfItsRequest(t *testing.T) {
	const fields = `"input":"x","metadata":{"a":"<b>"},"temperature":0.50`
	posted, err := responses.DecodeRequest([]byte("{" + fields + "}"))
	if err != nil {
		t.Fatal(err)
	}
	sent, _, err := decodeCreate([]byte(`{"type":"response.create",` + fields + `}`))
	if err != nil || sent.Digest != posted.Digest {
		t.Errorf("the digests are %s and %s (%v)", posted.Digest, sent.Digest, err)
	}
}

// Whatever a client sends, it becomes a request or an error that can be framed.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[`, `{"type":"response.create","input":"x"}`,
		`{"type":"response.create","previous_response_id":"resp_1","input":[]}`,
		`{"type":"response.create","STREAM":null}`, `{"type":"response.create","background":false}`, `{"type":7}`,
		"{\"type\":\"\xff\"}",
		`{"type":"response.create","input":[{"type":"compaction","encrypted_content":"x"}],"holon":{"turn_id":"turn_a"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		req, _, err := decodeCreate(text)
		if err == nil {
			if req.Stream || req.Background || req.Digest == "" {
				t.Errorf("%q becomes %+v", text, req)
			}
			return
		}
		e := responses.AsError(err)
		if e.Status() >= 500 {
			t.Errorf("%q is the server's fault: %v", text, err)
		}
		frame := errorFrame(e)
		if !json.Valid(frame) || bytes.ContainsAny(frame, "\r\n") {
			t.Errorf("%q gives the frame %q", text, frame)
		}
	})
}

func TestWeight(t *testing.T) {
	text := []responses.Part{responses.InputText("1234567890")}
	for name, item := range map[string]responses.Item{
		"a message": &responses.Message{Content: text}, "an output": &responses.FunctionCallOutput{Output: text},
		"a call":         &responses.FunctionCall{Arguments: "1234567890"},
		"a command":      &responses.ToolCall{Output: "1234567890"},
		"a thought":      &responses.Reasoning{EncryptedContent: "1234567890"},
		"an opaque item": &responses.OpaqueItem{Raw: json.RawMessage("1234567890")},
		"an image": &responses.Message{Content: []responses.Part{{Type: responses.PartInputImage,
			ImageURL: "1234567890"}}},
	} {
		if n := weight([]responses.Item{item}); n < 10+256 || n > 10+256+128 {
			t.Errorf("%s weighs %d", name, n)
		}
	}
}
