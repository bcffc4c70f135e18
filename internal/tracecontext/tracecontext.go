// Package tracecontext is the part of W3C Trace Context that a turn needs: the header traceparent, and the ids of the
// spans of a turn.
//
// The id of a span follows from its trace and from the id of what it is about. So agentd, which notes it in its facts
// and sends it to MCP servers, and the host, which makes the span, agree on it without telling each other, and a
// container cannot choose the id of a span.
//
// The header tracestate is neither kept nor sent.
package tracecontext

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Header is the name of the header, in the form of an http.Header, and MetaKey that of the member of an MCP request's
// _meta.
const (
	Header  = "Traceparent"
	MetaKey = "traceparent"
)

// Span names a span to those below it. The zero Span is none: nothing is traced.
type Span struct {
	Trace   [16]byte
	ID      [8]byte
	Sampled bool
}

// Valid reports whether s names a span.
func (s Span) Valid() bool { return s.Trace != [16]byte{} && s.ID != [8]byte{} }

// Root returns the first span of a trace that is about id.
func Root(id string) Span {
	sum := sha256.Sum256([]byte("holon trace\n" + id))
	s := Span{Trace: [16]byte(sum[:16])}
	s.ID = s.below("")
	return s
}

// Child returns the span below s that is about id. The zero Span has none.
func (s Span) Child(id string) Span {
	if s.Valid() {
		s.ID = s.below(id)
	}
	return s
}

func (s Span) below(id string) [8]byte {
	sum := sha256.Sum256(append(append([]byte("holon span\n"), s.Trace[:]...), id...))
	return [8]byte(sum[:8])
}

// TraceID returns the id of the trace in hexadecimal, "" for none.
func (s Span) TraceID() string {
	if !s.Valid() {
		return ""
	}
	return hex.EncodeToString(s.Trace[:])
}

// SpanID returns the id of the span in hexadecimal, "" for none.
func (s Span) SpanID() string {
	if !s.Valid() {
		return ""
	}
	return hex.EncodeToString(s.ID[:])
}

// String returns the value of the header, "" for none.
func (s Span) String() string {
	if !s.Valid() {
		return ""
	}
	flags := "-00"
	if s.Sampled {
		flags = "-01"
	}
	return "00-" + s.TraceID() + "-" + s.SpanID() + flags
}

// Parse reads the value of a header. As the standard says, one that is malformed counts as none, and of a later version
// the part is read that this version has.
func Parse(header string) Span {
	const size = len("00-") + 32 + len("-") + 16 + len("-01")
	if len(header) < size || header[:2] == "ff" || header[:2] == "00" && len(header) != size ||
		len(header) > size && header[size] != '-' {
		return Span{}
	}
	parts := strings.Split(header[:size], "-")
	if len(parts) != 4 || strings.ToLower(header[:size]) != header[:size] {
		return Span{}
	}
	var version, flags [1]byte
	var s Span
	for i, to := range [][]byte{version[:], s.Trace[:], s.ID[:], flags[:]} {
		if len(parts[i]) != 2*len(to) {
			return Span{}
		}
		if _, err := hex.Decode(to, []byte(parts[i])); err != nil {
			return Span{}
		}
	}
	if s.Sampled = flags[0]&1 != 0; !s.Valid() {
		return Span{}
	}
	return s
}

type key struct{}

// With returns a context of what s is about. The zero Span changes nothing.
func With(ctx context.Context, s Span) context.Context {
	if !s.Valid() {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// Of returns the span that ctx belongs to, the zero Span when there is none.
func Of(ctx context.Context) Span {
	s, _ := ctx.Value(key{}).(Span)
	return s
}
