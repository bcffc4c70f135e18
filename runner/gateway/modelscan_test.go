package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestModelScan(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, tc := range []struct {
		name, body, model string
		refused           bool
	}{
		{name: "first", body: `{"model":"m","input":[{"model":"x"}]}`, model: "m"},
		{name: "late", body: ` {"input" : "a\"b\\" , "n":[1,-2.5e+3,true,null,{},[]], "model"  :  "m" } ` + "\n", model: "m"},
		{name: "escaped name", body: `{"mod\u0065l":"m"}`, model: "m"},
		{name: "escaped value", body: `{"model":"\u006d\u002f\"x\""}`, model: `m/"x"`},
		{name: "in strings only", body: `{"input":"\"model\":\"x\"","model":"m"}`, model: "m"},
		{name: "unicode", body: `{"model":"m","input":"héé 😀 \ud83d\ude00"}`, model: "m"},
		{name: "deep", body: `{"model":"m","a":` + deep[1:len(deep)-1] + `}`, model: "m"},

		{name: "twice", body: `{"model":"m","model":"m"}`, refused: true},
		{name: "twice, escaped", body: `{"model":"m","\u006dodel":"x"}`, refused: true},
		{name: "another case", body: `{"Model":"x"}`, refused: true},
		{name: "twice in another case", body: `{"model":"m","MODEL":"x"}`, refused: true},
		{name: "none", body: `{"input":"x"}`, refused: true},
		{name: "within only", body: `{"a":{"model":"m"}}`, refused: true},
		{name: "no string", body: `{"model":["m"]}`, refused: true},
		{name: "null", body: `{"model":null}`, refused: true},
		{name: "name with NUL", body: `{"model":"m","model\u0000":"x"}`, refused: true},
		{name: "name with a space", body: `{"model":"m","model ":"x"}`, refused: true},
		{name: "name in other letters", body: `{"model":"m","mоdel":"x"}`, refused: true},
		{name: "a long name", body: `{"model":"m","` + strings.Repeat("a", 600) + `":1}`, refused: true},
		{name: "array", body: `[{"model":"m"}]`, refused: true},
		{name: "two objects", body: `{"model":"m"}{"model":"x"}`, refused: true},
		{name: "something behind", body: `{"model":"m"} x`, refused: true},
		{name: "cut", body: `{"model":"m"`, refused: true},
		{name: "empty", body: ``, refused: true},
		{name: "byte order mark", body: "\uFEFF" + `{"model":"m"}`, refused: true},
		{name: "comment", body: `{"model":"m"/*,"*/,"model":"x"}`, refused: true},
		{name: "single quotes", body: `{"model":"m",'model':"x"}`, refused: true},
		{name: "single quotes within", body: `{"model":"m","x":['"],"model":"x","y":["']}`, refused: true},
		{name: "bare name", body: `{model:"m"}`, refused: true},
		{name: "comma at the end", body: `{"model":"m",}`, refused: true},
		{name: "no colon", body: `{"model" "m"}`, refused: true},
		{name: "wrong bracket", body: `{"model":"m","a":[1}}`, refused: true},
		{name: "closed too often", body: `{"model":"m"}}`, refused: true},
		{name: "line end in a string", body: "{\"model\":\"m\",\"a\":\"\n\"}", refused: true},
		{name: "broken escape", body: `{"model":"m","a":"\u00"}`, refused: true},
		{name: "unknown escape", body: `{"model":"m","a":"\x"}`, refused: true},
		{name: "half a rune before a quote", body: "{\"model\":\"m\",\"a\":\"\xe2\",\"model\":\"x\"}", refused: true},
		{name: "lone continuation", body: "{\"model\":\"m\",\"a\":\"\x80\"}", refused: true},
		{name: "utf-16", body: "{\x00\"\x00m\x00", refused: true},
		{name: "too deep", body: `{"model":"m","a":` + deep + `}`, refused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, size := range []int{1, 3, len(tc.body) + 1} {
				model, err := scanned([]byte(tc.body), size)
				if tc.refused != (err != nil) || model != tc.model && err == nil {
					t.Errorf("pieces of %d: model %q, %v", size, model, err)
				}
			}
		})
	}
}

func scanned(body []byte, size int) (string, error) {
	var s modelScan
	for len(body) > 0 {
		n := min(size, len(body))
		if err := s.feed(body[:n]); err != nil {
			return "", err
		}
		body = body[n:]
	}
	return s.model, s.end()
}

// What passes is JSON in which every reader finds the same model.
func FuzzModelScan(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","input":[{"role":"user","content":"x"}],"stream":true}`, `{"a":1,"mod\u0065l":"\ud83d\ude00"}`, `{"model":"m","a":[{},[[]],-1e9,"\\\""]}`,
		`{"model":"m","model":"x"}`, `{"model":"m","Model":"x"}`, "{\"model\":\"m\",\"a\":\"\xe2\x82\xac\"}",
	} {
		f.Add([]byte(seed), byte(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, size byte) {
		model, err := scanned(body, len(body)+1)
		again, errAgain := scanned(body, 1+int(size))
		if (err == nil) != (errAgain == nil) || err == nil && model != again {
			t.Fatalf("in one piece %q, %v; in pieces %q, %v", model, err, again, errAgain)
		}
		if err != nil {
			return
		}
		var exact map[string]json.RawMessage
		if json.Unmarshal(body, &exact) != nil {
			return // numbers and literals are not judged
		}
		var want struct{ Model string }
		var name string
		if err := json.Unmarshal(body, &want); err != nil || want.Model != model || json.Unmarshal(exact["model"], &name) != nil || name != model {
			t.Fatalf("model %q, others read %q and %q (%v)", model, want.Model, name, err)
		}
	})
}

func BenchmarkModelScan(b *testing.B) {
	body := []byte(`{"model":"m","input":[` + strings.Repeat(`{"role":"user","content":"some words of a conversation, and \"quotes\" in them\n"},`, 1200) + `{}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := scanned(body, bufferSize); err != nil {
			b.Fatal(err)
		}
	}
}
