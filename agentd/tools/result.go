package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"holon/responses"
)

// Kinds of errors that more than one tool can have.
const (
	KindUnknownTool   = "unknown_tool"
	KindInvalidInput  = "invalid_tool_input"
	KindInternal      = "internal_error"
	KindCanceled      = "canceled"
	KindRootViolation = "execution_root_violation"
)

// Bounds of the error receipt.
const (
	maxMessageBytes = 2 << 10
	maxHintBytes    = 1 << 10
	maxDetailBytes  = 24 << 10
	maxSummaryBytes = 1 << 10
)

// Result is the canonical envelope (RFC "Canonical Envelope Shape"). Result is
// null on an error and Error is null on a success; no key is ever absent.
type Result struct {
	ToolName    string          `json:"tool_name"`
	Status      status          `json:"status"`
	SummaryText string          `json:"summary_text"`
	Result      json.RawMessage `json:"result"`
	Error       *Error          `json:"error"`
}

// Error is the envelope's account of a failure.
type Error struct {
	Kind         string         `json:"kind"`
	Message      string         `json:"message"`
	Details      map[string]any `json:"details,omitempty"`
	RecoveryHint string         `json:"recovery_hint,omitempty"`
	Retryable    bool           `json:"retryable"`
}

// Encode returns the bytes that are kept of r: keys in a fixed order, no HTML
// escapes. What Encode wrote, decoded and encoded again, is the same bytes.
func (r Result) Encode() ([]byte, error) {
	data, err := responses.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the result of %s: %w", r.ToolName, err)
	}
	return data, nil
}

func (e *Error) Error() string { return e.Kind + ": " + e.Message }

// InvalidInput returns the error for an argument that does not fit. Field names
// the argument, hint the remedy.
func InvalidInput(field, message, hint string) *Error {
	e := &Error{Kind: KindInvalidInput, Message: message, RecoveryHint: hint}
	if field != "" {
		e.Details = map[string]any{"field": field}
	}
	return e
}

// receipt is an error as the model sees it (runtime specification, "Tool Error
// Envelope Contract").
type receipt struct {
	OK        bool            `json:"ok"`
	ToolName  string          `json:"tool_name,omitempty"`
	Kind      string          `json:"kind"`
	Message   string          `json:"message"`
	Hint      string          `json:"hint,omitempty"`
	Field     string          `json:"field,omitempty"`
	Retryable bool            `json:"retryable"`
	Details   json.RawMessage `json:"details,omitempty"`
}

// renderError returns the bounded JSON receipt of an error.
func renderError(toolName string, e *Error) string {
	r := receipt{
		ToolName: toolName, Kind: e.Kind, Retryable: e.Retryable,
		Message: Clip(e.Message, maxMessageBytes), Hint: Clip(e.RecoveryHint, maxHintBytes),
	}
	if f, ok := e.Details["field"].(string); ok {
		r.Field = Clip(f, 256)
	}
	if len(e.Details) > 0 {
		r.Details = boundDetails(e.Details)
	}
	text, err := responses.Marshal(r)
	if err != nil { // r holds strings and valid JSON only
		return fmt.Sprintf(`{"ok":false,"kind":%q,"message":"the error cannot be shown","retryable":false}`,
			KindInternal)
	}
	return string(text)
}

// boundDetails encodes details, or, when they are too large, a preview with
// their size and digest.
func boundDetails(details map[string]any) json.RawMessage {
	full, err := responses.Marshal(details)
	if err != nil {
		full = []byte(`{"unavailable":true}`)
	}
	if len(full) <= maxDetailBytes {
		return full
	}
	sum := sha256.Sum256(full)
	bounded := map[string]any{
		"preview": Clip(string(full), 2<<10), "bytes": len(full), "sha256": hex.EncodeToString(sum[:]),
	}
	if f, ok := details["field"].(string); ok {
		bounded["field"] = Clip(f, 256)
	}
	short, err := responses.Marshal(bounded)
	if err != nil {
		return json.RawMessage(`{"unavailable":true}`)
	}
	return short
}

// Clip returns valid UTF-8 of at most limit bytes: s itself, or its beginning
// and an ellipsis.
func Clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	end := max(0, limit-len(dots))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}
