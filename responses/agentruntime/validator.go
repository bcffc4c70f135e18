package agentruntime

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// maxLine is the longest line that is decoded; a longer one is reported and passed over without being kept.
const maxLine = 1 << 20

// Violation is one event that breaks one rule, or a line that is not an event or a field of one that is not of its type
// (Rule is "decode").
type Violation struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	EventID string `json:"event_id"`
	Rule    string `json:"rule"`
	Got     string `json:"got"`
	Want    string `json:"want"`
}

// NotApplicable is a rule that the logs could not break, and why.
type NotApplicable struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Validator judges events in the order in which they are given, over any number of files.
type Validator struct {
	rules   []rule
	judged  []int // events by rule
	state   *state
	report  func(Violation)
	events  int
	reports int
}

// NewValidator holds logs to the rules of a level and of those below it, and reports each violation at once.
func NewValidator(level Level, report func(Violation)) *Validator {
	v := &Validator{state: newState(), report: report}
	for _, r := range rules() {
		if r.level() <= level {
			v.rules = append(v.rules, r)
		}
	}
	v.judged = make([]int, len(v.rules))
	return v
}

// Partial says that the log begins in the middle of its threads, as that of a later turn of agentd or a page of a
// record does: a sequence may begin with any number, and what is named may have been introduced, opened or queued
// before, unless it is a part of what the log has from its beginning.
func (v *Validator) Partial() { v.state.partial = true }

// Read judges the events of one file, one a line. Its error is one of the reader.
func (v *Validator) Read(file string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for line := 1; ; line++ {
		data, long, err := readLine(in)
		if len(data) > 0 || long {
			v.line(file, line, data, long)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
}

// readLine returns the next line without its end, or that it is too long.
func readLine(in *bufio.Reader) (data []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(data)+len(part) > maxLine; !long {
			data = append(data, part...)
		} else {
			data = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return data, long, err
		}
	}
}

func (v *Validator) line(file string, line int, data []byte, long bool) {
	at := Violation{File: file, Line: line, Rule: "decode", Want: "one event"}
	var e Event
	if long {
		at.Got = fmt.Sprintf("a line of more than %d bytes", maxLine)
	} else if err := decodeLine(data, &e); err != nil {
		at.Got, at.EventID = err.Error(), e.EventID
	}
	if at.Got != "" {
		v.reports++
		v.report(at)
		return
	}
	v.Event(file, line, &e)
}

// Event judges one event and takes it into the state. A repeated event with the same content changes nothing.
func (v *Validator) Event(file string, line int, e *Event) {
	v.events++
	before, repeated := v.state.digests[e.EventID]
	if repeated = repeated && before == e.digest(); repeated {
		return
	}
	v.misfits(file, line, e)
	f := &finding{state: v.state, Event: e}
	for i := range v.rules {
		r := &v.rules[i]
		if r.check == nil || !r.judges(e.Type) {
			continue
		}
		v.judged[i]++
		f.report = func(got, want string) {
			v.reports++
			v.report(Violation{file, line, e.EventID, r.id(), got, want})
		}
		r.check(f)
	}
	v.state.apply(e)
	v.state.remember(e)
}

// misfits reports fields that are not of their type and of which no rule tells; V1 and V2 tell of the others.
func (v *Validator) misfits(file string, line int, e *Event) {
	for _, name := range slices.Sorted(maps.Keys(e.misfits)) {
		if !slices.Contains(required, name) && !slices.Contains(idNames[:], name) {
			v.reports++
			v.report(Violation{file, line, e.EventID, "decode", e.misfits[name].got, e.misfits[name].want})
		}
	}
}

// remember keeps the digest of an event, in place of the oldest.
func (s *state) remember(e *Event) {
	s.digests[e.EventID] = e.digest()
	if old := s.eventIDs.add(e.EventID); old != "" {
		delete(s.digests, old)
	}
}

// Summary returns how many events were judged and violations reported, and which rules judged nothing.
func (v *Validator) Summary() (events, violations int, idle []NotApplicable) {
	for i, r := range v.rules {
		switch {
		case r.check == nil:
			idle = append(idle, NotApplicable{r.id(), r.why})
		case v.judged[i] == 0:
			idle = append(idle, NotApplicable{r.id(), fmt.Sprintf("no event of %v", r.on)})
		}
	}
	return v.events, v.reports, idle
}
