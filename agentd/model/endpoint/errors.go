package endpoint

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/agentd/model"
	"holon/internal/providers"
	"holon/responses"
)

// maxMessage bounds the provider's text in an error, in bytes.
const maxMessage = 400

// Failure is a provider's error: in an error answer, in an error event, and in a
// failed response. Any field may be missing or null.
type Failure struct {
	Type    string
	Code    any // a string; a number with some servers
	Message string
}

func (f Failure) code() string {
	if s, ok := f.Code.(string); ok {
		return s
	}
	return ""
}

// status returns the HTTP status that some servers send as the code, 0 for none.
func (f Failure) status() int {
	var n int
	switch code := f.Code.(type) {
	case float64:
		n = int(code)
	case string:
		n, _ = strconv.Atoi(code) // a word gives 0
	}
	if n < 400 || n > 599 {
		return 0
	}
	return n
}

// statusError classifies an answer with an error status (runtime
// specification, "Current retry policy").
func statusError(status int, header http.Header, body []byte) *model.Error {
	f := DecodeFailure(body)
	if header.Get(providers.GatewayHeader) != "" {
		return gatewayError(status, header, f)
	}
	e := ofStatus(status)
	e.RetryAfter = retryAfter(header)
	e.Permanent = e.Permanent || header.Get("X-Should-Retry") == "false"
	refine(e, f)
	return finish(e, strings.TrimSpace(fmt.Sprintf("the provider answered %d %s", status, http.StatusText(status))),
		f.Message)
}

// gatewayError classifies what the host's gateway says itself: the provider answered nothing, so there is no status.
func gatewayError(status int, header http.Header, f Failure) *model.Error {
	e := ofStatus(status)
	e.Status, e.Permanent, e.RetryAfter = 0, header.Get("X-Should-Retry") == "false", retryAfter(header)
	refine(e, f)
	switch f.code() {
	case responses.CodeProviderUnavailable:
		e.Kind, e.Code = model.KindTransport, responses.CodeProviderUnavailable
	case responses.CodeMissingCredentials:
		e.Kind, e.Code = model.KindAuthentication, responses.CodeMissingCredentials
	}
	e.Message = cmp.Or(f.Message, "the host's gateway refused the request")
	return e
}

func ofStatus(status int) *model.Error {
	e := &model.Error{Status: status}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind, e.Code = model.KindAuthentication, responses.CodeProviderAuthentication
	case status == http.StatusTooManyRequests:
		e.Kind, e.Code = model.KindRateLimited, responses.CodeRateLimit
	case status == http.StatusPaymentRequired:
		// waiting does not add credit
		e.Kind, e.Code, e.Permanent = model.KindRateLimited, responses.CodeRateLimit, true
	case status == http.StatusRequestEntityTooLarge:
		e.Kind, e.Code = model.KindContextLength, responses.CodeContextLength
	case status == http.StatusRequestTimeout:
		e.Kind, e.Code = model.KindTransport, responses.CodeProviderUnavailable
	case status >= 500:
		e.Kind, e.Code = model.KindOverloaded, responses.CodeProviderUnavailable
		// These are permanent.
		e.Permanent = status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
	case status >= 400:
		e.Kind, e.Code = model.KindInvalidRequest, responses.CodeModelError
	default: // a redirect, or a success without content
		e.Kind, e.Code = model.KindProtocol, responses.CodeModelError
	}
	return e
}

// meanings are the codes and types with which providers report a failure in a
// stream. The first row that has the code or the type is used.
var meanings = []struct {
	kind  model.ErrorKind
	code  string
	words []string
}{
	{model.KindRateLimited, responses.CodeRateLimit,
		[]string{"rate_limit_exceeded", "too_many_requests", "rate_limit_error"}},
	{model.KindAuthentication, responses.CodeProviderAuthentication,
		[]string{"authentication_error", "permission_error"}},
	{model.KindInvalidRequest, responses.CodeModelError,
		[]string{"not_found_error", "invalid_request_error", "invalid_request"}},
	{model.KindOverloaded, responses.CodeProviderUnavailable,
		[]string{"server_error", "server_is_overloaded", "slow_down",
			"overloaded_error", "api_error", "timeout_error"}},
}

