// Package model defines the interface of a turn to a model provider: one call that
// takes the whole conversation and yields the model's output as it arrives.
//
// A [Transport] makes exactly one attempt. It does not retry, fall back or keep
// state between calls; decorators and the turn do, so that every attempt is
// visible in the record. Transports are in sub-packages, one for each provider
// protocol.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"holon/responses"
)

// Transport samples a model.
//
// Stream makes one attempt and yields its events in order: any number of
// deltas and calls, then exactly one Done as the last event. A failure is
// yielded once, as the last pair, with a zero event and an *Error. Cancelling
// ctx ends the attempt soon, with an *Error of kind KindCancelled. The caller
// may stop iterating at any time; the transport then releases what it holds.
// Implementations are safe for concurrent use.
type Transport interface {
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// Request is the whole input of a model. Input is append-only over the rounds of a
// turn and the turns of a conversation, so that providers can cache it.
type Request struct {
	Model        string // the provider's name of the model, without our provider prefix
	Instructions string
	// where in Instructions, in bytes and ascending, a prefix ends that other conversations may share
	Breakpoints       []int
	Input             []responses.Item // *ToolCall items stand for a call and its output
	Tools             []Tool
	ToolChoice        responses.ToolChoice
	ParallelToolCalls bool
	MaxOutputTokens   *int
	Temperature       float64
	TopP              float64
	PresencePenalty   float64
	FrequencyPenalty  float64
	Sampling          responses.Sampling // which of the four above to send
	Reasoning         *responses.ReasoningConfig
	Text              responses.TextConfig
	ServiceTier       string // "" or "default": leave it to the provider
	PromptCacheKey    string
	SafetyIdentifier  string
	Metadata          map[string]string
	Logprobs          bool // give the log probabilities of the text
	TopLogprobs       int  // 0 to 20 alternatives for each token

	// The rest is not for the provider.
	Purpose  Purpose  // why the model is asked
	Attempt  int      // which attempt at this sampling, from 1; 0 counts as 1. Set by Chain
	Observer Observer // of every attempt that a chain makes; may be nil

	// RetryFor is how long a chain goes on after all its attempts failed for a reason that passes; 0: not at all.
	RetryFor time.Duration

	// Retract takes back what an attempt has yielded, whose answer broke off, so that another attempt may follow. It
	// returns false where that cannot be done; nil: it never can.
	Retract func(a Attempt) bool

	// Lowering, when it is not nil, is filled in by the transport before it sends the
	// request.
	Lowering *Lowering

	// Counted, when it is not nil, is filled in by the transport as the provider counts,
	// so that an attempt without an end has a usage too.
	Counted *Counted
}

// Purpose says why a model is called. It is not sent to providers; a scripted model
// needs it to find its place in the scenario.
type Purpose uint8

const (
	// PurposeTurn is a round of a turn.
	PurposeTurn Purpose = iota
	// PurposeSummary is the summary of a conversation, outside any turn.
	PurposeSummary
)

// Tool is a function that the model may call, wherever it runs.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema object, or nil for none
	Strict      *bool
	Freeform    *Freeform // its other form, for transports that declare it; nil for none

	// StrictForm is the schema as providers demand it that promise to keep to it, for
	// transports that declare it; nil for none.
	StrictForm json.RawMessage
}

// Freeform lets a model write one argument as plain text, without the quoting of
// JSON. The events of such a call, and its item, have the argument in JSON all
// the same.
type Freeform struct {
	Argument    string // name of the string argument that the text becomes
	Description string // of the tool in this form
	Syntax      string // of Definition: "lark" or "regex"
	Definition  string
}

// EventKind says what an Event is.
type EventKind uint8

