package openresponses

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"holon/test/expect"
)

// The end of an answer is not read before the turn has been saved, and all else is.
func TestHeldEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, tc := range map[string]struct {
		before, held string
		whole        bool
	}{
		"SSE": {before: "event: response.created\ndata: {\"type\":\"response.created\"}\n\n: ping\nevent: response.output_text.delta\n" +
			"data: {\"type\":\"response.output_text.delta\",\"delta\":\"event: response.completed" + long + "\"}\n\n",
			held: "event: response.completed\ndata: {\"type\":\"response.completed\",\"text\":\"" + long + "\"}\n\ndata: [DONE]\n\n"},
		"NDJSON": {before: `{"type":"response.created"}` + "\n" + `{"type":"x","t":"{\"type\":\"response.failed\""}` + "\n",
			held: `{"type":"response.failed"}` + "\n"},
		"whole":  {held: `{"id":"resp_1","status":"completed"}`, whole: true},
		"cut":    {before: "event: response.created\ndata: {"},
		"refuse": {before: `{"error":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var read strings.Builder
			at := -1
			body := io.NopCloser(strings.NewReader(tc.before + tc.held))
			_, err := io.Copy(&read, &heldEnd{ReadCloser: body, lines: bufio.NewReader(body), whole: tc.whole,
				hold: func() {
					if at >= 0 {
						t.Error("it is held twice")
					}
					at = read.Len()
				}})
			expect.NoError(t, err)
			expect.Equal(t, "read", read.String(), tc.before+tc.held)
			if want := len(tc.before); tc.held != "" && at != want || tc.held == "" && at >= 0 {
				t.Errorf("held after %d bytes, want %d", at, want)
			}
		})
	}
}
