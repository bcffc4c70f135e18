package turns_test

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

func TestDecodeEntry(t *testing.T) {
	const delta = `{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,` +
		`"content_index":0,"delta":"hi","logprobs":[]}`
	fact := everyEvent()[0]
	fact.Sequence = 7
	for line, want := range map[string]string{
		string(turns.AppendEntry(nil, 4, turns.EntryStream, []byte(delta))):    "4 response.output_text.delta",
		string(turns.AppendEntry(nil, 5, turns.EntryRuntime, encode(t, fact))): "5 " + fact.Type,
		``:                                       "",
		`{}`:                                     "",
		`{"seq":1}`:                              "",
		`{"seq":0,"stream":` + delta + `}`:       "",
		`{"seq":-1,"stream":` + delta + `}`:      "",
		`{"seq":1,"stream":}`:                    "",
		`{"seq":1,"stream":` + delta + `}}`:      "",
		`{"seq":1,"stream":` + delta + `,"x":1}`: "",
		`{"seq":1,"other":` + delta + `}`:        "",
		`{"seq":1,"runtime":` + delta + `}`:      "",
		`{"seq":99999999999999999999,"stream":` + delta + `}`:        "",
		`{"seq":1,"runtime":"` + strings.Repeat("x", 300<<10) + `"}`: "",
	} {
		e, err := turns.DecodeEntry([]byte(line))
		got := ""
		switch {
		case err != nil:
		case e.Stream != nil:
			got = string(encode(t, e.Seq)) + " " + e.Stream.Type
		default:
			got = string(encode(t, e.Seq)) + " " + e.Runtime.Type
		}
		if got != want {
			t.Errorf("%.100s is %q (%v), want %q", line, got, err, want)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	for i, e := range everyEvent() {
		e.Sequence = 1
		f.Add(turns.AppendEntry(nil, int64(i+1), turns.EntryRuntime, encode(f, e)))
	}
	f.Add([]byte(`{"seq":1,"stream":{"type":"response.refusal.delta","sequence_number":0,"delta":"no"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := turns.DecodeEntry(data)
		if err != nil {
			if _, ok := err.(*responses.Error); !ok {
				t.Fatalf("an error of another type: %v", err)
			}
			return
		}
		seq, key, value, ok := turns.CutEntry(data)
		if !ok || seq != e.Seq || (e.Stream != nil) == (e.Runtime != nil) || !json.Valid(value) {
			t.Fatalf("%q is read as %+v", data, e)
		}
		if again := turns.AppendEntry(nil, seq, key, value); string(again) != strings.TrimSuffix(string(data), "\n")+"\n" {
			t.Fatalf("%q becomes %q", data, again)
		}
	})
}
