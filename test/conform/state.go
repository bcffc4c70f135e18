package conform

import "net/http"

func stateCases() []Case {
	return []Case{
		{"continuation", Protocol, "previous_response_id continues a response", continuation},
		{"continuation/streamed", Protocol, "a streamed response can be continued at once", func(t *trial) {
			first, _ := t.streamed(`{"input":"Remember the word plum.","store":true,"stream":true}`)
			t.completes(whichWord, quote(first.str("id")))
		}},
		{"continuation/forked", Protocol, "two responses may continue the same one", func(t *trial) {
			first := t.completes(plum)
			for range 2 {
				t.completes(whichWord, quote(first.str("id")))
			}
		}},
		{"continuation/not stored", Protocol, "a response that was not stored cannot be continued", func(t *trial) {
			first := t.completes(`{"input":"Remember the word plum.","store":false}`)
			e := t.fails(t.post(t.request(whichWord, quote(first.str("id")))), http.StatusNotFound)
			t.expect(e["code"] == "previous_response_not_found", "code %v", e["code"])
		}},
		{"continuation/open call", Protocol, "a call that is not answered is not passed over", func(t *trial) {
			first, _ := t.callWeather("")
			t.fails(t.post(t.request(whichWord, quote(first.str("id")))), http.StatusBadRequest)
		}},
		{"item reference", Protocol, "an item of a stored response may be sent by its id alone", itemReference},
		{"compact/input", Protocol, "what compacting gave is accepted as input", compactedInput},
	}
}

const (
	plum      = `{"input":"Remember the word plum.","store":true}`
	whichWord = `{"input":"Which word?","previous_response_id":%s}`
)

func continuation(t *trial) {
	first := t.completes(plum)
	second := t.completes(whichWord, quote(first.str("id")))
	t.expect(second["previous_response_id"] == first["id"] && second["id"] != first["id"],
		"response %v continues %v, want %v", second["id"], second["previous_response_id"], first["id"])
	t.expect(first["previous_response_id"] == nil, "the first response continues %v", first["previous_response_id"])
}

// itemReference continues a conversation as a client does that sends the
// assistant's earlier messages by id and no previous_response_id.
func itemReference(t *trial) {
	id, _ := t.completes(plum).first("message")["id"].(string)
	for _, reference := range []string{`{"type":"item_reference","id":%s}`, `{"id":%s}`} {
		t.completes(`{"input":[{"role":"user","content":"Remember the word plum."},`+reference+
			`,{"role":"user","content":"Which word?"}]}`, quote(id))
	}
}

func compactedInput(t *trial) {
	compacted := t.compact(
		`{"input":[{"role":"user","content":"The code word is plum."},{"role":"assistant","content":"Noted."}]}`)
	input := append(compacted["output"].([]any), user("What is the code word?")...)
	t.completes(`{"input":%s}`, encode(input))
}
