package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"holon/internal/durable"
	"holon/responses"
	"holon/responses/turns"
)

// Bounds of a ledger. Allowed and denied connections have a share each, so that
// a flood of refusals cannot hide what got out.
const (
	maxDecisions = 5000 // of each verdict
	maxLedger    = 64 << 20
)

// Fact is one line of a ledger: exactly one of its parts is set.
type Fact struct {
	EventID   string                `json:"event_id"`
	Timestamp turns.Time            `json:"timestamp"`
	Decision  *turns.EgressDecision `json:"decision,omitempty"`
	Ended     *turns.EgressEnd      `json:"ended,omitempty"`
	Omitted   *turns.EgressOmission `json:"omitted,omitempty"`
}

// Event returns f as a runtime event of the turn that scope names.
func (f Fact) Event(scope turns.Scope) (ev turns.RuntimeEvent) {
	switch {
	case f.Decision != nil:
		ev = scope.Event(turns.EgressDecided, *f.Decision)
	case f.Ended != nil:
		ev = scope.Event(turns.EgressEnded, *f.Ended)
	case f.Omitted != nil:
		ev = scope.Event(turns.EgressOmitted, *f.Omitted)
	}
	ev.EventID, ev.Timestamp = f.EventID, f.Timestamp
	return ev
}

// ledger writes facts down. A decision is on disk when decided returns.
type ledger struct {
	watch func(Fact)
	most  int64 // decisions of each verdict that get a line

	mu      sync.Mutex
	file    *os.File
	err     error // the first, after which nothing is written any more
	allowed int64
	denied  int64
	omitted turns.EgressOmission
}

func openLedger(path string, watch func(Fact)) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the record of egress: %w", err)
	}
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		_, err = file.WriteString("\n") // another process was killed before, within a line perhaps
		if err != nil {
			return nil, errors.Join(fmt.Errorf("go on with the record of egress: %w", err), file.Close())
		}
	}
	return &ledger{file: file, watch: watch, most: maxDecisions}, nil
}

// decided records a decision, or counts it when there are too many. The error
// means that it cannot be recorded and that what it allows must not happen.
func (l *ledger) decided(d turns.EgressDecision) (recorded bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count, omitted := &l.denied, &l.omitted.Denied
	if d.Verdict == turns.VerdictAllowed {
		count, omitted = &l.allowed, &l.omitted.Allowed
	}
	if l.err != nil {
		return false, l.err
	}
	if *count++; *count > l.most {
		*omitted++
		return false, nil
	}
	if err := l.write(Fact{Decision: &d}); err != nil {
		return false, err
	}
	if err := l.file.Sync(); err != nil {
		l.err = fmt.Errorf("record egress: %w", err)
	}
	return true, l.err
}

// ended records the end of a connection whose decision was recorded.
func (l *ledger) ended(e turns.EgressEnd) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return l.write(Fact{Ended: &e})
}

// write appends one line. The caller holds mu.
func (l *ledger) write(f Fact) error {
	f.EventID, f.Timestamp = responses.NewID(responses.PrefixEvent), turns.At(time.Now())
	line, err := json.Marshal(f)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		l.err = fmt.Errorf("record egress: %w", err)
		return l.err
	}
	if l.watch != nil {
		l.watch(f)
	}
	return nil
}

// close says what was left out and makes all of it durable.
func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.omitted != (turns.EgressOmission{}) && l.err == nil {
		_ = l.write(Fact{Omitted: &l.omitted}) // kept in err
	}
	if l.err == nil {
		l.err = l.file.Sync()
	}
	return errors.Join(l.err, l.file.Close())
}

// ReadFacts reads a ledger back. Lines that a crash cut are left out.
func ReadFacts(path string) (facts []Fact, err error) {
	data, err := durable.ReadFile(path, maxLedger)
	if err != nil {
		return nil, fmt.Errorf("read the record of egress: %w", err)
	}
	for line := range bytes.Lines(data[:bytes.LastIndexByte(data, '\n')+1]) {
		var f Fact
		if json.Unmarshal(line, &f) != nil {
			continue
		}
		if f.Decision != nil || f.Ended != nil || f.Omitted != nil {
			facts = append(facts, f)
		}
	}
	return facts, nil
}

// Count returns how many connections were allowed and denied.
func Count(facts []Fact) (allowed, denied int64) {
	for _, f := range facts {
		switch {
		case f.Omitted != nil:
			allowed, denied = allowed+f.Omitted.Allowed, denied+f.Omitted.Denied
		case f.Decision != nil && f.Decision.Verdict == turns.VerdictAllowed:
			allowed++
		case f.Decision != nil:
			denied++
		}
	}
	return allowed, denied
}
