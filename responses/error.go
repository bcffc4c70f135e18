package responses

import (
	"errors"
	"net/http"
	"strings"

	"holon/internal/visible"
)

// ErrorType is the coarse class of an error (Open Responses, "Errors").
type ErrorType string

// The error types of the protocol.
const (
	TypeInvalidRequest  ErrorType = "invalid_request"
	TypeNotFound        ErrorType = "not_found"
	TypeTooManyRequests ErrorType = "too_many_requests"
	TypeModelError      ErrorType = "model_error"
	TypeServerError     ErrorType = "server_error"
)

// Codes say precisely what went wrong. Clients branch on them, so they are
// part of the wire contract.
const (
	CodeInvalidJSON            = "invalid_json"
	CodeInvalidValue           = "invalid_value"
	CodeMissingParameter       = "missing_required_parameter"
	CodeUnsupportedParameter   = "unsupported_parameter"
	CodeUnsupportedMediaType   = "unsupported_media_type"
	CodeRequestTooLarge        = "request_too_large"
	CodeModelNotFound          = "model_not_found"
	CodeMissingCredentials     = "missing_credentials"
	CodePathOutsideRoot        = "path_outside_root"
	CodePreviousNotFound       = "previous_response_not_found"
	CodeCallNotFound           = "call_not_found"
	CodeItemNotFound           = "item_not_found"
	CodeTurnConflict           = "turn_conflict"
	CodeTurnNotFound           = "turn_not_found"
	CodeTurnEnded              = "turn_ended"     // too late for input
	CodeInputConflict          = "input_conflict" // the id of an input was used for another text
	CodeIdempotencyConflict    = "idempotency_conflict"
	CodeResponseInProgress     = "response_in_progress"
	CodePreviousInProgress     = "previous_response_in_progress"
	CodePreviousNotLast        = "previous_response_not_last" // of an agent, which has one conversation
	CodeAgentStopped           = "agent_stopped"
	CodeAgentArchived          = "agent_archived"
	CodeRequestTimeout         = "request_timeout"
	CodeNotFound               = "not_found"
	CodeMethodNotAllowed       = "method_not_allowed"
	CodeUnauthorized           = "unauthorized"
	CodeForbidden              = "forbidden"
	CodeQueueFull              = "queue_full"
	CodeDraining               = "server_draining"
	CodeElsewhere              = "agent_elsewhere"   // another host has the agent, or the sessions
	CodeNotReady               = "runtime_not_ready" // this host is about to have them
	CodeDiskFull               = "disk_full"
	CodeInterrupted            = "interrupted"
	CodeCancelled              = "cancelled"
	CodeDeadline               = "deadline_exceeded"
	CodeServerError            = "server_error"
	CodeServerUnreachable      = "server_unreachable"  // said by a client, never by a server
	CodeServerDisconnected     = "server_disconnected" // said by a client, never by a server
	CodeModelError             = "model_error"
	CodeContextLength          = "context_length_exceeded"
	CodeCompactionUnreadable   = "compaction_unreadable"
	CodeConnectionLimit        = "websocket_connection_limit_reached"
	CodeRateLimit              = "rate_limit_exceeded"
	CodeToolChoiceUnmet        = "tool_choice_unmet"         // the model did not call what it had to
	CodeToolNotAllowed         = "tool_not_allowed"          // the model would not stop calling what it may not
	CodeStructuredOutput       = "structured_output_invalid" // the answer does not fit text.format
	CodeScenarioInvalid        = "scenario_invalid"
	CodeScenarioDiverged       = "scenario_diverged"
	CodeScenarioNotFound       = "scenario_not_found"
	CodeProviderUnavailable    = "provider_unavailable"
	CodeProviderAuthentication = "provider_authentication"
	CodeTurnTokenRequired      = "turn_token_required" // the host's gateway passes requests of turns only
	CodeTurnTokenExpired       = "turn_token_expired"
	CodeModelNotAllowed        = "model_not_allowed"
	CodeBudgetExceeded         = "budget_exceeded"
	CodeSessionClosed          = "session_closed"   // of a host: no turn begins in the session any more
	CodeSessionConflict        = "session_conflict" // of a host: an open session has the name, and is another
	CodeSessionLimit           = "session_limit"    // of a host: a bound of what its clients may have at once
)

