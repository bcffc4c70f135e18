package responses_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"holon/responses"
	"holon/test/expect"
)

// typed checks that an error is fit for a client.
func typed(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*responses.Error](err)
	if !ok || e.Code == "" || e.Message == "" || e.Status() < 400 {
		t.Fatalf("error is %#v", err)
	}
	if !json.Valid(e.Envelope()) {
		t.Fatalf("envelope is %s", e.Envelope())
	}
}

// stable checks that v encodes and that decoding gives the same again.
func stable[T any](t *testing.T, v T, decode func([]byte) (T, error)) {
	t.Helper()
	once, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode %+v: %v", v, err)
	}
	back, err := decode(once)
	if err != nil {
		t.Fatalf("decode %s: %v", once, err)
	}
	if diff := cmp.Diff(v, back, cmpopts.EquateEmpty(), rawJSON); diff != "" {
		t.Fatalf("%s changed in a round trip (-want +got):\n%s", once, diff)
	}
	if twice, err := json.Marshal(back); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("not stable:\n%s\n%s", once, twice)
	}
}

// rawJSON compares raw JSON by what it says, since encoding compacts it.
var rawJSON = cmp.FilterValues(func(a, b json.RawMessage) bool {
	return len(a) > 0 || len(b) > 0
}, cmp.Comparer(equalJSON))

func equalJSON(a, b json.RawMessage) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
}

func FuzzDecodeRequest(f *testing.F) {
	for _, b := range bodies(f) {
		f.Add([]byte(b.Body))
	}
	for _, s := range []string{
		`{"INPUT":"x","input":"y","input":"z"}`, `{"stream":true,"stream":false,"metadata":{"a":"b","a":"c"}}`,
		`{"temperature":1e400,"max_output_tokens":99999999999999999999,"top_logprobs":-0,"x":1e999999999}`,
		"{\"input\":\"\xff\xfe\"}", `{"input":"\ud800\udc00\ud800"}`, "{\"input\":\"\x00\"}",
		strings.Repeat(`{"input":[`, 300), `{"input":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}`,
		`{"tools":[{"type":"mcp","server_label":"l","server_url":"https://x","require_approval":"never",` +
			`"allowed_tools":[],"headers":{"a":"b"},"authorization":"t"},{"type":"holon:tool_call"}]}`,
		`{"tool_choice":{"type":"function","name":"f"},"tool_choice":{"type":"allowed_tools","tools":[{"name":"g"}]}}`,
		`{"input":[{"type":"holon:tool_call","id":"tc_1","call_id":"c","name":"Run","arguments":"{}","result":{"a":1}` +
			`,"output":"o","media":[{"type":"input_image","image_url":"data:image/png;base64,` +
			png + `"}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := responses.DecodeRequest(body)
		if err != nil {
			typed(t, err)
			return
		}
		if len(r.Digest) != 64 || r.Metadata == nil || r.Truncation == "" || r.ServiceTier == "" {
			t.Fatalf("a default is missing in %+v", r)
		}
		if again, err := responses.DecodeRequest(body); err != nil || again.Digest != r.Digest {
			t.Fatal("the digest is not stable")
		}
		stable(t, r.Input, decodeItems)
		roundTrip(t, r)
		resp := responses.NewResponse("resp_1", "m", 1, r)
		b, err := json.Marshal(resp)
		if err != nil {
			t.Fatalf("encode the echo of %s: %v", body, err)
		}
		if _, err := responses.DecodeResponse(b); err != nil {
			t.Fatalf("decode the echo %s: %v", b, err)
		}
	})
}

// roundTrip checks that a request is encoded without loss.
func roundTrip(t *testing.T, r *responses.Request) {
	t.Helper()
	sent := *r
	sent.Digest = "" // of the body that came; it had keys that mean nothing here
	sent.MCP = slices.Clone(r.MCP)
	for i := range sent.MCP { // tools that mean nothing here stood between them
		sent.MCP[i].Param = fmt.Sprintf("tools[%d]", len(r.Tools)+i)
	}
	stable(t, &sent, func(data []byte) (*responses.Request, error) {
		back, err := responses.DecodeRequest(data)
		if err == nil {
			back.Digest = ""
		}
		return back, err
	})
}

func decodeItems(data []byte) (responses.Items, error) {
	var items responses.Items
	err := json.Unmarshal(data, &items)
	return items, err
}

func FuzzDecodeItem(f *testing.F) {
	for _, s := range []string{
		`{"role":"user","content":"x"}`, `{"type":"message","role":"assistant","phase":"commentary",` +
			`"content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"u"}]},` +
			`{"type":"refusal","refusal":"no"}]}`,
		`{"type":"message","role":"user","content":[{"type":"input_image","image_url":null},{"type":"input_file",` +
			`"file_url":"u"},{"type":"input_video","video_url":"v"}]}`,
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{"}`,
		`{"type":"function_call_output","call_id":"c","output":"o","id":"x"}`,
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"content":"c","encrypted_content":"e"}`,
		`{"type":"compaction","encrypted_content":"e"}`,
		`{"id":"msg_1"}`, `{"type":"holon:tool_call","result":{"a": [1, 2]},"output":"o"}`,
		`{"type":"acme:thing","a": 1}`, `null`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := responses.DecodeItem(data)
		if err != nil {
			typed(t, err)
			return
		}
		stable(t, item, responses.DecodeItem)
	})
}

func FuzzDecodeEvent(f *testing.F) {
	for name := range streams {
		for _, line := range record(f, name).lines {
			f.Add(line)
		}
	}
	f.Add([]byte(`{"type":"error","sequence_number":0,"error":{"type":"server_error","code":null,"message":"m",` +
		`"param":null}}`))
	f.Add([]byte(`{"type":"acme:trace","item":null,"response":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := responses.DecodeEvent(data)
		if err != nil {
			typed(t, err)
			return
		}
		if ev.Type == "" {
			t.Fatalf("%s has no type", data)
		}
		// Resuming any events gives an error or an emitter.
		if e, err := responses.Resume(slices.Values([]responses.Event{ev}), func(string, []byte) error {
			return nil
		}); err == nil {
			_ = e.Fail(nil, usage)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	for name := range streams {
		lines := record(f, name).lines
		if ev, err := responses.DecodeEvent(lines[len(lines)-1]); err == nil {
			b, err := json.Marshal(ev.Response)
			expect.NoError(f, err)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := responses.DecodeResponse(data)
		if err != nil {
			typed(t, err)
			return
		}
		once, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("encode %+v: %v", r, err)
		}
		back, err := responses.DecodeResponse(once)
		if err != nil {
			t.Fatalf("decode %s: %v", once, err)
		}
		if twice, err := json.Marshal(back); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable:\n%s\n%s", once, twice)
		}
	})
}
