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

// feed is what a reader gets of a turn's journal.
type feed struct {
	framing stream.Framing
	whole   bool  // all lines, and not only the events of the stream
	once    bool  // what is there now, and not what comes
	skip    int64 // how many lines, or events, the reader has
	sparse  bool  // of whole: without deltas
	send    func(buf []byte, flush bool) error
}

// serveFeed answers with a journal as it becomes durable.
func (s *Server) serveFeed(w http.ResponseWriter, r *http.Request, v *view, f feed) {
	h := w.Header()
	h.Set("Content-Type", f.framing.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	f.send = newWriter(w, s.waits).send
	_ = s.sendFeed(r.Context(), v, f) // the reader sees that it has no end
}

// sendFeed sends a journal to its end. When the journal breaks (a full disk), the reader gets a legal end; an error
// says that it got none.
func (s *Server) sendFeed(ctx context.Context, v *view, f feed) error {
	lines, events, err := s.follow(ctx, v.journal, f)
	if err == nil || ctx.Err() != nil || errors.Is(err, errReader) {
		return err
	}
	s.log.Error("the journal broke off", "response", v.response.ID, "err", err)
	end, err := s.brokenEnd(v, events, recordError(err))
	if err != nil {
		return err
	}
	if f.whole {
		var entries []byte
		for event := range bytes.Lines(end) {
			lines++
			entries = turns.AppendEntry(entries, lines, turns.EntryStream, bytes.TrimSuffix(event, []byte{'\n'}))
		}
		end = entries
	}
	return f.send(f.framing.AppendEnd(f.framing.Append(nil, end)), true)
}

// follow sends what f asks for, with its end mark, and returns how many lines and events of the journal were dealt
// with. A nil error means that all was sent. The head of the answer goes out at once, so that the reader knows that the
// request arrived: with the first lines if they are there, which spares the reader to wake twice.
func (s *Server) follow(ctx context.Context, journal *record.Journal, f feed) (lines, events int64, err error) {
	at := journal.Follow()
	if f.sparse {
		at = journal.FollowSparse()
	}
	if f.sparse || at.Waiting() {
		if err := f.send(nil, true); err != nil {
			return 0, 0, err
		}
	}
	for !f.once || !at.Waiting() {
		chunk, err := s.next(ctx, at, f)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return lines, events, err
		}
		shown, count := f.shown(chunk, lines, events)
		lines += int64(bytes.Count(chunk, []byte{'\n'}))
		events += count
		if len(shown) == 0 && f.sparse {
			continue
		}
		if err := f.send(f.framing.Append(nil, shown), at.Waiting()); err != nil {
			return lines, events, err
		}
	}
	return lines, events, f.send(f.framing.AppendEnd(nil), true)
}

// shown returns what the reader gets of lines of the journal, before which so many lines and events were dealt with,
// and how many events they have.
func (f feed) shown(chunk []byte, lines, events int64) (shown []byte, count int64) {
	if !f.whole {
		shown = record.AppendStream(nil, chunk)
		return skipLines(shown, f.skip-events), int64(bytes.Count(shown, []byte{'\n'}))
	}
	for line := range bytes.Lines(chunk) {
		_, key, value, _ := turns.CutEntry(line)
		if key == turns.EntryStream {
			count++
		}
		if lines++; lines > f.skip && !(f.sparse && turns.IsDelta(key, value)) {
			shown = append(shown, line...)
		}
	}
	return shown, count
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
func (s *Server) next(ctx context.Context, at *record.Follower, f feed) ([]byte, error) {
	if !at.Waiting() {
		return at.Next(ctx)
	}
	for {
		wait, cancel := context.WithTimeout(ctx, s.waits.heartbeat)
		lines, err := at.Next(wait)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return lines, err
		}
		if err := f.send(f.framing.AppendPing(nil), true); err != nil {
			return nil, err
		}
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

// send writes buf. The reader gets waits.write for each part of bounded size, so that a slow line does not lose it.
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
