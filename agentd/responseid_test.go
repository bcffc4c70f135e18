package agentd_test

import (
	"net/http"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// The host chooses the id of a response once, and then the stream goes on where the queued response stood. A client
// without a model token cannot.
func TestResponseIDIsTheHosts(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("said", `rounds: [{text: "Done."}]`)
	body := func(turn string) string {
		return `{"model":"` + ref + `","input":"hi","instructions":"secret","stream":true,"holon":{"turn_id":"` + turn +
			`","response_id":"resp_mine"}}`
	}
	h.post(body("turn_0")).refused(t, http.StatusBadRequest, responses.CodeUnsupportedParameter, "holon.response_id")
	stream := string(h.post(body("turn_1"), responses.HeaderModelToken, "hmt_x").body)
	queued, begun := strings.Index(stream, `"type":"response.queued"`), strings.Index(stream, responses.EventInProgress)
	if queued < 0 || begun < queued || strings.Contains(stream, `"resp_0`) || strings.Contains(stream, "secret") {
		t.Errorf("the stream is\n%s", stream)
	}
	stored := h.do(http.MethodGet, "/responses/resp_mine", "").response(t)
	expect.Equal(t, "turn of the response", stored.Holon.TurnID, "turn_1")
	h.post(body("turn_1"), responses.HeaderModelToken, "hmt_x") // the same turn
	h.post(body("turn_2"), responses.HeaderModelToken, "hmt_x").refused(t, http.StatusConflict,
		responses.CodeTurnConflict, "holon.response_id")
}
