package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"holon/responses"
)

const (
	maxBody      = 64 << 20
	maxErrorBody = 64 << 10
	bufferSize   = 32 << 10
)

// handle passes one request of the container on, or refuses it.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.active.begin() {
		refuse(w, &responses.Error{Type: responses.TypeServerError, Code: responses.CodeDraining, Message: "the host is stopping this container"})
		return
	}
	defer s.active.end()

	t, refusal := s.gateway.admit(r)
	if refusal != nil {
		s.noteRefusal(r, refusal)
		refuse(w, refusal)
		return
	}
	meter := s.meters[t.upstream.name]
	meter.requests.Add(1)
	if r.ContentLength > maxBody {
		meter.refused.Add(1)
		refuse(w, tooLarge())
		return
	}
	// The transport may still read the body when it has returned; closing it
	// makes that harmless. MaxBytesReader gets no ResponseWriter, because it
	// would use it from the transport's goroutine.
	body := &countingReader{reader: http.MaxBytesReader(nil, r.Body, maxBody), count: &meter.sent}
	defer body.Close()
	req, err := t.upstream.request(r.Context(), t, r, body)
	if err != nil {
		s.failed(w, r, t.upstream, fmt.Errorf("make the request: %w", err))
		return
	}
	start := time.Now()
	resp, err := t.upstream.transport.RoundTrip(req) // follows no redirect
	if err != nil {
		s.failed(w, r, t.upstream, err)
		return
	}
	defer resp.Body.Close()
	s.log.Debug("provider answered", "provider", t.upstream.name, "status", resp.StatusCode, "after", time.Since(start))
	s.relay(w, t.upstream, resp)
}

// admit decides by the request target as it was sent: a target that is not,
// byte for byte, one of ours has no second reading that could be.
func (g *Gateway) admit(r *http.Request) (target, *responses.Error) {
	if r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect {
		return target{}, forbidden("connections can't be upgraded or tunnelled")
	}
	t, ok := g.routes[r.RequestURI]
	if ok && r.Method == t.method {
		return t, nil
	}
	if ok {
		return target{}, forbidden(fmt.Sprintf("only %s is allowed on %s", t.method, r.RequestURI))
	}
	if strings.ContainsAny(r.RequestURI, "?%\\#") || !strings.HasPrefix(r.RequestURI, "/") || strings.Contains(r.RequestURI, "//") || strings.Contains(r.RequestURI, "/.") {
		return target{}, forbidden(fmt.Sprintf("the target %.100q is not a plain path", r.RequestURI))
	}
	if up, ok := g.providerOf(r.RequestURI); ok {
		return target{}, responses.NotFound("path", responses.CodeNotFound,
			fmt.Sprintf("%.100q is not among the calls allowed to provider %s", r.RequestURI, up.name))
	}
	e := forbidden(fmt.Sprintf("no provider for %.100q is configured on the host", r.RequestURI))
	e.Hint = "configured: " + strings.Join(g.Providers(), ", ")
	if len(g.upstreams) == 0 {
		e.Hint = "start holon with the provider's API key set"
	}
	return target{}, e
}

func forbidden(message string) *responses.Error {
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeForbidden, Message: message}
}

func tooLarge() *responses.Error {
	return responses.Invalid("body", responses.CodeRequestTooLarge, fmt.Sprintf("the request has more than %d bytes", maxBody))
}

// noteRefusal counts and logs. A container can make any number of refused
// requests, so only the first of a server is a warning.
func (s *Server) noteRefusal(r *http.Request, refusal *responses.Error) {
	level := s.log.Debug
	if s.refused.Add(1) == 1 {
		level = s.log.Warn
	}
	level("request refused", "method", fmt.Sprintf("%.20q", r.Method), "target", fmt.Sprintf("%.100q", r.RequestURI), "err", refusal.Message)
}

// refuse answers a request that goes nowhere and would not if it came again.
// What is left of its body is not read, so the connection can't go on.
func refuse(w http.ResponseWriter, refusal *responses.Error) {
	w.Header().Set("Connection", "close")
	w.Header().Set("X-Should-Retry", "false")
	writeError(w, refusal.Status(), refusal)
}

