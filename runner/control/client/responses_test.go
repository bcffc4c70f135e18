package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/control/client"
	"holon/test/expect"
)

// The responses of a daemon are read at its URL with its token, and a connection that breaks is made anew.
func TestResponses(t *testing.T) {
	t.Parallel()
	const delta = "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":0,\"item_id\":\"i\"," +
		"\"delta\":\"x\"}\n\n"
	var asked []string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		expect.Equal(t, "token", r.Header.Get("Authorization"), "Bearer the-token")
		asked = append(asked, fmt.Sprint(r.Method, " ", r.URL))
		switch len(asked) {
		case 1:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"type":"not_found","code":"model_not_found","message":"m","param":"model"}}`)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"type":"server_error","code":"server_draining","message":"m"}}`)
		case 3:
			fmt.Fprint(w, delta+"data: {\"ty")
		default:
			fmt.Fprint(w, "data: {\"type\":\"response.completed\",\"sequence_number\":1}\n\n")
		}
	})
	_, err := server.Responses().Create(t.Context(), []byte(`{"model":"m"}`))
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeModelNotFound {
		t.Errorf("it failed with %v", err)
	}
	last := int64(-1)
	expect.NoError(t, client.Follow{Patience: time.Minute}.Retry(t.Context(), func() (bool, error) {
		before := last
		for ev, err := range server.Responses().Events(t.Context(), "resp_1", last) {
			if err != nil {
				return last > before, err
			}
			last = ev.SequenceNumber
		}
		return true, nil
	}))
	expect.Equal(t, "events", last, 1)
	expect.Equal(t, "asked", strings.Join(asked, "\n"), "POST /v1/responses\nGET /v1/responses/resp_1?stream=true\n"+
		"GET /v1/responses/resp_1?stream=true\nGET /v1/responses/resp_1?stream=true&starting_after=0")
}
