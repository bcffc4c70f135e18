package endpoint

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses/stream"
	"holon/test/expect"
)

// answer reads an answer to its end and keeps nothing.
type answer struct{}

func (answer) Take([]byte) (bool, error) { return false, nil }
func (answer) End(bool) error            { return stream.ErrTruncated }
func (answer) Whole([]byte) error        { return nil }

// An event without end, and an answer without end, are refused without being stored
// completely.
func TestEndlessAnswers(t *testing.T) {
	for contentType, start := range map[string]string{stream.TypeSSE: "data: ", typeJSON: "{"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // without that a server does not notice that its client left
			w.Header().Set("Content-Type", contentType)
			_, err := io.WriteString(w, start)
			for piece := strings.Repeat(" ", 1<<20) + "x"; err == nil; {
				_, err = io.WriteString(w, piece)
			}
		}))
		defer server.Close()
		e, err := New(Options{Provider: "lab", BaseURL: server.URL, KeyOptional: true})
		expect.NoError(t, err)
		defer e.Close()
		var last error
		for _, last = range e.Stream(t.Context(), model.Request{},
			func(model.Request) (Request, error) { return Request{}, nil },
			func(model.Request, http.Header, func(model.Event) bool) Answer { return answer{} }) {
		}
		if last == nil {
			t.Errorf("%s: an answer without end is taken", contentType)
			continue
		}
		failed := model.AsError(last)
		expect.Equal(t, contentType+": the error", failed.Kind, model.KindProtocol)
		expect.Contains(t, contentType+": the message", failed.Message, "too large")
	}
}
