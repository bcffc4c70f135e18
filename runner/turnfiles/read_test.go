package turnfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

const leftRecord = `{"schema":"holon.turn/1","session_id":"sess_1","turn_id":"turn_1","response_id":"resp_1",` +
	`"status":%q,"created_at":"2026-03-04T04:06:07.890Z","completed_at":"2026-03-04T04:06:08.890Z","model":"a/b"}`

// leftEnd is the last event of a turn that completed.
func leftEnd(t testing.TB) string {
	t.Helper()
	var last []byte
	body, err := responses.DecodeRequest([]byte(`{"model":"a/b","input":"x"}`))
	expect.NoError(t, err)
	em, err := responses.NewEmitter(responses.NewResponse("resp_1", "a/b", 1, body), func(_ string, data []byte) error {
		last = append(last[:0], data...)
		return nil
	})
	if err == nil {
		err = em.Fail(&responses.Error{Type: responses.TypeServerError, Code: "x", Message: "y"}, responses.Usage{})
	}
	expect.NoError(t, err)
	return string(last)
}

// firstFacts are the first two lines of the facts of a turn.
func firstFacts(t *testing.T) (submitted, started string) {
	t.Helper()
	scope := turns.Scope{RuntimeID: "inst_1", SessionID: "sess_1", TurnID: "turn_1"}
	line := func(n int64, ev turns.RuntimeEvent) string {
		ev.Sequence = n
		text, err := ev.AppendLine(nil)
		expect.NoError(t, err)
		return string(text)
	}
	return line(1, scope.TurnSubmitted(turns.Submitted{Source: "responses", ResponseID: "resp_1",
			PreviousResponseID: "resp_0", RequestDigest: strings.Repeat("a", 64)}, true)),
		line(2, scope.Event(turns.TurnStarted, turns.Started{Model: "scripted/demo"}))
}

// A turn that runs has no record: its first facts say what it is, so that the host knows a turn that was cut off.
func TestReadTurnThatWasCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	turn := filepath.Join(dir, "output/turns/turn_1")
	mkdir(t, turn)
	submitted, started := firstFacts(t)
	write(t, filepath.Join(turn, turns.JournalFile), entries(submitted+started, ""))
	rec, end, err := Read(dir, "turn_1")
	if err != nil || end != nil {
		t.Fatalf("end %v, error %v", end, err)
	}
	got := []string{rec.SessionID, rec.TurnID, rec.ResponseID, *rec.PreviousResponseID, string(rec.Status), rec.Model,
		rec.RequestDigest, rec.Instance}
	want := []string{"sess_1", "turn_1", "resp_1", "resp_0", "in_progress", "scripted/demo", strings.Repeat("a", 64),
		"inst_1"}
	if !slices.Equal(got, want) {
		t.Errorf("the record says %q, want %q", got, want)
	}
	resp, err := Completion{Gone: responses.Internal("the container is gone", nil)}.Complete(turn)
	if err != nil || resp.Status != responses.StatusFailed {
		t.Fatalf("settled as %+v, %v", resp, err)
	}
	if rec, end, err = Read(dir, "turn_1"); err != nil || end == nil || rec.Status != responses.StatusFailed {
		t.Errorf("settled, the turn is %+v, %+v, %v", rec, end, err)
	}
}

