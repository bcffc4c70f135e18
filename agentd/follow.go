package agentd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"holon/agentd/record"
	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
)

// waits says how long the server has patience with a connection. The turn goes
// on when it runs out, and the reader can come back for the rest.
type waits struct {
	heartbeat time.Duration // a stream may be silent before a heartbeat
	write     time.Duration // a write to a stalled reader may take
	body      time.Duration // a body may take before its first bytes are there
}

func defaultWaits() waits {
	return waits{heartbeat: 15 * time.Second, write: writeTimeout, body: 30 * time.Second}
}

const (
	writeTimeout = 2 * time.Minute
	maxWrite     = 1 << 20 // bytes of one write
)

// serveStream sends the turn's events after the one numbered after, as they
// become durable.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, v *view, framing stream.Framing, after int64) {
	h := w.Header()
	h.Set("Content-Type", framing.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	out := newWriter(w, s.waits)
	sent, err := out.events(r.Context(), v.journal, framing, after)
	if err != nil && r.Context().Err() == nil && !errors.Is(err, errReader) {
		s.endStream(out, v, framing, sent, err)
	}
}

// endStream gives a reader a legal end when the journal broke after the first sent
// events of it (a full disk).
func (s *Server) endStream(out *writer, v *view, framing stream.Framing, sent int64, cause error) {
	s.log.Error("the journal broke off", "request", out.w.Header().Get(headerRequestID), "err", cause)
	if lines, err := s.brokenEnd(v, sent, recordError(cause)); err == nil {
		_ = out.send(framing.AppendEnd(framing.Append(nil, lines)), true)
	}
}

// errReader marks a failed write to the client.
var errReader = errors.New("the reader is gone")

// writer sends lines to a client: one write for all that is there, and a flush
// when nothing more is waiting.
type writer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	waits waits
}

func newWriter(w http.ResponseWriter, limits waits) *writer {
	return &writer{w: w, rc: http.NewResponseController(w), waits: limits}
}

// events sends the part of a response's stream that follows the event numbered after,
// with its end mark, and returns how many events were dealt with. A
// nil error means that the stream was sent to its end. The head of the answer goes
// out at once, so that the reader knows that the request arrived.
func (o *writer) events(ctx context.Context, journal *record.Journal, framing stream.Framing, after int64) (
	passed int64, err error) {
	f := journal.Follow()
	if f.Waiting() || after >= 0 {
		if err := o.send(nil, true); err != nil {
			return 0, err
		}
	}
	for {
		lines, err := o.next(ctx, f, framing)
		if errors.Is(err, io.EOF) {
			return passed, o.send(framing.AppendEnd(nil), true)
		}
		if err != nil {
			return passed, err
		}
		lines = record.AppendStream(nil, lines)
		n := int64(bytes.Count(lines, []byte{'\n'}))
		buf := framing.Append(nil, skipLines(lines, after+1-passed))
		if err := o.send(buf, f.Waiting()); err != nil {
			return passed, err
		}
		passed += n
	}
}

// skipLines returns lines without the first n of them. The line of an event, or of a journal, is
// at the place that its number says.
func skipLines(lines []byte, n int64) []byte {
	for ; n > 0 && len(lines) > 0; n-- {
		lines = lines[bytes.IndexByte(lines, '\n')+1:]
	}
	return lines
}

// next waits for lines and keeps the connection alive meanwhile.
func (o *writer) next(ctx context.Context, f *record.Follower, framing stream.Framing) ([]byte, error) {
	if !f.Waiting() {
		return f.Next(ctx)
	}
	for {
		wait, cancel := context.WithTimeout(ctx, o.waits.heartbeat)
		lines, err := f.Next(wait)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return lines, err
		}
		if err := o.send(framing.AppendPing(nil), true); err != nil {
			return nil, err
		}
	}
}

// brokenEnd returns the lines that end a stream whose log cannot be written any
// more, after the first sent ones of it. The event is not durable, which is
// what it says.
func (s *Server) brokenEnd(v *view, sent int64, cause *responses.Error) (lines []byte, err error) {
	tools := turns.NamesOfTools(v.response.Tools, nil)
	sink := func(_ string, data []byte) error {
		lines = append(append(lines, s.clean(data, tools...)...), '\n')
		return nil
	}
	if sent == 0 { // not even the first event reached the disk
		em, err := responses.NewEmitter(v.response, sink)
		if err == nil {
			err = em.Fail(cause, responses.Usage{})
		}
		return lines, err
	}
	var broken error
	em, err := responses.Resume(func(yield func(responses.Event) bool) {
		left := sent
		for event, err := range streamed(v.journal) {
			var ev responses.Event
			if err == nil {
				ev, err = responses.DecodeEvent(event)
			}
			if broken = err; err != nil || !yield(ev) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}, sink)
	if err = cmp.Or(broken, err); err == nil && !em.Ended() {
		err = em.Fail(cause, responses.Usage{})
	}
	return lines, err
}

// lines sends the lines of a journal numbered above after; with follow those to come as well. It returns how many
// lines it dealt with, and how many events of the stream are among them.
func (o *writer) lines(ctx context.Context, journal *record.Journal, follow bool, after int64) (passed, events int64,
	err error) {
	f := journal.Follow()
	if err := o.rc.Flush(); err != nil { // the head, so that the reader knows that the request arrived
		return 0, 0, errors.Join(errReader, err)
	}
	for follow || !f.Waiting() {
		lines, err := f.Next(ctx)
		if errors.Is(err, io.EOF) {
			return passed, events, nil
		}
		if err != nil {
			return passed, events, err
		}
		rest := skipLines(lines, after-passed)
		passed += int64(bytes.Count(lines, []byte{'\n'}))
		events += int64(bytes.Count(record.AppendStream(nil, lines), []byte{'\n'}))
		if err := o.send(rest, f.Waiting()); err != nil {
			return passed, events, err
		}
	}
	return passed, events, nil
}

// send writes buf. The reader gets
// waits.write for each part of bounded size, so that a slow line does not lose it.
func (o *writer) send(buf []byte, flush bool) error {
	for rest := buf; ; {
		_ = o.rc.SetWriteDeadline(time.Now().Add(o.waits.write)) // a recorder in a test has none
		part := rest[:min(len(rest), maxWrite)]
		if rest = rest[len(part):]; len(part) == 0 {
			break
		}
		if _, err := o.w.Write(part); err != nil {
			return errors.Join(errReader, err)
		}
	}
	if !flush {
		return nil
	}
	if err := o.rc.Flush(); err != nil {
		return errors.Join(errReader, err)
	}
	return nil
}
