package endpoint_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
)

// A model may think for long about a large conversation: once its answer begins,
// the body of the request is garbage.
func TestBodyIsForgottenWhenTheAnswerBegins(t *testing.T) {
	begun, collected := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	defer srv.Close()
	e, err := endpoint.New(endpoint.Options{Provider: "acme", BaseURL: srv.URL, KeyOptional: true})
	if err != nil {
		t.Fatal(err)
	}
	encode := func(model.Request) (endpoint.Request, error) {
		body := bytes.Repeat([]byte(" "), 1<<20)
		runtime.AddCleanup(&body[0], func(c chan struct{}) { close(c) }, collected)
		return endpoint.Request{Path: "/x", Body: body}, nil
	}
	read := func(model.Request, http.Header, func(model.Event) bool) endpoint.Answer { return nil }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range e.Stream(ctx, model.Request{}, encode, read) {
		}
	}()
	<-begun
	late := time.After(10 * time.Second)
	for {
		runtime.GC()
		select {
		case <-collected:
			cancel()
			<-ended
			return
		case <-late:
			t.Fatal("the body is held while the answer is awaited")
		default:
		}
	}
}
