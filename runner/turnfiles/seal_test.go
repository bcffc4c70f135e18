package turnfiles

import (
	"os"
	"path/filepath"
	"testing"

	"holon/responses/turns"
	"holon/test/expect"
)

// A response that was seen must stay as it was, but for the mark that another was deleted. One that was not seen stays
// where it is asked for.
func TestSeal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, more, changed string
		keep, left          bool
	}{
		{name: "as it was"},
		{name: "kept", keep: true, left: true},
		{name: "marked", more: turns.ContinuedMark},
		{name: "marked again", more: turns.ContinuedMark + turns.ContinuedMark, keep: true, left: true},
		{name: "changed", more: `{"item":{}}` + "\n", changed: "resp_1.ndjson"},
		{name: "changed before a mark", more: `{"item":{}}` + "\n" + turns.ContinuedMark, changed: "resp_1.ndjson",
			keep: true, left: true},
	} {
		session := t.TempDir()
		file, stored := filepath.Join(session, "sums"), filepath.Join(session, "state", turns.ResponsesDir)
		seen, unseen := filepath.Join(stored, "resp_1.ndjson"), filepath.Join(stored, "resp_2.ndjson")
		expect.NoError(t, os.MkdirAll(stored, 0o700))
		expect.NoError(t, os.WriteFile(seen, []byte("{}\n"), 0o600))
		expect.NoError(t, Seal(session, file))
		expect.NoError(t, os.WriteFile(seen, []byte("{}\n"+tc.more), 0o600))
		expect.NoError(t, os.WriteFile(unseen, []byte("{}\n"), 0o600))
		changed, err := Unseal(session, file, tc.keep)
		expect.NoError(t, err)
		expect.Equal(t, tc.name, changed, tc.changed)
		_, err = os.Lstat(unseen)
		expect.Equal(t, tc.name+": the other is left", err == nil, tc.left)
	}
}