// statusByCode holds the codes whose HTTP status differs from their type's.
// Server and client read the same table, so an error keeps its meaning across
// the socket.
var statusByCode = map[string]int{
	CodeTurnConflict:         http.StatusConflict,
	CodeIdempotencyConflict:  http.StatusConflict,
	CodeTurnEnded:            http.StatusConflict,
	CodeInputConflict:        http.StatusConflict,
	CodeResponseInProgress:   http.StatusConflict,
	CodePreviousInProgress:   http.StatusConflict,
	CodeSessionClosed:        http.StatusConflict,
	CodeSessionConflict:      http.StatusConflict,
	CodePreviousNotLast:      http.StatusConflict,
	CodeAgentStopped:         http.StatusConflict,
	CodeAgentArchived:        http.StatusConflict,
	CodeRequestTimeout:       http.StatusRequestTimeout,
	CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	CodeRequestTooLarge:      http.StatusRequestEntityTooLarge,
	CodeUnauthorized:         http.StatusUnauthorized,
	CodeForbidden:            http.StatusForbidden,
	CodeTurnTokenRequired:    http.StatusUnauthorized,
	CodeTurnTokenExpired:     http.StatusUnauthorized,
	CodeModelNotAllowed:      http.StatusForbidden,
	CodeBudgetExceeded:       http.StatusPaymentRequired,
	CodeDraining:             http.StatusServiceUnavailable,
	CodeElsewhere:            http.StatusServiceUnavailable,
	CodeNotReady:             http.StatusServiceUnavailable,
	CodeDiskFull:             http.StatusInsufficientStorage,
	CodeServerUnreachable:    http.StatusBadGateway,
	CodeServerDisconnected:   http.StatusBadGateway,
	CodeMCPUnavailable:       http.StatusFailedDependency,
}

var statusByType = map[ErrorType]int{
	TypeInvalidRequest:  http.StatusBadRequest,
	TypeNotFound:        http.StatusNotFound,
	TypeTooManyRequests: http.StatusTooManyRequests,
	TypeModelError:      http.StatusInternalServerError,
	TypeServerError:     http.StatusInternalServerError,
}

// Error is the one error type at the protocol boundary. Message is for a
// person and never holds a secret; Hint says what to do about it; Param names
// the offending field. Cause is for the log only and never leaves the process.
//
// On the wire, code and param are always strings: one client loses the whole message when either is null.
type Error struct {
	Message string    `json:"message"`
	Type    ErrorType `json:"type"`
	Param   string    `json:"param"`
	Code    string    `json:"code"`
	Hint    string    `json:"hint,omitzero"`
	Cause   error     `json:"-"`

	// ResponseID is the id of the stored response that failed, "" for a request that was refused.
	ResponseID string `json:"response_id,omitzero"`
}

// Error returns the message, and the hint where there is one, on one line.
func (e *Error) Error() string {
	return visible.WithRemedy(e.Message, e.Hint)
}

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Cause }

// Status returns the HTTP status that carries e.
func (e *Error) Status() int {
	if s, ok := statusByCode[e.Code]; ok {
		return s
	}
	if s, ok := statusByType[e.Type]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Envelope returns the JSON body {"error":{message,type,param,code}} of an
// HTTP error answer (Open Responses, "Errors").
func (e *Error) Envelope() []byte {
	inner := *e
	inner.Message = e.Error()
	body, _ := encode(struct { // of strings only, which always encode
		Error Error `json:"error"`
	}{inner})
	return body
}

// DecodeEnvelope reads an error envelope that arrived with an HTTP status. A
// body without an envelope yields a server_error with a message that says so.
func DecodeEnvelope(status int, body []byte) *Error {
	var env struct {
		Error *Error `json:"error"`
	}
	if err := Unmarshal(body, &env); err != nil || env.Error == nil || env.Error.Message == "" {
		return &Error{Type: TypeServerError, Code: CodeServerError,
			Message: "the server answered " + http.StatusText(status) + " without an error envelope"}
	}
	e := env.Error
	e.Type = knownType(e.Type, status)
	// The hint travels inside the message for clients that only know the
	// standard shape; take it out again so that it does not appear twice.
	var ok bool
	if e.Message, ok = strings.CutSuffix(e.Message, "; "+e.Hint); !ok {
		e.Hint = ""
	}
	return e
}

// knownType maps the type of an envelope to one of ours. Other servers have
// other names for them; the HTTP status then says what is meant.
func knownType(t ErrorType, status int) ErrorType {
	if _, ok := statusByType[t]; ok {
		return t
	}
	switch {
	case status == http.StatusNotFound:
		return TypeNotFound
	case status == http.StatusTooManyRequests:
		return TypeTooManyRequests
	case status >= 400 && status < 500:
		return TypeInvalidRequest
	}
	return TypeServerError
}

// Invalid returns an invalid_request error about the named field.
func Invalid(param, code, message string) *Error {
	return &Error{Type: TypeInvalidRequest, Code: code, Message: message, Param: param}
}

// NotFound returns a not_found error about the named field.
func NotFound(param, code, message string) *Error {
	return &Error{Type: TypeNotFound, Code: code, Message: message, Param: param}
}

// Internal returns a server_error. The message must be fit for a stranger;
// cause is kept for the log.
func Internal(message string, cause error) *Error {
	return &Error{Type: TypeServerError, Code: CodeServerError, Message: message, Cause: cause}
}

// AsError returns the *Error within err, or wraps err as a server_error whose
// text does not reveal the cause. AsError(nil) is nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Internal("internal error; the server's log has the details", err)
}