// EventError classifies a failure that a stream reports.
func EventError(f Failure) *model.Error {
	var e *model.Error
	if status := f.status(); status != 0 {
		e = ofStatus(status)
	} else {
		e = ofWords(f.code(), f.Type)
	}
	refine(e, f)
	return finish(e, "the provider failed while it answered", f.Message)
}

// ofWords returns the error for a code and a type; unknown ones are not repeated.
func ofWords(code, kind string) *model.Error {
	for _, m := range meanings {
		if slices.Contains(m.words, code) || slices.Contains(m.words, kind) {
			return &model.Error{Kind: m.kind, Code: m.code}
		}
	}
	if strings.HasPrefix(code, "invalid_") || strings.HasSuffix(code, "_policy") {
		return &model.Error{Kind: model.KindInvalidRequest, Code: responses.CodeModelError}
	}
	return &model.Error{Kind: model.KindOverloaded, Code: responses.CodeModelError, Permanent: true}
}

// refine lets a provider's code override the status.
func refine(e *model.Error, f Failure) {
	switch code := f.code(); {
	case code == responses.CodeBudgetExceeded: // the host's gateway
		e.Kind, e.Code, e.Permanent = model.KindBudget, responses.CodeBudgetExceeded, true
	case code == "context_length_exceeded" || f.Type == "exceed_context_size_error" || tooLong.MatchString(f.Message):
		e.Kind, e.Code = model.KindContextLength, responses.CodeContextLength
	case code == "insufficient_quota" || f.Type == "insufficient_quota" || f.Type == "billing_error" ||
		noMoney.MatchString(f.Message):
		// waiting does not add credit
		e.Kind, e.Code, e.Permanent = model.KindRateLimited, responses.CodeRateLimit, true
	case code == "model_not_found" || f.Type == "not_found_error" && strings.HasPrefix(f.Message, "model:"):
		e.Kind, e.Code = model.KindInvalidRequest, responses.CodeModelNotFound
	}
}

// tooLong matches the messages of providers without a code for a conversation that
// is too long.
var tooLong = regexp.MustCompile(
	`(?i)context (length|limit|window|size)|maximum prompt length|(prompt|input) is too long`)

// noMoney matches the message of a provider without a code for missing credit.
var noMoney = regexp.MustCompile(`(?i)credit balance is too low`)

// finish fills in what the provider says of its error: why, and when to ask again where no header says that.
func finish(e *model.Error, what, words string) *model.Error {
	e.RetryAfter = cmp.Or(e.RetryAfter, wishIn(words))
	e.Message = what
	if words != "" {
		e.Message += ": " + words
	}
	return e
}

// retryAfter reads the provider's Retry-After: milliseconds, seconds or a date.
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

// wish matches what the messages of providers say of when to ask again: "try again in 1.8s", "in 6m0.5s", "retry after
// 30 seconds".
var wish = regexp.MustCompile(
	`(?i)\b(?:try again|retry|wait)\b[^\d.,;]{0,20}?` +
		`((?:\d+(?:\.\d+)?(?:ms|h|m|s))+|\d+(?:\.\d+)? ?(?:millisecond|second|minute|hour))(?:s|\b)`)

// wishUnits are the units that wish has in full.
var wishUnits = strings.NewReplacer(" ", "", "millisecond", "ms", "second", "s", "minute", "m", "hour", "h")

// wishIn returns how long a message asks to wait, 0 when it does not.
func wishIn(message string) time.Duration {
	found := wish.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	d, err := time.ParseDuration(wishUnits.Replace(strings.ToLower(found[1])))
	if err != nil { // more than a duration can be
		return 0
	}
	return d
}

// credential matches text that looks like a key.
var credential = regexp.MustCompile(`(?i)\b(sk|rk|pk|sess|key)-[a-z0-9_*-]{6,}|\bbearer\s+\S+`)

// clean makes the message of an error one bounded line without secrets, in place.
func (e *Endpoint) clean(failed *model.Error) *model.Error {
	failed.Message = e.line(failed.Message)
	return failed
}

// line returns text as one bounded line without secrets.
func (e *Endpoint) line(text string) string {
	for _, secret := range e.secrets {
		if len(secret) >= 4 { // a shorter one may be part of any word
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	text = credential.ReplaceAllString(text, "[redacted]")
	text = strings.Join(strings.Fields(strings.Map(printable, strings.ToValidUTF8(text, "\uFFFD"))), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return ' '
}
