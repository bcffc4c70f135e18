package agentd_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"testing"

	"holon/responses"
)

// Requests made by hand, of package responses, are refused over HTTP when they are
// refused by the decoder, before a turn, with a message for people. The others are at
// least understood.
func TestBodiesOverHTTP(t *testing.T) {
	t.Parallel()
	h := start(t)
	data, err := os.ReadFile("../responses/testdata/bodies.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	inner := regexp.MustCompile(`json:|Go |0x[0-9a-f]{6}|\b(struct|float64|RawMessage|nil|interface)\b|e\+\d|%!`)
	refused := 0
	for line := range bytes.Lines(data) {
		var b struct {
			Name string
			Body json.RawMessage
		}
		if err := json.Unmarshal(line, &b); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		_, err := responses.DecodeRequest(b.Body)
		if err == nil {
			if a := h.do(http.MethodPost, "/responses/input_tokens", string(b.Body)); a.status >= 500 {
				t.Errorf("%s: %d %.300s, want an answer", b.Name, a.status, a.body)
			}
			continue
		}
		refused++
		want := responses.AsError(err)
		a := h.do(http.MethodPost, "/responses", string(b.Body))
		got := responses.DecodeEnvelope(a.status, a.body)
		if a.status != want.Status() || got.Code != want.Code || got.Param != want.Param {
			t.Errorf("%s: %d %s at %s, want %d %s at %s", b.Name, a.status, got.Code, got.Param, want.Status(), want.Code,
				want.Param)
		}
		if message := got.Error(); inner.MatchString(message) {
			t.Errorf("%s: the message %q names something of the program", b.Name, message)
		}
	}
	if refused == 0 {
		t.Error("refused = 0, want another value")
	}
}
