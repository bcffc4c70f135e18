package responses_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// deliberate are the differences from the protocol's document, each with its reason.
// docs/reference/compatibility.md lists them for users.
var deliberate = map[string]string{
	"range":        "sampling parameters keep the ranges that the document says in no schema",
	"integer":      "integers are written in digits and fit 64 bits",
	"small":        "max_output_tokens may be less than 16, which probes send",
	"null":         "null, or an empty word of a list, counts as absent",
	"words":        "words of reasoning.effort and service_tier are passed on: there are new ones each year",
	"background":   "a background response that is not stored could not be fetched",
	"id":           "no stored response can have such an id: 404",
	"metadata key": "a key of metadata has at most 64 characters, which the document says in words",
	"foreign":      "tools, items and values of include of other servers are ignored",
	"holon":        "the object holon is ours and is checked",
	"duplicate":    "a name that is repeated within an object is refused",
	"json object":  "the document names the type json_object in responses alone",
	"schema":       "a JSON Schema that cannot work is refused before the turn",
	"names":        "names that no function can have are refused",
	"typeless":     "messages and functions need no type",
	"twice":        "a function, a call and an output stand once",
	"missing":      "absent text, content, arguments and summaries are empty",
	"parts":        "any text may stand where text may, and content where a model can be told of it",
	"bare":         "content parts without a message are a message of the user",
	"status":       "an item has one of three states",
	"address":      "content is given by https URL, or by a data URL that is what it says",
	"content":      "what stands for nothing would be dropped in silence",
}

// body is a request made by hand and whether it fits the protocol's document.
type body struct {
	Name    string
	Fits    bool
	Differs string // the key of the deliberate difference, when the decoder says otherwise
	Body    json.RawMessage
}

func bodies(t testing.TB) (list []body) {
	t.Helper()
	file, err := os.Open("testdata/bodies.ndjson")
	expect.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var b body
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		list = append(list, b)
	}
	expect.NoError(t, lines.Err())
	return list
}

// Decoder and document agree about requests made by hand, but for the deliberate
// differences.
func TestBodies(t *testing.T) {
	doc := document(t)
	used := map[string]bool{}
	all := bodies(t)
	for _, b := range all {
		invalid := doc.Object("CreateResponseBody", b.Body)
		if got := invalid == nil; got != b.Fits {
			t.Errorf("%s: the document takes it: %t, want %t (%.300v)", b.Name, got, b.Fits, invalid)
		}
		if b.Differs != "" && deliberate[b.Differs] == "" {
			t.Errorf("%s: the difference %q is not listed", b.Name, b.Differs)
		}
		used[b.Differs] = true
		_, err := responses.DecodeRequest(b.Body)
		if got, want := err == nil, b.Fits == (b.Differs == ""); got != want {
			t.Errorf("%s: the decoder takes it: %t, want %t (%v): %.200s", b.Name, got, want, err, b.Body)
		}
	}
	for key := range deliberate {
		if !used[key] {
			t.Errorf("no body shows the difference %q", key)
		}
	}
	if got := len(all); got < 300 {
		t.Errorf("there are %d bodies, want at least 300", got)
	}
}
