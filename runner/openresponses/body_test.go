package openresponses

import (
	"encoding/json"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// Only keys of holon change; every other byte of a body stays.
func TestEditHolon(t *testing.T) {
	for _, tc := range []struct {
		name, body, want string
		fields           []field
	}{
		{"no holon", `{ "a":1.50, "b":"\u00e9<" }`, `{ "a":1.50, "b":"\u00e9<" ,"holon":{"turn_id":"t"}}`,
			[]field{{"turn_id", "t"}}},
		{"empty", `{}`, `{"holon":{"turn_id":"t"}}`, []field{{"turn_id", "t"}}},
		{"null", `{"holon":null,"z":1e2}`, `{"holon":{"turn_id":"t"},"z":1e2}`, []field{{"turn_id", "t"}}},
		{"replaced", `{"holon" : {"turn_id" : "x" , "k":[ 1]},"z":1}`, `{"holon" : {"turn_id" : "t" , "k":[ 1]},"z":1}`,
			[]field{{"turn_id", "t"}}},
		{"first taken out", `{"holon":{"image":"i", "k":{}}}`, `{"holon":{"k":{}}}`, []field{{"image", nil}}},
		{"last taken out", `{"holon":{"k":{} , "image":"i" }}`, `{"holon":{"k":{} }}`, []field{{"image", nil}}},
		{"only one taken out", `{"holon":{"image":"i"}}`, `{"holon":{}}`, []field{{"image", nil}}},
		{"absent", `{"holon":{"k":"}"}}`, `{"holon":{"k":"}"}}`, []field{{"image", nil}}},
		{"other holon", `{"x":{"holon":{}},"holon":{}} `, `{"x":{"holon":{}},"holon":{"turn_id":"t"}} `,
			[]field{{"turn_id", "t"}}},
		{"text", `{"input":"\"holon\":{}}"}`, `{"input":"\"holon\":{}}","holon":{"session_id":"s\"}"}}`,
			[]field{{"session_id", `s"}`}}},
	} {
		got, err := editHolon([]byte(tc.body), tc.fields)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %s (%v), want %s", tc.name, got, err, tc.want)
		}
	}
}

// An edited body is JSON in which nothing but the edited key differs.
func FuzzEditHolon(f *testing.F) {
	for _, seed := range []string{`{"holon":{"a":1,"image":null},"b":[{}]}`, `{"b":1}`, ` {"holon": {} , "é":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := responses.DecodeRequest(body); err != nil {
			return
		}
		out, err := editHolon(body, []field{{"image", nil}, {"turn_id", "t"}})
		expect.NoError(t, err)
		var before, after map[string]json.RawMessage
		expect.NoError(t, json.Unmarshal(body, &before))
		expect.NoError(t, json.Unmarshal(out, &after))
		delete(before, "holon")
		delete(after, "holon")
		expect.Equal(t, "members", len(after), len(before))
		for key, value := range before {
			expect.Equal(t, key, string(after[key]), string(value))
		}
		req, err := responses.DecodeRequest(out)
		if err != nil || req.Holon.TurnID != "t" {
			t.Errorf("%s became %s: %v", body, out, err)
		}
	})
}
