package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"holon/responses"
	"holon/state"
	"holon/state/ledger"
)

// Codes of errors of the control plane itself.
const (
	CodeInvalidJSON      state.Code = "invalid_json"
	CodeInvalidValue     state.Code = "invalid_value" // Param names the field
	CodeMissingField     state.Code = "missing_field"
	CodeUnknownField     state.Code = "unknown_field"
	CodeAuthorityClaimed state.Code = "authority_not_accepted" // Param: trust, authority_class, origin, kind, surface
	CodeUnsupportedMedia state.Code = "unsupported_media_type"
	CodeTooLarge         state.Code = "request_too_large"
	CodeRange            state.Code = "range_not_satisfiable"
	CodeTimeout          state.Code = "request_timeout"
	CodeNoRoute          state.Code = "no_such_route"
	CodeMethod           state.Code = "method_not_allowed"
	CodeUnauthorized     state.Code = "unauthorized"
	CodeForbidden        state.Code = "forbidden"
	CodeBusy             state.Code = "busy" // come back after Retry-After
	CodeNotReady         state.Code = responses.CodeNotReady
	CodeDraining         state.Code = "runtime_shutting_down"
	CodeContainer        state.Code = "container_unavailable" // for now; Message says why
	CodeUnusable         state.Code = "container_unusable"    // until a setting changes; Message says which
	CodeInternal         state.Code = "internal_error"
	CodeUnreachable      state.Code = "daemon_unreachable"  // of a client, never of a server
	CodeDisconnected     state.Code = "daemon_disconnected" // likewise
	CodeBadAnswer        state.Code = "daemon_bad_answer"   // likewise
)

// statusByCode is the one table of codes and their HTTP statuses. The codes of
// other packages stand as words, since a client knows none of them.
var statusByCode = map[state.Code]int{
	CodeInvalidJSON: 400, CodeInvalidValue: 400, CodeMissingField: 400, CodeUnknownField: 400,
	CodeUnauthorized: 401,
	CodeForbidden:    403, CodeAuthorityClaimed: 403,
	CodeNoRoute: 404, CodeMethod: 405, CodeTimeout: 408, CodeTooLarge: 413, CodeUnsupportedMedia: 415, CodeRange: 416,
	CodeBusy: 429, CodeInternal: 500,
	CodeNotReady: 503, CodeDraining: 503, CodeContainer: 502, CodeUnusable: 409,

	ledger.CodeNotFound: 404, ledger.CodeConflict: 409, ledger.CodeExists: 409, ledger.CodeTooLarge: 413,
	ledger.CodeLocked: 503, ledger.CodeUnreadable: 500, ledger.CodeLedgerFull: 507, ledger.CodeLedgerEnded: 503,
	ledger.CodeLedgerAway: 503, ledger.CodeElsewhere: 503, ledger.CodeLeaseLost: 503,
	"store_unavailable": 503, "store_denied": 503, "store_full": 503, "store_damaged": 503, "store_lease_lost": 503,
	"store_url": 503, "store_of_another": 503, "store_too_large": 507, "store_not_loaded": 503,

	"agent_stopped": 409, "agent_private": 403, "invalid_message": 400, "idempotency_conflict": 409, "queue_full": 429,
	"no_current_run": 409, "not_queued": 409, "run_mismatch": 409, "trigger_unknown": 404,
	"signature_invalid": 401, "trigger_limit_reached": 409,
	"invalid_timer": 400, "invalid_agent": 400, "invalid_binding": 400,
	"invalid_query": 400, "invalid_work_item": 400, "work_limit_reached": 409, "work_item_completed": 409,
	ledger.CodeInvalidTask: 400, "task_limit_reached": 409,
	"default_agent": 409, "agent_busy": 409, "agent_archived": 409,

	"invalid_workspace": 400, "workspace_nested": 409, "workspace_active": 409, "workspace_limit_reached": 409,
	"workspace_failed": 500, "not_a_directory": 400, "bare_repository": 400, "broken_repository": 400,
	"unsafe_ownership": 400, "leads_elsewhere": 400, "foreign_objects": 400, "missing_objects": 409,
	"unsafe_path": 409, "patch_conflict": 409, "would_overwrite": 409, "executed_files": 409,
	"diff_outdated": 409, "changed_meanwhile": 409, "tree_gone": 409, "merge_conflict": 409, "workspace_not_allowed": 403,
	"not_a_repository": 400, "nothing_changed": 409,
	"branch_exists": 409, "path_exists": 409, "checked_out": 409, "permission_denied": 409, "disk_full": 507,

	CodeStopped: 409, CodeBlocked: 409, CodeUnsupported: 501, CodeReadOnly: 501, CodeInvalid: 400, CodeUnavailable: 503,

	"session_not_found": 404, "session_closed": 409, "session_conflict": 409, "session_limit": 429, "no_workspace": 409,
	"session_busy": 409, "tree_not_kept": 409,

	"template_not_found": 404, "template_invalid": 400, "template_fetch_failed": 400,
	"template_skill_unavailable": 400, "agent_home_unusable": 500,
}

