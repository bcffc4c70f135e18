package websocket

import (
	"bytes"
	"encoding/json"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// The same request by POST and on a WebSocket is the same request.
func TestMessageHasTheDigestOfItsRequest(t *testing.T) {
	const fields = `"input":"x","metadata":{"a":"<b>"},"temperature":0.50`
	posted, err := responses.DecodeRequest([]byte("{" + fields + "}"))
	expect.NoError(t, err)
	sent, err := DecodeCreate([]byte(`{"type":"response.create","holon_model_token":"t",` + fields + `}`))
	if err != nil || sent.Token != "t" || sent.Digest != posted.Digest {
		t.Errorf("the digests are %s and %s (%v)", posted.Digest, sent.Digest, err)
	}
}

// A message with two readings is refused, as the body of a request is.
func TestRepeatedKeys(t *testing.T) {
	for _, key := range []string{"type", "input", "model"} {
		text := []byte(`{"type":"response.create","input":"x","model":"m","` + key + `":"y"}`)
		_, err := DecodeCreate(text)
		if e := responses.AsError(err); err == nil || e.Param != key {
			t.Errorf("%s: %v, want that %s is refused", text, err, key)
		}
	}
}

// Each message becomes a request or an error that can be framed.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[`, `{"type":"response.create","input":"x"}`,
		`{"type":"response.create","previous_response_id":"resp_1","input":[]}`,
		`{"type":"response.create","generate":false}`,
		`{"type":"response.create","STREAM":null}`, `{"type":"response.create","background":false}`, `{"type":7}`,
		"{\"type\":\"\xff\"}",
		`{"type":"response.create","input":[{"type":"compaction","encrypted_content":"x"}],` +
			`"holon":{"turn_id":"turn_a"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		req, err := DecodeCreate(text)
		if err == nil {
			switch {
			case req.Stream:
				t.Error("req.Stream = true, want false")
			case req.Background:
				t.Error("req.Background = true, want false")
			case req.Digest == "":
				t.Error(`req.Digest = "", want another value`)
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
