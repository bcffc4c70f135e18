package turnfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/redact"
	"holon/responses/turns"
	"holon/test/expect"
)

// A secret that only the host knows is in no file of the record, however a model cut it; all other text stays.
func TestHide(t *testing.T) {
	const key = "sk-cloud-0123456789abcdef"
	deltas := func(item string, texts ...string) (lines []string) {
		for _, text := range texts {
			lines = append(lines, fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":%q,`+
				`"output_index":0,"content_index":0,"delta":%q,"logprobs":[]}`, len(lines), item, text))
		}
		return lines
	}
	done := func(text string) string { return fmt.Sprintf(`{"type":"response.output_text.done","text":%q}`, text) }
	for name, tt := range map[string]struct {
		lines []string
		text  string // of all deltas together
	}{
		"whole": {append(deltas("a", "It is "+key+"."), done("It is "+key+".")), "It is [redacted]."},
		"cut": {append(deltas("a", "It is sk-cloud-", "0123", "456789abcdef. Bye."), done(key)),
			"It is [redacted]. Bye."},
		"letters":      {deltas("a", strings.Split("x"+key+"y", "")...), "x[redacted]y"},
		"begins alike": {append(deltas("a", "sk-cloud-", "01"), done("sk-cloud-01")), "sk-cloud-01"},
		"in two items": {append(deltas("a", "sk-cloud-0123"), deltas("b", "456789abcdef")...), "sk-cloud-0123456789abcdef"},
		"none":         {append(deltas("a", "Hello ", "there."), done("Hello there.")), "Hello there."},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, turns.EventsFile)
		before := strings.Join(tt.lines, "\n") + "\n"
		journal := filepath.Join(dir, turns.JournalFile)
		expect.NoError(t, os.WriteFile(journal, []byte(entries("", before)), 0o600))
		record := filepath.Join(dir, turns.RecordFile)
		expect.NoError(t, os.WriteFile(record, []byte(`{"status":"completed","error":"`+key+`"}`), 0o600))
		var secrets redact.Set
		secrets.Add("KEY", key)
		_, err := Completion{Secrets: &secrets}.Complete(dir)
		expect.NoError(t, err)
		after, err := os.ReadFile(path)
		expect.NoError(t, err)
		var text strings.Builder
		for line := range strings.Lines(string(after)) {
			_, rest, _ := strings.Cut(line, `"delta":"`)
			piece, _, _ := strings.Cut(rest, `"`)
			text.WriteString(piece)
		}
		expect.Equal(t, name+": the text", text.String(), tt.text)
		expect.Equal(t, name+": lines", strings.Count(string(after), "\n"), len(tt.lines))
		expect.Equal(t, name+": holds the key", strings.Contains(string(after), key), false)
		all, err := os.ReadFile(journal)
		expect.NoError(t, err)
		expect.Equal(t, name+": the journal", string(all), entries("", string(after)))
		if name == "none" || name == "begins alike" {
			expect.Equal(t, name, string(after), before)
		}
		kept, err := os.ReadFile(record)
		expect.NoError(t, err)
		expect.Equal(t, name+": the record", string(kept), `{"status":"completed","error":"[redacted]"}`)
		left, err := os.ReadDir(dir)
		expect.NoError(t, err)
		expect.Equal(t, name+": files", len(left), 4)
	}
}
