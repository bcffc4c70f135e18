package agentd

import (
	"fmt"
	"net/http"
	"strings"

	"holon/internal/tracecontext"
	"holon/responses"
)

// origin says where a request for a turn came from, and holds what came with it
// outside its body.
type origin struct {
	source string            // responses, websocket, sourceRun
	token  string            // of the turn at the host's gateway and tools; in no record, log or error
	above  tracecontext.Span // the span in which the turn was asked for; zero for none
}

// sourceRun is the source of the one turn of `agentd run`.
const sourceRun = "run"

// maxModelToken bounds the token of a turn in bytes.
const maxModelToken = 512

// modelToken returns the token with which the turn of a request may ask models
// through the host's gateway and call its tools, "" when there is none.
func modelToken(h http.Header) (string, error) {
	values := h.Values(responses.HeaderModelToken)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || values[0] == "" {
		return "", badModelToken(responses.HeaderModelToken)
	}
	return values[0], checkModelToken(responses.HeaderModelToken, values[0])
}

// checkModelToken refuses what cannot be a token, of the parameter param.
func checkModelToken(param, token string) error {
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if len(token) > maxModelToken || strings.ContainsFunc(token, unprintable) {
		return badModelToken(param)
	}
	return nil
}

func badModelToken(param string) error {
	return responses.Invalid(param, responses.CodeInvalidValue,
		fmt.Sprintf("%s must be one value of 1 to %d printable ASCII characters", param, maxModelToken))
}

// spanOf returns the span in which a request was made. As the standard says, a header that is malformed or comes twice
// counts as none.
func spanOf(h http.Header) tracecontext.Span {
	if values := h.Values(tracecontext.Header); len(values) == 1 {
		return tracecontext.Parse(values[0])
	}
	return tracecontext.Span{}
}
