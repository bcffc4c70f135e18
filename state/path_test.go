package state_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// Names of files are those that the agent gave them, also after a way through JSON, and also where two differ in what
// is not UTF-8 alone.
func TestNamesInJSON(t *testing.T) {
	diff := state.Diff{
		Files: []state.FileChange{{Path: "a\xff", From: "b\xfe", Status: "renamed"}, {Path: "a\xfd", Status: "added"},
			{Path: "plain <ü>", Status: "added"}},
		Warnings: []state.Warning{{Code: "executed", Path: "\xc3", Message: "m"}},
	}
	data, err := json.Marshal(diff)
	expect.NoError(t, err)
	var back state.Diff
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, diff) {
		t.Errorf("%+v became %+v (%v)", diff, back, err)
	}
	if n := strings.Count(string(data), "_bytes\":\""); n != 4 {
		t.Errorf("%s has %d names in bytes, want 4", data, n)
	}
	if !strings.Contains(string(data), `{"path":"plain `) {
		t.Errorf("a plain name is not plain in %s", data)
	}
}
