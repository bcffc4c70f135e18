package record

import (
	"errors"
	"fmt"

	"holon/responses"
	"holon/responses/turns"
)

// kept is what is left of a turn that was cut off: its journal, to which its end is appended, and what that says.
type kept struct {
	journal *Journal
	stream  *responses.Emitter // goes on where the journal ends
	streamed
	keptFacts
}

// streamed is what the stream in a journal says.
type streamed struct {
	events int64
	text   int64 // bytes that models said
	over   bool  // its terminal event is there
}

// keptFacts is what the runtime events in a journal say.
type keptFacts struct {
	turns.Progress
	ofCalls        map[string]bool   // classes of facts, with the call that each is about
	newest         map[string]string // newest fact of each process and its task, by process
	submitted      bool
	started, ended bool
}

// errStop ends a reading of lines early.
var errStop = errors.New("stop")

// resumeJournal opens the journal of a turn that was cut off. A power cut can damage lines that were not synced in
// any place, so it is cut at the first line that cannot stay; where a client saw that, its turn ends as interrupted.
func resumeJournal(h Header) (k *kept, err error) {
	j, err := reopenJournal(h.TurnDir)
	if err != nil {
		return nil, err
	}
	for k == nil && err == nil { // again when the events before the cut make no stream
		k, err = readJournal(h, j)
	}
	if err == nil && k.stream == nil {
		k.stream, err = responses.NewEmitter(h.Response, k.sink)
	}
	if err != nil {
		return nil, fmt.Errorf("settle the journal: %w", errors.Join(err, j.Close()))
	}
	return k, nil
}

// readJournal reads a journal and cuts it where it makes no sense. k is nil when it has to be read again for that.
func readJournal(h Header, j *Journal) (k *kept, err error) {
	k = &kept{journal: j, keptFacts: keptFacts{Progress: turns.Progress{Sequence: h.Facts},
		newest: make(map[string]string), ofCalls: make(map[string]bool)}}
	var good, lines int64
	var bad error // why reading ended early
	stream, broken := responses.Resume(func(yield func(responses.Event) bool) {
		bad = j.Lines(func(line []byte) error {
			e, err := turns.DecodeEntry(line)
			switch {
			case err != nil || e.Seq != lines+1:
				return errStop
			case e.Stream != nil && (!k.streamed.take(*e.Stream) || !yield(*e.Stream)):
				return errStop
			case e.Runtime != nil && !k.keptFacts.take(*e.Runtime, k.over):
				return errStop
			}
			good, lines = good+int64(len(line))+1, lines+1
			return nil
		})
	}, k.sink)
	if bad != nil && !errors.Is(bad, errStop) {
		return nil, bad
	}
	if err := j.cut(good, lines); err != nil {
		return nil, err
	}
	switch {
	case broken == nil:
		k.stream = stream
	case k.events > 0: // the last event does not follow from those before
		return nil, nil //nolint:nilnil // the journal has become shorter
	}
	return k, nil
}

func (k *kept) sink(_ string, event []byte) error { return k.journal.append(turns.EntryStream, event) }

// append writes a fact behind those that the journal has.
func (k *kept) append(ev turns.RuntimeEvent) error {
	line, err := k.Next(ev).MarshalJSON()
	if err != nil {
		return err
	}
	return k.journal.append(turns.EntryRuntime, line)
}

// take takes in an event and reports whether it can stay.
func (s *streamed) take(ev responses.Event) bool {
	if ev.SequenceNumber != s.events || s.over {
		return false
	}
	s.events, s.text, s.over = s.events+1, s.text+int64(len(ev.Delta)), responses.Terminal(ev.Type)
	return true
}

// take takes in a fact and reports whether it can stay. over says that the stream before it has its end.
func (k *keptFacts) take(ev turns.RuntimeEvent, over bool) bool {
	last := ev.Type == turns.TurnCompleted || ev.Type == turns.TurnFailed
	if ev.Sequence != k.Sequence+1 || k.ended || last && !over {
		return false
	}
	k.Take(ev)
	k.ofCalls[ev.Type+" "+ev.ToolCallID] = true
	k.ended = last
	switch ev.Type {
	case turns.TurnSubmitted:
		k.submitted = true
	case turns.TurnStarted:
		k.started = true
	case turns.ProcessStarted, turns.TaskCreated, turns.TaskAccepted, turns.TaskStarted, turns.TaskCancelAsked,
		turns.ProcessCompleted, turns.ProcessFailed, turns.ProcessTerminated, turns.TaskCompleted, turns.TaskFailed,
		turns.TaskTimedOut, turns.TaskCancelled, turns.TaskLost:
		k.newest[ev.ProcessID] = ev.Type
	}
	return true
}
