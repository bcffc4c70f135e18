package egress

import (
	"holon/responses/turns"
)

// Flood records one connection that was allowed and n that were denied, with
// lines for most of each.
func Flood(path string, n int, most int64, watch func(Fact)) error {
	l, err := openLedger(path, watch)
	if err != nil {
		return err
	}
	l.most = most
	for range n {
		if _, err := l.decided(turns.EgressDecision{EgressID: "egr_1", Verdict: turns.VerdictDenied}); err != nil {
			return err
		}
	}
	if _, err := l.decided(turns.EgressDecision{EgressID: "egr_2", Verdict: turns.VerdictAllowed}); err != nil {
		return err
	}
	return l.close()
}