// failed answers a request that got no answer from the provider.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, up *upstream, err error) {
	meter := s.meters[up.name]
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		meter.refused.Add(1)
		refuse(w, tooLarge())
		return
	}
	if r.Context().Err() != nil { // the client is gone or we are closing: nobody reads an answer
		panic(http.ErrAbortHandler)
	}
	meter.failed.Add(1)
	s.log.Warn("provider can't be reached", "provider", up.name, "err", up.errors.text(err.Error()))
	writeError(w, http.StatusBadGateway, &responses.Error{
		Type: responses.TypeServerError, Code: responses.CodeProviderUnavailable,
		Message: fmt.Sprintf("provider %s can't be reached from the host", up.name),
	})
}

// relay passes the provider's answer on.
func (s *Server) relay(w http.ResponseWriter, up *upstream, resp *http.Response) {
	meter := s.meters[up.name]
	body := &countingReader{reader: resp.Body, count: &meter.received}
	if fault := unusable(resp); fault != "" {
		meter.failed.Add(1)
		s.log.Warn("provider's answer refused", "provider", up.name, "status", resp.StatusCode, "err", fault)
		writeError(w, http.StatusBadGateway, &responses.Error{Type: responses.TypeServerError, Code: responses.CodeProviderUnavailable,
			Message: fmt.Sprintf("provider %s sent %s", up.name, fault)})
		return
	}
	w.Header()["Content-Type"] = nil // none is guessed where the provider says none
	for _, name := range returnedHeaders() {
		if value := resp.Header.Get(name); value != "" {
			w.Header().Set(name, up.errors.text(value))
		}
	}
	if resp.StatusCode >= 400 {
		meter.failed.Add(1)
		s.relayError(w, up, resp.StatusCode, body)
		return
	}
	w.WriteHeader(resp.StatusCode)
	if err := stream(w, body, &scrubber{redactor: up.streams}); err != nil {
		s.log.Debug("answer cut off", "provider", up.name, "err", up.errors.text(err.Error()))
		panic(http.ErrAbortHandler) // the client must see that the answer is not whole
	}
}

// unusable says what is wrong with an answer that must not be passed on.
func unusable(resp *http.Response) string {
	if resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return fmt.Sprintf("a redirect or upgrade (status %d), which is never followed", resp.StatusCode)
	}
	// Keys could not be found in it.
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return "a compressed answer that nobody asked for"
	}
	return ""
}

// relayError passes a provider's error on: whole when it is small, as an error
// of ours with the same status when it is not.
func (s *Server) relayError(w http.ResponseWriter, up *upstream, status int, body io.Reader) {
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBody+1))
	s.log.Debug("provider answered with an error", "provider", up.name, "status", status)
	if err != nil || len(text) > maxErrorBody {
		writeError(w, status, &responses.Error{Type: responses.TypeModelError, Code: responses.CodeModelError,
			Message: fmt.Sprintf("provider %s answered with status %d and a body of no use", up.name, status)})
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(up.errors.redact(text)) // a client that is gone needs no answer
}

// stream copies body to w, sending on each piece as soon as it is there.
func stream(w http.ResponseWriter, body io.Reader, scrub *scrubber) error {
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil { // the status goes first: the model may think for long
		return fmt.Errorf("send the status: %w", err)
	}
	buffer := make([]byte, bufferSize)
	for {
		n, readErr := body.Read(buffer)
		out := scrub.next(buffer[:n])
		if readErr == io.EOF {
			out = append(out[:len(out):len(out)], scrub.rest()...)
		}
		if len(out) > 0 {
			if _, err := w.Write(out); err != nil {
				return fmt.Errorf("write to the container: %w", err)
			}
			if err := control.Flush(); err != nil {
				return fmt.Errorf("write to the container: %w", err)
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("read from the provider: %w", readErr)
		}
	}
}

// writeError sends e with the given status.
func writeError(w http.ResponseWriter, status int, e *responses.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(e.Envelope()) // a client that is gone needs no answer
}
