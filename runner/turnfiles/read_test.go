package turnfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holon/responses"
	"holon/responses/turns"
)

const leftRecord = `{"schema":"holon.turn/1","session_id":"sess_1","turn_id":"turn_1","response_id":"resp_1",` +
	`"status":%q,"created_at":"2026-03-04T04:06:07.890Z","completed_at":"2026-03-04T04:06:08.890Z","model":"a/b"}`

// leftEnd is the last event of a turn that completed.
func leftEnd(t testing.TB) string {
	t.Helper()
	var last []byte
	body, err := responses.DecodeRequest([]byte(`{"model":"a/b","input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	em, err := responses.NewEmitter(responses.NewResponse("resp_1", "a/b", 1, body), func(_ string, data []byte) error {
		last = append(last[:0], data...)
		return nil
	})
	if err == nil {
		err = em.Fail(&responses.Error{Type: responses.TypeServerError, Code: "x", Message: "y"}, responses.Usage{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(last)
}

// Files that a container left of a turn are read as they are, or refused, and no file
// outside is read.
func TestReadTurn(t *testing.T) {
	end := leftEnd(t)
	done, going := fmt.Sprintf(leftRecord, "failed"), fmt.Sprintf(leftRecord, "in_progress")
	record := func(text string) func(string) error {
		return func(turn string) error {
			return os.WriteFile(filepath.Join(turn, turns.RecordFile), []byte(text), 0o600)
		}
	}
	events := func(text string) func(string) error {
		return func(turn string) error {
			return os.WriteFile(filepath.Join(turn, turns.EventsFile), []byte(text), 0o600)
		}
	}
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
		"no JSON":   {[]func(string) error{record("{")}, false, errForged},
		"huge record": {[]func(string) error{record("{"), func(turn string) error {
			return os.Truncate(filepath.Join(turn, turns.RecordFile), 10<<30)
		}}, false, errForged},
		"huge events": {[]func(string) error{record(done), events(end + "\n"), func(turn string) error {
			return os.Truncate(filepath.Join(turn, turns.EventsFile), 10<<30)
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
				if err := plant(turn); err != nil {
					t.Fatal(err)
				}
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
		if err := errors.Join(os.WriteFile(filepath.Join(turn, turns.RecordFile), record, 0o600),
			os.WriteFile(filepath.Join(turn, turns.EventsFile), events, 0o600)); err != nil {
			t.Fatal(err)
		}
		rec, resp, err := Read(dir, "turn_1")
		if resp != nil && (err != nil || rec == nil || !resp.Status.Terminal() || resp.ID != rec.ResponseID ||
			rec.TurnID != "turn_1") {
			t.Errorf("record %+v, response %+v, %v", rec, resp, err)
		}
	})
}
