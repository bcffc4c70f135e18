package client_test

import (
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/client"
)

// Answers are not trusted.
func TestHostileAnswers(t *testing.T) {
	for _, body := range []string{`{}`, `[]`, `{"object":"list","data":[5]}`,
		`{"object":"list","data":[{"type":"message"}]}`, `{"object":"list","data":{}}`, strings.Repeat(`{"a":`, 20000),
		"\xff"} {
		c := serve(t, answer(200, "application/json", []byte(body)))
		_, err := c.InputItems(t.Context(), "resp_1", client.ItemPage{})
		isError(t, err, responses.CodeServerError)
		_, err = c.GetResponse(t.Context(), "resp_1")
		isError(t, err, responses.CodeServerError)
		if !strings.Contains(body, "list") || strings.Contains(body, "data\":{") {
			_, err = c.Models(t.Context())
			isError(t, err, responses.CodeServerError)
		}
	}
	c := serve(t, answer(200, "application/json", nil))
	for _, id := range []string{"", "../health", "a/b", "a?b"} {
		_, err := c.GetResponse(t.Context(), id)
		isError(t, err, responses.CodeInvalidValue)
		isError(t, c.Delete(t.Context(), id), responses.CodeInvalidValue)
		_, err = c.InputItems(t.Context(), id, client.ItemPage{})
		isError(t, err, responses.CodeInvalidValue)
		for _, err := range c.Replay(t.Context(), id, client.FromStart) {
			isError(t, err, responses.CodeInvalidValue)
		}
	}
}
