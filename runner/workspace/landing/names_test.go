package landing

import (
	"encoding/json"
	"testing"
)

// Names that JSON cannot hold stand there as bytes as well.
func TestResultInJSON(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]ApplyResult{
		`{"path":"/w","written":["a"],"deleted":[]}`: {Path: "/w", Written: []string{"a"}, Deleted: []string{}},
		`{"path":"/w","written":["a","b\ufffd"],"deleted":[],"written_bytes":["YQ==","Yv8="]}`: {Path: "/w",
			Written: []string{"a", "b\xff"}, Deleted: []string{}},
	} {
		if got, err := json.Marshal(r); err != nil || string(got) != want {
			t.Errorf("it is %s (%v), want %s", got, err, want)
		}
	}
}
