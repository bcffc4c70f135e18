package openresponses

import (
	"net/http"

	"holon/runner/openresponses/chat"
)

// complete is POST /v1/chat/completions: a turn in the words of another API.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	q, err := chat.Decode(body)
	if err != nil {
		return err
	}
	asked := r.WithContext(r.Context()) // with headers of its own
	asked.Header = r.Header.Clone()
	asked.Header.Set("Accept", "application/x-ndjson")
	answer := chat.NewWriter(w, q)
	if err := s.respond(answer, asked, q.Body, true); err != nil {
		return err
	}
	if answer.Finish() != nil {
		return errCut
	}
	return nil
}