// retryable are the codes after which the same request may work by itself.
var retryable = map[state.Code]bool{
	CodeBusy: true, CodeNotReady: true, CodeDraining: true, CodeTimeout: true, "queue_full": true, "session_limit": true,
	CodeUnavailable: true, CodeContainer: true, ledger.CodeLocked: true, ledger.CodeLedgerFull: true,
	ledger.CodeLedgerAway: true, ledger.CodeLeaseLost: true, ledger.CodeElsewhere: true,
	"store_unavailable": true, "store_full": true, "store_not_loaded": true,
}

// Status returns the HTTP status that carries an error with a code. A code that
// the table does not know is the server's fault: 500.
func Status(code state.Code) int {
	if s, ok := statusByCode[code]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Retryable reports whether the same request may work later without a change.
func Retryable(code state.Code) bool { return retryable[code] }

// Codes returns the codes of the table, in no order.
func Codes() []state.Code {
	out := make([]state.Code, 0, len(statusByCode))
	for code := range statusByCode {
		out = append(out, code)
	}
	return out
}

// Failure is the body of an error answer.
type Failure struct {
	OK    bool        `json:"ok"` // false
	Error FailureInfo `json:"error"`
}

// FailureInfo is an error for programs and for people.
type FailureInfo struct {
	Code      state.Code `json:"code"`
	Message   string     `json:"message"`
	Param     string     `json:"param,omitempty"`
	Hint      string     `json:"hint,omitempty"`
	Retryable bool       `json:"retryable"`
}

// Explain returns the answer to a client for err, and its HTTP status. Of an error that has no code of the table it
// says only that it is internal; known is false then, and the log has to have it.
func Explain(err error) (f Failure, status int, known bool) {
	e, ok := errors.AsType[*state.Error](err)
	if ok {
		_, ok = statusByCode[e.Code]
	}
	if !ok && errors.Is(err, context.DeadlineExceeded) {
		e, ok = &state.Error{Code: CodeTimeout, Message: "the request took too long", Hint: "try again"}, true
	}
	if !ok {
		e = &state.Error{Code: CodeInternal, Message: "internal error",
			Hint: "the runtime's log has the details: holon daemon logs"}
	}
	return Failure{Error: FailureInfo{Code: e.Code, Message: e.Message, Param: e.Param, Hint: e.Hint,
		Retryable: Retryable(e.Code)}}, Status(e.Code), ok
}

// DecodeFailure reads the body of an error answer. A body that is none becomes an error with CodeBadAnswer.
func DecodeFailure(status int, body []byte) *state.Error {
	var f Failure
	if err := json.Unmarshal(body, &f); err != nil || f.Error.Code == "" || f.Error.Message == "" {
		return &state.Error{Code: CodeBadAnswer,
			Message: "the daemon answered " + http.StatusText(status) + " without saying why",
			Hint:    "check that what answers is holon, of this version"}
	}
	return &state.Error{Code: f.Error.Code, Message: f.Error.Message, Param: f.Error.Param, Hint: f.Error.Hint}
}
