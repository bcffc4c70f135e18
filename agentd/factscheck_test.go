package agentd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/test/expect"
)

// checkFacts holds the facts of all turns below a directory to the rules of the Agent Runtime standard at level C, the
// highest, as one log of turns in the order of their beginnings, and those of each thread as a log of their own. The
// server must have stopped.
func checkFacts(t *testing.T, dir string) {
	t.Helper()
	whole, threads := newValidator(t), map[string]*agentruntime.Validator{}
	for _, log := range factLogs(t, dir) {
		thread := log.first.IDs[agentruntime.Thread]
		if threads[thread] == nil {
			threads[thread] = newValidator(t)
		}
		for _, v := range []*agentruntime.Validator{whole, threads[thread]} {
			if err := v.Read(log.path, bytes.NewReader(log.data)); err != nil {
				t.Error(err)
			}
		}
		checkCauses(t, log)
		checkOrder(t, log)
	}
}

// checkOrder expects that a journal has each item before the first event that names it, and in its files what it has.
func checkOrder(t *testing.T, log factLog) {
	t.Helper()
	dir := filepath.Dir(log.path)
	journal, err := os.ReadFile(filepath.Join(dir, turns.JournalFile))
	if err != nil {
		t.Error(err)
	}
	var events, facts []byte
	shown := map[string]bool{}
	for line := range bytes.Lines(journal) {
		e, err := turns.DecodeEntry(line)
		if err != nil {
			t.Fatalf("%s: %v: %s", dir, err, line)
		}
		_, _, value, _ := turns.CutEntry(line)
		if e.Stream != nil {
			events = append(append(events, value...), '\n')
			if e.Stream.Type == responses.EventItemDone {
				shown[e.Stream.Item.ItemID()] = true
			}
			continue
		}
		facts = append(append(facts, value...), '\n')
		var said turns.Sampled
		if e.Runtime.Type == turns.ModelCompleted && json.Unmarshal(e.Runtime.Payload, &said) == nil {
			for _, id := range said.Messages {
				if !shown[id] && !strings.Contains(id, "[redacted]") {
					t.Errorf("%s: %s names the message %s before it is there", dir, e.Runtime.Type, id)
				}
			}
		}
	}
	file, err := os.ReadFile(filepath.Join(dir, turns.EventsFile))
	if _, unsettled := os.Stat(filepath.Join(dir, turns.RecordFile)); unsettled != nil {
		return // the disk was full
	}
	if err != nil || !bytes.Equal(file, events) || !bytes.Equal(log.data, facts) {
		t.Errorf("%s: the files differ from the journal (%v)", dir, err)
	}
}

func newValidator(t *testing.T) *agentruntime.Validator {
	t.Helper()
	return agentruntime.NewValidator(agentruntime.LevelC, func(v agentruntime.Violation) {
		t.Errorf("%s:%d: %s: %s instead of %s", v.File, v.Line, v.Rule, v.Got, v.Want)
	})
}

// checkCauses expects that every event of a turn names an earlier one of the turn as its cause, but those that begin
// it.
func checkCauses(t *testing.T, log factLog) {
	t.Helper()
	earlier := map[string]bool{}
	for line := range bytes.Lines(log.data) {
		ev, err := turns.DecodeRuntimeEvent(bytes.TrimRight(line, "\n"))
		expect.NoError(t, err)
		begins := ev.Type == turns.ThreadStarted || ev.Type == turns.TurnSubmitted
		if cause := ev.Correlation.CausationID; begins != (cause == "") || !begins && !earlier[cause] {
			t.Errorf(
				"%s: %s %d has the cause %q, want an earlier event, and none of what begins a turn",
				log.path,
				ev.Type,
				ev.Sequence,
				cause,
			)
		}
		earlier[ev.EventID] = true
	}
}

type factLog struct {
	path  string
	data  []byte
	first agentruntime.Event
}

func factLogs(t *testing.T, dir string) (logs []factLog) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != turns.RuntimeFile || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		line, _, _ := bytes.Cut(data, []byte("\n"))
		log := factLog{path: path, data: data}
		if err == nil && len(data) > 0 {
			err = json.Unmarshal(line, &log.first)
		}
		if err == nil {
			logs = append(logs, log)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.SortFunc(logs, func(a, b factLog) int { return strings.Compare(a.first.EventID, b.first.EventID) })
	return logs
}
