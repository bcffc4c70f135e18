package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

const bufferSize = 32 << 10

// relay passes the provider's answer on. reading, where there is one, is fed all
// of it.
func (s *Server) relay(w http.ResponseWriter, up *upstream, resp *http.Response, conn *upstreamConn, reading *tally) {
	meter := s.meters[up.name]
	body := &countingReader{reader: resp.Body, count: &meter.received}
	if fault := unusable(resp); fault != "" {
		meter.failed.Add(1)
		s.log.Warn("provider's answer refused", "provider", up.name, "status", resp.StatusCode, "err", fault)
		s.unusable(w, up, fault)
		return
	}
	w.Header()["Content-Type"] = nil // none is guessed where the provider says none
	redact := up.keys.redact()
	for _, name := range returnedHeaders() {
		if value := resp.Header.Get(name); value != "" {
			w.Header().Set(name, redact.errors.text(value))
		}
	}
	if resp.StatusCode >= 400 {
		meter.failed.Add(1)
		s.relayError(w, up, resp.StatusCode, body)
		return
	}
	w.WriteHeader(resp.StatusCode)
	if err := stream(w, body, conn, &scrubber{redactor: redact.streams}, reading); err != nil {
		s.log.Debug("answer cut off", "provider", up.name, "err", redact.errors.text(err.Error()))
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

// stream copies body to w, sending on each piece as soon as it is there. Where
// conn says what is waiting, pieces that are there together go together.
func stream(w http.ResponseWriter, body io.Reader, conn *upstreamConn, scrub *scrubber, reading *tally) error {
	out := &outlet{w: w, control: http.NewResponseController(w)}
	if err := out.control.Flush(); err != nil { // the status goes first: the model may think for long
		return fmt.Errorf("send the status: %w", err)
	}
	if conn != nil {
		drained := out.drained
		conn.idle.Store(&drained)
		defer conn.idle.Store(nil)
	}
	buffer := make([]byte, bufferSize)
	for {
		n, readErr := out.read(body, buffer)
		ended := readErr == io.EOF
		reading.feed(buffer[:n])
		if err := out.put(scrub.next(buffer[:n]), conn == nil && !ended || readErr != nil && !ended); err != nil {
			return fmt.Errorf("write to the container: %w", err)
		}
		if ended {
			if err := out.put(scrub.rest(), true); err != nil {
				return fmt.Errorf("write to the container: %w", err)
			}
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("read from the provider: %w", readErr)
		}
	}
}
