package state_test

import (
	"testing"

	"holon/state"
	"holon/test/expect"
)

func TestChanged(t *testing.T) {
	for want, f := range map[string]state.FileChange{
		"+1 −2":                    {Mode: "100644", OldMode: "100644", Added: 1, Deleted: 2},
		"+0 −0, mode 755 → 644":    {Mode: "100644", OldMode: "100755"},
		"binary, mode 644 → 755":   {Mode: "100755", OldMode: "100644", Binary: true},
		"+1 −1, mode 644 → 120000": {Mode: "120000", OldMode: "100644", Added: 1, Deleted: 1},
		"+3 −0":                    {Mode: "100755", Added: 3},
	} {
		expect.Equal(t, "shown", f.Changed(), want)
	}
}
