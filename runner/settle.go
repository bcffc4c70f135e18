package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
)

// settleTurn completes the record of a turn whose container ended before the
// turn did: the stream gets its terminal event and turn.json its end. It never
// changes a record that has an end. gone says why there is none. It returns the
// response as it was settled, nil when there was nothing to settle. The files are
// read an event at a time, whatever their size, and completed in place: a holon
// that is killed meanwhile leaves the run to be collected again.
func settleTurn(dir string, gone *responses.Error) (*responses.Response, error) {
	rec, err := readTurnRecord(dir)
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

func readTurnRecord(dir string) (*turns.Record, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the turn's directory: %w", err)
	}
	defer root.Close()
	return (&TurnFiles{root}).record()
}

// readEnd returns the final response of a turn whose record has an end, from the
// directory that was collected; nil when there is none.
func readEnd(dir string) (*responses.Response, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the turn's directory: %w", err)
	}
	_, end, err := (&TurnFiles{root}).read()
	return end, errors.Join(err, root.Close())
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

// endFacts closes the runtime.ndjson of a turn that is being settled, unless it
// has an end: who follows it waits for one.
func endFacts(dir string, rec *turns.Record, resp *responses.Response) error {
	facts, err := openFacts(dir)
	if err != nil {
		return err
	}
	if !facts.ended {
		facts.add(closingFact(rec, resp))
	}
	return facts.close()
}

func closingFact(rec *turns.Record, resp *responses.Response) turns.RuntimeEvent {
	scope := turns.Scope{RuntimeID: rec.Instance, SessionID: rec.SessionID, TurnID: rec.TurnID}
	if resp.Status == responses.StatusCompleted {
		return scope.TurnCompleted(turns.Completed{ResponseID: resp.ID})
	}
	failure := turns.Failure{ResponseID: resp.ID, FailureCategory: "incomplete", Phase: "recovery",
		InterruptedBy: "container_end"}
	if resp.Error != nil {
		failure.FailureCategory, failure.Message = resp.Error.Code, resp.Error.Message
	}
	return scope.TurnFailed(turns.StatusLost, failure)
}

// factsFile is the runtime.ndjson of a turn that was collected, to which facts are
// added. The container wrote it: lines that claim to be about egress, of which only
// the host can know, are taken out when it is opened, and half a line at the end.
type factsFile struct {
	file  *os.File
	end   int64 // of what is kept
	last  int64 // the highest sequence in it
	ended bool  // it tells the turn's end
	err   error // the first

	buffer []byte // of keep
}

// openFacts opens the facts in dir, which need not be there.
func openFacts(dir string) (*factsFile, error) {
	file, err := openOwn(filepath.Join(dir, turns.RuntimeFile), os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open the turn's facts: %w", err)
	}
	f := &factsFile{file: file, buffer: make([]byte, 32<<10)}
	if err := f.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("read the turn's facts: %w", err), file.Close())
	}
	return f, nil
}

// read looks at the lines once, and moves those that stay over those that do not.
func (f *factsFile) read() error {
	lines := lineReader{in: bufio.NewReaderSize(f.file, 64<<10), most: maxFactLine}
	var kept int64 // where begins what stays and was not moved yet
	for {
		line, err := lines.next()
		if err == io.EOF {
			return f.keep(kept, lines.at)
		}
		if err != nil {
			return err
		}
		if !f.own(line) {
			continue
		}
		if err := f.keep(kept, lines.at-int64(len(line))-1); err != nil {
			return err
		}
		kept = lines.at
	}
}

// own notes what a line says, and reports whether only the host may say it.
func (f *factsFile) own(line []byte) bool {
	const plausible = 1 << 53 // more is no count of lines
	var e struct {
		Type     factType `json:"type"`
		Sequence int64    `json:"sequence"`
	}
	err := json.Unmarshal(line, &e) // what is no event is kept as it is
	if e.Type.egress || err != nil && bytes.Contains(line, []byte(egressPrefix)) {
		return true
	}
	if e.Sequence < plausible {
		f.last = max(f.last, e.Sequence)
	}
	if e.Type.name == turns.TurnCompleted || e.Type.name == turns.TurnFailed {
		_, err := turns.DecodeRuntimeEvent(line)
		f.ended = f.ended || err == nil
	}
	return false
}

const egressPrefix = "holon.egress."

// factType is the type of a fact: the last that the line names, and whether any of
// them is about egress, because other readers may take the first.
type factType struct {
	name   string
	egress bool
}

// UnmarshalJSON implements json.Unmarshaler. It is called for each key.
func (t *factType) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &t.name) == nil && strings.HasPrefix(t.name, egressPrefix) {
		t.egress = true
	}
	return nil
}

// keep moves the bytes from..to of the file to the end of what is kept.
func (f *factsFile) keep(from, to int64) error {
	var err error
	if f.end < from && from < to {
		_, err = io.CopyBuffer(io.NewOffsetWriter(f.file, f.end), io.NewSectionReader(f.file, from, to-from), f.buffer)
	}
	f.end += to - from
	return err
}

// add appends a fact, with the next number.
func (f *factsFile) add(ev turns.RuntimeEvent) {
	f.last++
	ev.Sequence = f.last
	line, err := ev.AppendLine(nil)
	if err == nil && f.err == nil {
		_, err = f.file.WriteAt(line, f.end)
		f.end += int64(len(line))
	}
	f.err = errors.Join(f.err, err)
}

func (f *factsFile) close() error {
	err := errors.Join(f.err, f.file.Truncate(f.end), f.file.Sync(), f.file.Close())
	if err != nil {
		return fmt.Errorf("complete the turn's facts: %w", err)
	}
	return nil
}
