package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"holon/internal/bounded"
	"holon/internal/providers"
	"holon/responses"
)

const maxErrorBody = 64 << 10

func forbidden(message string) *responses.Error {
	return &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeForbidden, Message: message}
}

func tooLarge() *responses.Error {
	return responses.Invalid("body", responses.CodeRequestTooLarge,
		fmt.Sprintf("the request has more than %d bytes", maxBody))
}

// noteRefusal logs. A container can make any number of refused
// requests, so only the first of a server is a warning.
func (s *Server) noteRefusal(r *http.Request, refusal *responses.Error) {
	level := s.log.Debug
	if !s.warned.Swap(true) {
		level = s.log.Warn
	}
	level("request refused", "method", fmt.Sprintf("%.20q", r.Method), "target", fmt.Sprintf("%.100q", r.RequestURI),
		"err", refusal.Message)
}

// refuse answers a request that goes nowhere and would not if it were repeated. The
// rest of its body is not read, so the connection cannot be reused.
func refuse(w http.ResponseWriter, refusal *responses.Error) {
	w.Header().Set("Connection", "close")
	w.Header().Set("X-Should-Retry", "false")
	writeError(w, refusal.Status(), refusal)
}

// failed answers a request that got no answer from the provider.
func (s *Server) failed(ctx context.Context, w http.ResponseWriter, up *upstream, lease *Lease, err error) {
	if ctx.Err() != nil { // the client is gone, its turn is over or the server closes: an answer would not be read
		panic(http.ErrAbortHandler)
	}
	s.log.Info("provider can't be reached", "provider", up.name, "err", up.keys.hide(err.Error()))
	lease.ledger.trouble(up.unreachable(err))
	if providers.Permanent(err) {
		w.Header().Set("X-Should-Retry", "false")
	}
	cause, _ := json.Marshal(providers.CauseOf(err, up.keys.hide)) // texts always have a form, in ASCII or escaped
	w.Header().Set(providers.GatewayHeader, string(cause))
	writeError(w, http.StatusBadGateway, &responses.Error{
		Type: responses.TypeServerError, Code: responses.CodeProviderUnavailable,
		Message: fmt.Sprintf("provider %s can't be reached from the host: %s", up.name, up.keys.hide(reason(err))),
	})
}

// keyless answers a request for which no key is available. Only the host is told why.
func (s *Server) keyless(w http.ResponseWriter, up *upstream, lease *Lease, err error) {
	s.log.Info("no key for the provider", "provider", up.name, "err", up.keys.hide(err.Error()))
	lease.ledger.trouble(up.keyless(err))
	w.Header().Set("X-Should-Retry", "false")
	writeError(w, http.StatusBadGateway, &responses.Error{
		Type: responses.TypeServerError, Code: responses.CodeMissingCredentials,
		Message: fmt.Sprintf("the host has no usable key for provider %s", up.name), Hint: "its log says why",
	})
}

// relayError passes a provider's error on: whole when it is small, as an error
// of ours with the same status when it is not.
func (s *Server) relayError(w http.ResponseWriter, up *upstream, status int, body io.Reader) {
	text, err := bounded.ReadAll(body, maxErrorBody)
	s.log.Debug("provider answered with an error", "provider", up.name, "status", status)
	if err != nil {
		e := responses.Error{Type: responses.TypeModelError, Code: responses.CodeModelError,
			Message: fmt.Sprintf("provider %s answered with status %d and a body of no use", up.name, status)}
		w.Header().Set("Content-Type", "application/json")
		text = e.Envelope()
	}
	w.WriteHeader(status)
	_, _ = w.Write(up.keys.matcher(minErrorSecret).Redact(text)) // a client that is gone needs no answer
}

// writeError sends e, an error of the gateway's own, with the given status.
func writeError(w http.ResponseWriter, status int, e *responses.Error) {
	w.Header().Set("Content-Type", "application/json")
	if w.Header().Get(providers.GatewayHeader) == "" {
		w.Header().Set(providers.GatewayHeader, "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(e.Envelope()) // a client that is gone needs no answer
}
