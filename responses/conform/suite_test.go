package conform_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"holon/responses"
	"holon/responses/conform"
	"holon/responses/stream"
)

// server is a small server of the protocol: it answers every request with the
// same message. It shows that the suite can be passed by package responses
// alone; agentd's own tests run it against the real thing.
type server struct {
	mu     sync.Mutex
	stored map[string]bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.serve(w, r); err != nil {
		e := responses.AsError(err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(e.Status())
		_, _ = w.Write(e.Envelope())
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != "/v1/responses" {
		return responses.NotFound("", responses.CodeNotFound, "there is nothing here")
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return responses.Invalid("", responses.CodeUnsupportedMediaType, "the body must be application/json")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	req, err := responses.DecodeRequest(body)
	if err != nil {
		return err
	}
	if err := s.check(req); err != nil {
		return err
	}
	framing := stream.Accepted(r.Header.Get("Accept"))
	var wire []byte
	e, err := responses.NewEmitter(responses.NewResponse(responses.NewID(responses.PrefixResponse), req.Model, 1, req), func(_ string, data []byte) error {
		wire = framing.Append(wire, data)
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.Text("hello"); err != nil {
		return err
	}
	if err := e.Complete(responses.Usage{}, 2); err != nil {
		return err
	}
	s.mu.Lock()
	s.stored[e.Response().ID] = true
	s.mu.Unlock()
	if req.Stream {
		w.Header().Set("Content-Type", framing.ContentType())
		_, err = w.Write(framing.AppendEnd(wire))
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(e.Response())
}

func (s *server) check(req *responses.Request) error {
	calls := make(map[string]bool)
	for _, item := range req.Input {
		switch item := item.(type) {
		case *responses.FunctionCall:
			calls[item.CallID] = true
		case *responses.FunctionCallOutput:
			if !calls[item.CallID] {
				return responses.Invalid("input", responses.CodeCallNotFound, "there is no such call")
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := req.PreviousResponseID; id != "" && !s.stored[id] {
		return responses.PreviousNotFound(id)
	}
	return nil
}

func TestSuite(t *testing.T) {
	srv := httptest.NewServer(&server{stored: make(map[string]bool)})
	defer srv.Close()
	conform.Run(t, srv.URL+"/v1/", srv.Client(), "any")
}
