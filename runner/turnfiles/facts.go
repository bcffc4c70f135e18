package turnfiles

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holon/responses"
	"holon/responses/turns"
)

// AppendFacts adds facts of the host to the runtime.ndjson that was collected into dir, whose sequence goes
// on. The file comes from the container: lines in it that claim to be such facts are taken out, since only
// the host can know them.
func AppendFacts(dir string, facts []turns.RuntimeEvent) error {
	if _, err := os.Lstat(filepath.Join(dir, turns.RuntimeFile)); errors.Is(err, fs.ErrNotExist) && len(facts) == 0 {
		return nil
	}
	file, err := openFacts(dir)
	if err != nil {
		return err
	}
	for _, f := range facts {
		file.add(f)
	}
	return file.close()
}

// endFacts closes the runtime.ndjson of a turn that is being settled, unless it
// has an end: who follows it waits for one.
func endFacts(dir string, rec *turns.Record, resp *responses.Response) error {
	facts, err := openFacts(dir)
	if err != nil {
		return err
	}
	if !facts.ended {
		facts.add(closingFact(rec, resp, facts.spent))
	}
	return facts.close()
}

// closingFact is the end of a turn that is being settled. spent is what the facts before say of its usage.
func closingFact(rec *turns.Record, resp *responses.Response, spent responses.Usage) turns.RuntimeEvent {
	scope := turns.Scope{RuntimeID: rec.Instance, SessionID: rec.SessionID, TurnID: rec.TurnID}
	if resp.Status == responses.StatusCompleted {
		return scope.TurnCompleted(turns.Completed{ResponseID: resp.ID, Usage: turns.UsageOf(spent)})
	}
	failure := turns.Failure{ResponseID: resp.ID, FailureCategory: "incomplete", Phase: "recovery",
		InterruptedBy: "container_end"}
	if spent != (responses.Usage{}) {
		failure.Usage = new(turns.UsageOf(spent))
	}
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
	end   int64           // of what is kept
	last  int64           // the highest sequence in it
	ended bool            // it tells the turn's end
	place turns.Scope     // runtime and thread of the facts in it
	spent responses.Usage // in its recorded costs
	err   error           // the first

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
	const plausible = 1 << 53 // a greater number does not count lines
	var e struct {
		Type     factType `json:"type"`
		Sequence int64    `json:"sequence"`
		Runtime  string   `json:"runtime_id"`
		Thread   string   `json:"thread_id"`
	}
	err := json.Unmarshal(line, &e) // a line that is not an event is kept as it is
	if e.Type.egress || err != nil && bytes.Contains(line, []byte(egressPrefix)) {
		return true
	}
	if e.Sequence < plausible {
		f.last = max(f.last, e.Sequence)
	}
	if responses.CheckID("runtime_id", e.Runtime) == nil && responses.CheckID("thread_id", e.Thread) == nil {
		f.place = turns.Scope{RuntimeID: e.Runtime, ThreadID: e.Thread}
	}
	if e.Type.name == turns.CostRecorded {
		f.spend(line)
	}
	if e.Type.name == turns.TurnCompleted || e.Type.name == turns.TurnFailed {
		_, err := turns.DecodeRuntimeEvent(line)
		f.ended = f.ended || err == nil
	}
	return false
}

// spend adds a recorded cost, unless it is impossible.
func (f *factsFile) spend(line []byte) {
	const most = 1 << 40
	var cost struct {
		Payload struct {
			Usage turns.TokenUsage `json:"usage"`
		} `json:"payload"`
	}
	_ = json.Unmarshal(line, &cost) // a cost without counts is none
	u := cost.Payload.Usage
	if min(u.InputTokens, u.OutputTokens) < 0 || max(u.InputTokens, u.OutputTokens) > most {
		return
	}
	f.spent = f.spent.Add(responses.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		TotalTokens: u.InputTokens + u.OutputTokens, Estimated: u.Estimated})
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

// add appends a fact, with the next number and the thread of those before.
func (f *factsFile) add(ev turns.RuntimeEvent) {
	f.last++
	ev.Sequence = f.last
	ev.RuntimeID, ev.ThreadID = cmp.Or(f.place.RuntimeID, ev.RuntimeID), cmp.Or(f.place.ThreadID, ev.ThreadID)
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