// Files that a container left of a turn are read as they are, or refused, and no file
// outside is read.
func TestReadTurn(t *testing.T) {
	t.Parallel()
	end := leftEnd(t)
	done, going := fmt.Sprintf(leftRecord, "failed"), fmt.Sprintf(leftRecord, "in_progress")
	record := func(text string) func(string) error {
		return func(turn string) error {
			return os.WriteFile(filepath.Join(turn, turns.RecordFile), []byte(text), 0o600)
		}
	}
	events := func(text string) func(string) error {
		return func(turn string) error {
			return os.WriteFile(filepath.Join(turn, turns.JournalFile), []byte(entries("", text)), 0o600)
		}
	}
	facts := func(text string) func(string) error {
		return func(turn string) error {
			return os.WriteFile(filepath.Join(turn, turns.JournalFile), []byte(entries(text, "")), 0o600)
		}
	}
	submitted, started := firstFacts(t)
	for name, test := range map[string]struct {
		plant []func(turn string) error
		ended bool  // there is a final response
		fails error // errors.Is; nil: none
	}{
		"ended": {[]func(string) error{record(done), events(`{"type":"x"}` + "\n" + end + "\n")}, true,
			nil},
		"half a line after": {[]func(string) error{record(done), events(end + "\n" + `{"type":"resp`)}, true, nil},
		"a long event before": {[]func(string) error{record(done),
			events(strings.Repeat("x", 1<<20) + "\n" + end + "\n")}, true, nil},
		"a long event last": {[]func(string) error{record(done),
			events(end + "\n" + strings.Repeat("x", 1<<20) + "\n")}, false, errForged},
		"going on":     {[]func(string) error{record(going), events(end + "\n")}, false, nil},
		"no events":    {[]func(string) error{record(done)}, false, fs.ErrNotExist},
		"empty events": {[]func(string) error{record(done), events("")}, false, errForged},
		"no end": {[]func(string) error{record(done), events(`{"type":"response.created"}` + "\n")}, false,
			errForged},
		"end of another": {[]func(string) error{record(done),
			events(strings.ReplaceAll(end, "resp_1", "resp_2") + "\n")}, false, errForged},
		"record of another": {[]func(string) error{record(strings.Replace(done, "turn_1", "turn_2", 1)),
			events(end + "\n")}, false, errForged},
		"no record": {nil, false, fs.ErrNotExist},
		"begun":     {[]func(string) error{facts(submitted + started)}, false, nil},
		"queued":    {[]func(string) error{facts(submitted)}, false, nil},
		"begun by another": {[]func(string) error{facts(strings.Replace(submitted, "turn_1", "turn_2", 1))}, false,
			errForged},
		"half a fact":        {[]func(string) error{facts(submitted[:len(submitted)-1])}, false, fs.ErrNotExist},
		"facts from between": {[]func(string) error{facts(started)}, false, errForged},
		"facts, no JSON":     {[]func(string) error{facts("{\n")}, false, errForged},
		"no JSON":            {[]func(string) error{record("{")}, false, errForged},
		"huge record": {[]func(string) error{record("{"), func(turn string) error {
			return os.Truncate(filepath.Join(turn, turns.RecordFile), 10<<30)
		}}, false, errForged},
		"huge events": {[]func(string) error{record(done), events(end + "\n"), func(turn string) error {
			return os.Truncate(filepath.Join(turn, turns.JournalFile), 10<<30)
		}}, false, errForged},
		"record is a link": {[]func(string) error{func(turn string) error {
			return os.Symlink("/etc/passwd", filepath.Join(turn, turns.RecordFile))
		}}, false, errAny},
		"record is a pipe": {[]func(string) error{func(turn string) error {
			return syscall.Mkfifo(filepath.Join(turn, turns.RecordFile), 0o600)
		}}, false, errAny},
		"turn is a link out": {[]func(string) error{func(turn string) error {
			return errors.Join(os.Remove(turn), os.Symlink("/etc", turn))
		}}, false, errAny},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			turn := filepath.Join(dir, "output/turns/turn_1")
			mkdir(t, turn)
			for _, plant := range test.plant {
				expect.NoError(t, plant(turn))
			}
			_, resp, err := Read(dir, "turn_1")
			if (err == nil) != (test.fails == nil) ||
				test.fails != nil && test.fails != errAny && !errors.Is(err, test.fails) ||
				(resp != nil) != test.ended {
				t.Errorf("response %v, error %v", resp, err)
			}
		})
	}
	if _, _, err := Read(t.TempDir(), "../x"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an id that is a path: %v", err)
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

// Reading any files that a container wrote neither panics nor brings about a
// response that is not final.
func FuzzReadTurn(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(leftRecord, "failed")), []byte(leftEnd(f)+"\n"))
	f.Add([]byte(fmt.Sprintf(leftRecord, "in_progress")), []byte("\n\n{}"))
	f.Add([]byte("{}"), []byte(""))
	f.Fuzz(func(t *testing.T, record, events []byte) {
		dir := t.TempDir()
		turn := filepath.Join(dir, "output/turns/turn_1")
		mkdir(t, turn)
		expect.NoError(t, errors.Join(os.WriteFile(filepath.Join(turn, turns.RecordFile), record, 0o600),
			os.WriteFile(filepath.Join(turn, turns.JournalFile), []byte(entries("", string(events))), 0o600)))
		rec, resp, err := Read(dir, "turn_1")
		if resp != nil && (err != nil || rec == nil || !resp.Status.Terminal() || resp.ID != rec.ResponseID ||
			rec.TurnID != "turn_1") {
			t.Errorf("record %+v, response %+v, %v", rec, resp, err)
		}
	})
}

// A turn that agentd has stored was accepted, also where it has no record yet.
func TestAccepted(t *testing.T) {
	t.Parallel()
	session := t.TempDir()
	expect.Equal(t, "without a store", Accepted(session, "turn_1"), "")
	open := filepath.Join(session, "state", turns.OpenDir)
	expect.NoError(t, os.MkdirAll(open, 0o700))
	for name, text := range map[string]string{"resp_1.ndjson": `{"header":{"response_id":"resp_1","turn_id":"turn_1"}}`,
		"resp_2.ndjson": `{"header":{"response_id":"resp_2","turn_`} {
		expect.NoError(t, os.WriteFile(filepath.Join(open, name), []byte(text), 0o600))
	}
	expect.Equal(t, "stored", Accepted(session, "turn_1"), "resp_1")
	expect.Equal(t, "cut off", Accepted(session, "turn_2"), "")
}
