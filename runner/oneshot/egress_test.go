package oneshot

import (
	"testing"

	"holon/responses/turns"
)

// What a person reads of a denial can do nothing to a terminal.
func TestDescribeDenial(t *testing.T) {
	got := DescribeDenial(turns.EgressDecision{Host: "a\x1b]0;x\x07.example\n", Address: "10.0.0.1",
		Reason: "address_not_public"})
	if got != "a.example at 10.0.0.1 (address_not_public)" {
		t.Errorf("%q", got)
	}
}
