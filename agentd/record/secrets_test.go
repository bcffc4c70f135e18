package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// Whatever is secret, what a turn leaves on disk can be read back: every piece of every line is taken for the
// secret in turn, ids, times, digests and paths too.
func TestRecordsWithAnySecretCanBeRead(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	turn, em, scope := begin(t, s, dir, `{"input":"hi","metadata":{"a":"b"},"tools":[{"type":"function","name":"ask"}]}`)
	must(t, os.WriteFile(filepath.Join(turn.Dir, "left"), []byte("by a command"), 0o600))
	play(t, turn, em, scope)
	must(t, turn.Commit(em.Response(), turns.Totals{Rounds: 2}, scope.Event(turns.TurnCompleted, turns.Completed{})),
		turn.Close())
	lines := make(map[string][]byte)
	for name, path := range map[string]string{"trajectory": s.donePath("resp_1"),
		turns.EventsFile:  filepath.Join(turn.Dir, turns.EventsFile),
		turns.RuntimeFile: filepath.Join(turn.Dir, turns.RuntimeFile),
		turns.RecordFile:  filepath.Join(turn.Dir, turns.RecordFile)} {
		text := read(t, path)
		if name == turns.RecordFile {
			lines[name] = []byte(text)
			continue
		}
		for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
			lines[fmt.Sprintf("%s:%d", name, i+1)] = []byte(line)
		}
	}
	if len(lines) < 20 {
		t.Fatalf("the turn left %d lines, want some of each file", len(lines))
	}
	tried := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		text := string(lines[name])
		for at := 0; at+8 <= len(text); at++ {
			secret := text[at : at+8]
			if strings.ContainsAny(secret, `"{}:, `) || tried[secret] {
				continue
			}
			tried[secret] = true
			known := &redact.Set{}
			if !known.Add("A_TOKEN", secret) {
				continue
			}
			for other, line := range lines {
				if !bytes.Contains(line, []byte(secret)) {
					continue
				}
				if err := readable(other, line, known.JSON(line, turns.Structure)); err != nil {
					t.Errorf("%s with the secret %q: %v", other, secret, err)
				}
			}
		}
	}
	if len(tried) < 300 {
		t.Errorf("%d secrets were tried, want at least 300", len(tried))
	}
}

// readable reports why a line that was redacted cannot be read, or names another turn than before.
func readable(name string, before, after []byte) error {
	file, _, _ := strings.Cut(name, ":")
	switch file {
	case turns.RecordFile:
		_, err := turns.DecodeRecord(after)
		return err
	case turns.RuntimeFile:
		_, err := turns.DecodeRuntimeEvent(after)
		return err
	case turns.EventsFile:
		_, err := responses.DecodeEvent(after)
		return err
	}
	var a, b Stored
	started := make(map[string]*responses.ToolCall)
	if err := a.add(before, started); err != nil {
		return err
	}
	if err := b.add(after, started); err != nil {
		return err
	}
	a.Header.Response, b.Header.Response = responses.Response{}, responses.Response{}
	was, _ := json.Marshal(a.Header)
	if is, _ := json.Marshal(b.Header); !bytes.Equal(was, is) {
		return fmt.Errorf("the header becomes %s, want %s", is, was)
	}
	return nil
}
