package rules_test

import (
	"testing"
	"time"

	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// Turns that an agent makes for itself and that change nothing come at growing
// intervals, and then no more.
func TestBackOff(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	own := ledger.Entry{Sender: ledger.FromSelf}
	p := rules.Advance(ledger.Progress{}, ledger.FromRuntime, "tree", false, now)
	if at := rules.Due(p, own); !at.IsZero() {
		t.Errorf("the first one is due at %v", at)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		p = rules.Advance(p, ledger.FromSelf, []string{"tree", ""}[i%2], false, now) // unknown does not count as a change
		if at := rules.Due(p, own); !at.Equal(now.Add(want*time.Second)) || rules.Stalled(p) {
			t.Errorf("after %d turns: %v, stalled %v", i+1, at.Sub(now), rules.Stalled(p))
		}
		if at := rules.Due(p, ledger.Entry{Sender: ledger.FromOperator}); !at.IsZero() {
			t.Errorf("the operator waits until %v", at)
		}
	}
	later := now.Add(9 * time.Hour)
	if at := rules.Due(p, ledger.Entry{Sender: ledger.FromSelf, NotBefore: &later}); !at.Equal(later) {
		t.Errorf("a message that cannot be begun is due at %v", at)
	}
	stalled := rules.Advance(p, ledger.FromSelf, "tree", false, now)
	if !rules.Stalled(stalled) {
		t.Errorf("it goes on: %+v", stalled)
	}
	if fresh := rules.Fresh(stalled); rules.Stalled(fresh) || !rules.Due(fresh, own).IsZero() ||
		fresh.Home != "tree" {
		t.Errorf("a message of another sender changes nothing: %+v", fresh)
	}
	if w := rules.Advance(p, ledger.FromSelf, "tree", true, now); w.Idle != 0 || rules.Stalled(w) {
		t.Errorf("a change of a work item does not count: %+v", w)
	}
	if p = rules.Advance(p, ledger.FromSelf, "other", false, now); p.Idle != 0 || !rules.Due(p, own).IsZero() {
		t.Errorf("a change of the home does not count: %+v", p)
	}
}

// However much it changes, an agent goes on by itself only so long.
func TestSelfTurns(t *testing.T) {
	var p ledger.Progress
	for i := range rules.MaxSelfTurns {
		if rules.Stalled(p) {
			t.Fatalf("stalled after %d turns", i)
		}
		p = rules.Advance(p, ledger.FromSelf, string(rune('a'+i%2)), false, time.Now())
	}
	if !rules.Stalled(p) || p.Idle != 0 && p.Idle != 1 {
		t.Errorf("%+v", p)
	}
}

func TestResult(t *testing.T) {
	for _, c := range []struct {
		idle int
		by   ledger.Sender
		want ledger.Sender
	}{
		{0, ledger.FromTask, ledger.FromTask}, {1, ledger.FromTask, ledger.FromSelf}, {1, ledger.FromSelf, ledger.FromSelf},
		{5, ledger.FromOperator, ledger.FromTask}, {5, ledger.FromOutside, ledger.FromTask},
		{5, ledger.FromRuntime, ledger.FromTask}, {0, "", ledger.FromRuntime}, {5, "", ledger.FromRuntime},
	} {
		if got := rules.Result(ledger.Progress{Idle: c.idle}, c.by); got != c.want {
			t.Errorf("after %d turns without progress, the result of a task that a turn of %q started is from %s, want %s",
				c.idle, c.by, got, c.want)
		}
	}
	if p := rules.Advance(ledger.Progress{}, ledger.FromTask, "tree", false, time.Now()); p.Idle != 1 || p.Turns != 0 {
		t.Errorf("a turn for the result of a task counts as %+v, want one that is idle, not one of the agent's own", p)
	}
}

func TestSender(t *testing.T) {
	for kind, want := range map[ledger.OriginKind]ledger.Sender{
		ledger.OriginOperator: ledger.FromOperator, ledger.OriginSystem: ledger.FromSelf,
		ledger.OriginTask: ledger.FromRuntime, ledger.OriginTimer: ledger.FromRuntime,
		ledger.OriginWebhook: ledger.FromOutside, ledger.OriginChannel: ledger.FromOutside,
		ledger.OriginCallback: ledger.FromOutside, "": ledger.FromOutside,
	} {
		if got := rules.Sender(ledger.Origin{Kind: kind}); got != want {
			t.Errorf("a message of origin %q is from %s", kind, got)
		}
	}
}
