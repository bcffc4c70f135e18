package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"holon/agentd/model"
	"holon/responses"
)

// maxMessage bounds what an error repeats of a provider's words, in bytes.
const maxMessage = 400

// wireFailure is a provider's error: in an error answer, in an error event, and
// in a failed response. Providers leave out or null what they please.
type wireFailure struct {
	Type    string `json:"type"`
	Code    any    `json:"code"` // a string; a number with some servers
	Message string `json:"message"`
}

func (f wireFailure) code() string {
	if s, ok := f.Code.(string); ok {
		return s
	}
	return ""
}

// statusError classifies an answer with an error status (runtime
// specification, "Current retry policy").
func statusError(status int, header http.Header, body []byte) *model.Error {
	f := decodeFailure(body)
	e := &model.Error{Status: status, RetryAfter: retryAfter(header)}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind, e.Code = model.KindAuthentication, responses.CodeProviderAuthentication
	case status == http.StatusTooManyRequests:
		e.Kind, e.Code = model.KindRateLimited, responses.CodeRateLimit
	case status == http.StatusRequestTimeout:
		e.Kind, e.Code = model.KindTransport, responses.CodeProviderUnavailable
	case status >= 500:
		e.Kind, e.Code = model.KindOverloaded, responses.CodeProviderUnavailable
	case status >= 400:
		e.Kind, e.Code = model.KindInvalidRequest, responses.CodeModelError
	default: // a redirect, or a success that is no stream
		e.Kind, e.Code = model.KindProtocol, responses.CodeModelError
	}
	refine(e, f)
	return finish(e, fmt.Sprintf("the provider answered %d %s", status, http.StatusText(status)), f.Message)
}

// eventError classifies a failure that a stream reports.
func eventError(f wireFailure) *model.Error {
	e := &model.Error{Kind: model.KindOverloaded, Code: responses.CodeProviderUnavailable}
	switch code := f.code(); {
	case code == "rate_limit_exceeded" || f.Type == "too_many_requests":
		e.Kind, e.Code = model.KindRateLimited, responses.CodeRateLimit
	case f.Type == "invalid_request_error" || f.Type == "invalid_request" || strings.HasPrefix(code, "invalid_") || strings.HasSuffix(code, "_policy"):
		e.Kind, e.Code = model.KindInvalidRequest, responses.CodeModelError
	case code == "server_error" || code == "server_is_overloaded" || code == "slow_down" || f.Type == "server_error":
	default:
		e.Code, e.Permanent = responses.CodeModelError, true // unknown: do not make it worse
	}
	refine(e, f)
	return finish(e, "the provider failed while it answered", f.Message)
}

// refine lets a provider's code override what the status says.
func refine(e *model.Error, f wireFailure) {
	text := strings.ToLower(f.Message)
	switch code := f.code(); {
	case code == "context_length_exceeded" || strings.Contains(text, "context length") || strings.Contains(text, "context window"):
		e.Kind, e.Code = model.KindContextLength, responses.CodeContextLength
	case code == "insufficient_quota" || f.Type == "insufficient_quota":
		e.Kind, e.Code, e.Permanent = model.KindRateLimited, responses.CodeRateLimit, true // no pause brings money
	case code == "model_not_found":
		e.Kind, e.Code = model.KindInvalidRequest, responses.CodeModelNotFound
	}
}

func finish(e *model.Error, what, words string) *model.Error {
	e.Message = what
	if words != "" {
		e.Message += ": " + words
	}
	return e
}

// decodeFailure reads the shapes of error bodies and error events that servers
// of this API have.
// A body of another kind, such as a proxy's HTML, is not shown.
func decodeFailure(body []byte) (f wireFailure) {
	var env struct {
		Error   json.RawMessage `json:"error"`
		Code    any             `json:"code"` // of the flat form that error events have
		Message string          `json:"message"`
		Detail  any             `json:"detail"`
	}
	if json.Unmarshal(body, &env) != nil {
		return f
	}
	if json.Unmarshal(env.Error, &f) == nil && f.Message != "" {
		return f
	}
	if json.Unmarshal(env.Error, &f.Message) == nil && f.Message != "" {
		return f
	}
	f.Code, f.Message = env.Code, env.Message
	if detail, ok := env.Detail.(string); ok && f.Message == "" {
		f.Message = detail
	}
	return f
}

// retryAfter reads a provider's wish: milliseconds, seconds or a date.
func retryAfter(h http.Header) time.Duration {
	for name, unit := range map[string]time.Duration{"Retry-After-Ms": time.Millisecond, "Retry-After": time.Second} {
		v := h.Get(name)
		if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 && n < 1e9 {
			return time.Duration(n * float64(unit))
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(0, time.Until(at))
		}
	}
	return 0
}

// credential matches what looks like a key in a provider's words.
var credential = regexp.MustCompile(`(?i)\b(sk|rk|pk|sess|key)-[a-z0-9_*-]{6,}|\bbearer\s+\S+`)

// clean makes an error fit for a user: one bounded line without secrets. Errors
// of other types pass.
func (t *Transport) clean(err error) error {
	var e *model.Error
	if !errors.As(err, &e) {
		return err
	}
	msg := e.Message
	for _, secret := range t.secrets {
		if len(secret) >= 4 { // less is no secret and may be part of any word
			msg = strings.ReplaceAll(msg, secret, "[redacted]")
		}
	}
	msg = credential.ReplaceAllString(msg, "[redacted]")
	msg = strings.Join(strings.Fields(strings.Map(printable, strings.ToValidUTF8(msg, "\uFFFD"))), " ")
	if len(msg) > maxMessage {
		msg = strings.ToValidUTF8(msg[:maxMessage], "") + "…"
	}
	e.Message = msg
	return e
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return ' '
}