// Kinds of events. Items arrive one after the other: a Begin kind opens one and
// ends the one before it.
const (
	// MessageBegin opens an assistant message; Phase may be set.
	MessageBegin EventKind = iota + 1
	// TextDelta carries text of the message in Text.
	TextDelta
	// RefusalDelta carries refusal text of the message in Text.
	RefusalDelta
	// AnnotationAdded carries a citation of the message in Annotation.
	AnnotationAdded
	// PartEnd ends a part of the message; another follows.
	PartEnd
	// ReasoningBegin opens a reasoning item.
	ReasoningBegin
	// SummaryDelta carries text of a reasoning summary in Text.
	SummaryDelta
	// SummaryPartEnd ends a summary part; another may follow.
	SummaryPartEnd
	// ReasoningDelta carries raw reasoning in Text.
	ReasoningDelta
	// ReasoningEnd closes a reasoning item. Text carries its opaque encrypted
	// content, "" when the provider gave none.
	ReasoningEnd
	// CallBegin opens a tool call; CallID and Name are set.
	CallBegin
	// CallDelta carries argument text of the call in Text.
	CallDelta
	// CallEnd closes a tool call; Text carries the whole arguments.
	CallEnd
	// Done ends the attempt; Usage and Stop are set.
	Done
)

// Event is one piece of a model's output. It is passed by value, so that a delta
// costs no allocation of its own.
type Event struct {
	Kind       EventKind
	Text       string
	CallID     string
	Name       string
	Phase      responses.Phase
	Annotation *responses.Annotation
	Logprobs   []responses.LogProb // TextDelta: of its tokens, when they were asked for
	Stop       Stop
	Uncalled   bool   // Done: the model stopped for a call, and made none
	Reason     string // Done: why it stopped, if that is a reason of the provider's own; Stop is what it is taken for
	Usage      responses.Usage
	RequestID  string // Done: the provider's id of the request or response
}

// Stop says why a model stopped.
type Stop string

// Stop reasons.
const (
	StopEnd           Stop = "end"            // the model stopped by itself; calls may be open
	StopMaxTokens     Stop = "max_tokens"     // the output limit was hit
	StopContentFilter Stop = "content_filter" // the provider cut it short
)

// ErrorKind classifies a failed attempt, for retry rules and for the record.
type ErrorKind string

// Kinds of failure.
const (
	KindTransport      ErrorKind = "transport"       // no answer, or the stream broke
	KindProtocol       ErrorKind = "protocol"        // a malformed answer
	KindAuthentication ErrorKind = "authentication"  // 401, 403
	KindInvalidRequest ErrorKind = "invalid_request" // 400, 404, 422
	KindRateLimited    ErrorKind = "rate_limited"    // 429
	KindOverloaded     ErrorKind = "overloaded"      // 5xx
	KindContextLength  ErrorKind = "context_length"  // the conversation is too long
	KindCancelled      ErrorKind = "cancelled"       // ctx ended
	KindScenario       ErrorKind = "scenario"        // a scripted model and reality diverged
	KindTimeout        ErrorKind = "timeout"         // the attempt took longer than it may
	KindUnsupported    ErrorKind = "unsupported"     // the transport cannot do what the request needs
	KindBudget         ErrorKind = "budget"          // the host lets the turn take no more
)

// Error is a failed attempt. Message is fit for a user and holds no secret.
type Error struct {
	Kind       ErrorKind
	Code       string        // code for the response's error, from package responses
	Status     int           // HTTP status of the provider, 0 when there was none
	Message    string        // one line
	RetryAfter time.Duration // the provider's wish, 0 when it has none
	Permanent  bool          // trying again cannot help, although the kind suggests it
	Err        error         // cause, for the log

	Diagnostics *Diagnostics // how a transport found out; nil when it was no matter of transport
}

// Retryable reports whether the same request may succeed a little later
// (runtime specification, "Current retry policy").
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindTransport, KindTimeout, KindRateLimited, KindOverloaded:
		return !e.Permanent
	}
	return false
}

// Response tells a client why the model failed. Whether the fault is the
// request's or the provider's decides the type, and with it the HTTP status.
func (e *Error) Response() *responses.Error {
	out := &responses.Error{Type: responses.TypeModelError, Code: e.Code, Message: e.Message, Cause: e}
	switch e.Kind {
	case KindRateLimited, KindBudget:
		out.Type = responses.TypeTooManyRequests
	case KindInvalidRequest, KindContextLength, KindScenario, KindUnsupported:
		out.Type = responses.TypeInvalidRequest
	}
	if out.Code == "" {
		out.Code = responses.CodeModelError
	}
	return out
}

// Error returns the kind and the message on one line.
func (e *Error) Error() string { return fmt.Sprintf("model %s: %s", e.Kind, e.Message) }

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Err }
