package turnfiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
)

// Settle completes the record of a turn whose container ended before the
// turn did, in the directory that it was collected into: the stream gets its terminal event and turn.json its
// end. It never changes a record that has an end. gone says why there is none. It returns the
// response as it was settled, nil when there was nothing to settle. The files are
// read an event at a time, however large they are, and completed in place: a holon
// that is killed meanwhile leaves the run to be collected again.
func Settle(dir string, gone *responses.Error) (*responses.Response, error) {
	files, err := OpenCollected(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	rec, err := files.record()
	if err != nil || rec.Status.Terminal() {
		return nil, err
	}
	events, err := openOwn(filepath.Join(dir, turns.EventsFile), os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open the turn's events: %w", err)
	}
	resp, err := endStream(events, rec, gone)
	if err = errors.Join(err, events.Close()); err == nil {
		err = endFacts(dir, rec, resp)
	}
	if err != nil {
		return nil, err
	}
	rec.Settle(resp, time.Now())
	data, err := rec.Encode()
	if err != nil {
		return nil, err
	}
	return resp, durable.WriteFile(filepath.Join(dir, turns.RecordFile), data, 0o600)
}

// openOwn opens a regular file among the results for reading and writing. It
// follows no link.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", filepath.Base(path)), err, f.Close())
	}
	return f, nil
}

// ReadEnd returns the final response of a turn that was collected into dir, nil when its record has no end.
func ReadEnd(dir string) (*responses.Response, error) {
	files, err := OpenCollected(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	_, end, err := files.read()
	return end, err
}

// endStream appends the terminal event to the events of a turn if they lack it,
// and returns the final response. Half a line at the end is cut off. A turn that
// ended before its first event was written gets a stream of its own.
func endStream(f *os.File, rec *turns.Record, gone *responses.Error) (*responses.Response, error) {
	lines := lineReader{in: bufio.NewReaderSize(f, 64<<10), most: responses.MaxResponse}
	var bad error
	sink := func(_ string, event []byte) error {
		n, err := f.WriteAt(append(event, '\n'), lines.at)
		lines.at += int64(n)
		return err
	}
	em, err := responses.Resume(func(yield func(responses.Event) bool) {
		var ev responses.Event
		for ev, bad = nextEvent(&lines); bad == nil && yield(ev); ev, bad = nextEvent(&lines) {
		}
	}, sink)
	switch {
	case bad != nil && bad != io.EOF:
		err = bad
	case lines.at == 0:
		em, err = newStream(rec, sink)
	}
	if err == nil && !em.Ended() {
		err = em.Fail(gone, responses.Usage{})
	}
	if err == nil {
		err = errors.Join(f.Truncate(lines.at), f.Sync())
	}
	if err != nil {
		return nil, fmt.Errorf("end the turn's events: %w", err)
	}
	resp := em.Response()
	return &resp, nil
}

func nextEvent(lines *lineReader) (responses.Event, error) {
	line, err := lines.next()
	if lines.left > 0 {
		err = fmt.Errorf("an event has more than %d bytes", lines.most)
	}
	if err != nil {
		return responses.Event{}, err
	}
	return client.DecodeEvent(line)
}

// newStream begins the stream of a turn of which only the record is known.
func newStream(rec *turns.Record, sink responses.Sink) (*responses.Emitter, error) {
	req := responses.NewRequest(rec.Model) // the response echoes its defaults
	if rec.PreviousResponseID != nil {
		req.PreviousResponseID = *rec.PreviousResponseID
	}
	return responses.NewEmitter(responses.NewResponse(rec.ResponseID, rec.Model, rec.CreatedAt.Time().Unix(), req),
		sink)
}
