package stream

import (
	"bytes"
	"mime"
	"strings"

	"github.com/tmaxmax/go-sse"

	"holon/responses"
)

// Framing is a way to put events on a wire.
type Framing uint8

// The framings. SSE is what a stream has unless the client asked for NDJSON
// with "Accept: application/x-ndjson".
const (
	SSE Framing = iota
	NDJSON
)

// Media types of the framings.
const (
	TypeSSE    = "text/event-stream"
	TypeNDJSON = "application/x-ndjson"
)

// ping is the heartbeat of an SSE stream: a comment and a single line end. A
// blank line after it would make some clients dispatch an empty event.
const ping = ": ping\n"

// ContentType returns the media type of f.
func (f Framing) ContentType() string {
	if f == NDJSON {
		return TypeNDJSON
	}
	return TypeSSE
}

// Accepted returns the framing that the Accept header of a streaming request
// asks for. Only an explicit application/x-ndjson gives NDJSON: SDKs send
// "application/json" and still expect server-sent events.
func Accepted(accept string) Framing {
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil || media != TypeNDJSON {
			continue
		}
		if q := params["q"]; q == "" || strings.Trim(q, "0.") != "" {
			return NDJSON
		}
	}
	return SSE
}

// Append appends encoded events to dst in framing f. lines holds whole lines of
// JSON, as an event log has them; the line end after the last is optional.
func (f Framing) Append(dst, lines []byte) []byte {
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if len(line) == 0 {
			continue
		}
		if f == SSE {
			dst = AppendEvent(dst, "", responses.EventType(line), line)
		} else {
			dst = append(append(dst, line...), '\n')
		}
	}
	return dst
}

// AppendEnd appends what follows the terminal event: [DONE] in SSE, nothing in
// NDJSON.
func (f Framing) AppendEnd(dst []byte) []byte {
	if f == SSE {
		return AppendEvent(dst, "", "", []byte(done))
	}
	return dst
}

// AppendPing appends a heartbeat: a comment in SSE, nothing in NDJSON, which
// has no way to say nothing.
func (f Framing) AppendPing(dst []byte) []byte {
	if f == SSE {
		return append(dst, ping...)
	}
	return dst
}

// AppendEvent appends a server-sent event of any protocol. An id or a type that is empty or has a line end is left out.
// Each line of data becomes a data field, so that nothing in it can pass for another field or event.
func AppendEvent(dst []byte, id, eventType string, data []byte) []byte {
	var m sse.Message
	if id != "" {
		m.ID, _ = sse.NewID(id)
	}
	if eventType != "" {
		m.Type, _ = sse.NewType(eventType)
	}
	m.AppendData(string(data))
	b := bytes.NewBuffer(dst)
	_, _ = m.WriteTo(b) // a buffer takes every write
	return b.Bytes()
}
