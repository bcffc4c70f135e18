package agentd

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"holon/internal/bounded"
	"holon/internal/httpserver"
	"holon/responses"
)

// readBody reads a bounded JSON body.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" && !httpserver.IsJSON(r) {
		return nil, responses.Invalid("Content-Type", responses.CodeUnsupportedMediaType,
			fmt.Sprintf("the body must be application/json in UTF-8, not %.80q", ct))
	}
	body, err := s.readBounded(w, r, responses.MaxRequest)
	if err == nil && len(body) == 0 {
		return nil, responses.Invalid("", responses.CodeInvalidJSON, "the body is empty; send a JSON object")
	}
	return body, err
}

// readRequest reads and decodes the body of a request for a response.
func (s *Server) readRequest(w http.ResponseWriter, r *http.Request) (*responses.Request, error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	return responses.DecodeRequest(body)
}

// readBounded reads a body of at most limit bytes and of any type.
func (s *Server) readBounded(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := httpserver.ReadBody(w, r, limit, s.waits.body)
	if err == nil {
		return body, nil
	}
	if errors.Is(err, httpserver.ErrEncoded) {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeUnsupportedMediaType,
			Param:   "Content-Encoding",
			Message: fmt.Sprintf("bodies with the encoding %.80q are not read", r.Header.Get("Content-Encoding")),
			Hint:    "send the body uncompressed"}
	}
	if _, over := errors.AsType[*bounded.TooLargeError](err); over {
		return nil, tooLarge(limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeRequestTimeout,
			Message: "the body came too slowly",
			Hint:    fmt.Sprintf("send at least %d bytes a second", httpserver.BodyRate)}
	}
	return nil, responses.Invalid("", responses.CodeInvalidJSON, "the body could not be read to its end")
}

func tooLarge(limit int64) error {
	e := &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeRequestTooLarge,
		Message: fmt.Sprintf("the body is larger than %d KiB", limit>>10)}
	if limit == responses.MaxRequest {
		e.Message, e.Hint = fmt.Sprintf("the body is larger than %d MiB", limit>>20),
			"give large files through the turn's input directory"
	}
	return e
}
