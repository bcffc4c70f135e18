package oneshot

import (
	"testing"

	"holon/responses/turns"
)

// The text of a denial has no characters that a terminal obeys.
func TestDescribeDenial(t *testing.T) {
	got := DescribeDenial(turns.EgressDecision{Host: "a\x1b]0;x\x07.example\n", Address: "10.0.0.1",
		Reason: "address_not_public"})
	if got != "a.example at 10.0.0.1 (address_not_public)" {
		t.Errorf("%q", got)
	}
}
