package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"holon/internal/redact"
	"holon/responses"
)

const bufferSize = 32 << 10

// relay passes the provider's answer on. reading, where there is one, is fed all
// of it.
func (s *Server) relay(w http.ResponseWriter, r *http.Request, up *upstream, resp *http.Response,
	reading *usageReader) {
	if fault := unusable(resp); fault != "" {
		s.log.Warn("provider's answer refused", "provider", up.name, "status", resp.StatusCode, "err", fault)
		writeError(w, http.StatusBadGateway, &responses.Error{Type: responses.TypeServerError,
			Code: responses.CodeProviderUnavailable, Message: fmt.Sprintf("provider %s sent %s", up.name, fault)})
		return
	}
	w.Header()["Content-Type"] = nil // none is guessed where the provider says none
	keys := up.keys.matcher(minErrorSecret)
	for _, name := range returnedHeaders() {
		if value := resp.Header.Get(name); value != "" {
			w.Header().Set(name, keys.Text(value))
		}
	}
	if resp.StatusCode >= 400 {
		s.relayError(w, up, resp.StatusCode, resp.Body)
		return
	}
	w.WriteHeader(resp.StatusCode)
	if err := pass(w, resp.Body, redact.NewStream(up.keys.matcher(minStreamSecret)), reading); err != nil {
		s.log.Debug("answer cut off", "provider", up.name, "err", up.keys.hide(err.Error()))
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
		return "a compressed answer that was not asked for"
	}
	return ""
}

// pass copies body to w, sending on each piece as soon as it is there.
func pass(w http.ResponseWriter, body io.Reader, scrub *redact.Stream, reading *usageReader) error {
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil { // the status goes first: the model may think for long
		return fmt.Errorf("send the status: %w", err)
	}
	buffer := make([]byte, bufferSize)
	for {
		n, readErr := body.Read(buffer)
		reading.feed(buffer[:n])
		out := scrub.Next(buffer[:n])
		if readErr == io.EOF {
			out = append(out[:len(out):len(out)], scrub.Rest()...)
		}
		if len(out) > 0 {
			_, err := w.Write(out)
			if err == nil {
				err = control.Flush()
			}
			if err != nil {
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
