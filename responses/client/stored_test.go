package client_test

import (
	"strings"
	"testing"

	"holon/responses"
)

// Answers are not trusted.
func TestHostileAnswers(t *testing.T) {
	for _, body := range []string{`{}`, `[]`, `{"object":"response","output":[5]}`,
		`{"object":"response","output":[{"type":"message"}]}`, strings.Repeat(`{"a":`, 20000), "\xff"} {
		c := serve(t, answer(200, "application/json", []byte(body)))
		_, err := c.GetResponse(t.Context(), "resp_1")
		isError(t, err, responses.CodeServerError)
	}
	c := serve(t, answer(200, "application/json", nil))
	for _, id := range []string{"", "../health", "a/b", "a?b"} {
		_, err := c.GetResponse(t.Context(), id)
		isError(t, err, responses.CodeInvalidValue)
	}
}
