package rules_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/state/ledger"
	"holon/test/expect"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i, s := range want {
		if d := rules.Backoff(i+1, 0); d != s*time.Second {
			t.Errorf("after failure %d: %v", i+1, d)
		}
		if d := rules.Backoff(i+1, 0.999); d < s*time.Second*4/5 || d >= s*time.Second {
			t.Errorf("after failure %d with jitter: %v", i+1, d)
		}
	}
}

func TestSummary(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		" \n\t\n":                       "",
		"\n\n  one line \nand another":  "one line",
		"a\x1b[31mred":                  "ared",
		"tab\tand\u202eturned":          "tab andturned",
		strings.Repeat("ä", 160):        strings.Repeat("ä", 160),
		strings.Repeat("ä", 161) + "\n": strings.Repeat("ä", 159) + "…",
	} {
		if got := rules.Summary(in); got != want {
			t.Errorf("Summary(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSummary(f *testing.F) {
	f.Add("a\nb")
	f.Add("\xff\u2028x")
	f.Fuzz(func(t *testing.T, s string) {
		got := rules.Summary(s)
		if utf8.RuneCountInString(got) > 160 {
			t.Fatalf("utf8.RuneCountInString(got) = %d, want at most 160", utf8.RuneCountInString(got))
		}
		if strings.ContainsAny(got, "\n\r\x1b") {
			t.Fatal(`strings.ContainsAny(got, "\n\r\x1b") = true, want false`)
		}
		expect.Equal(t, "summary", got, strings.TrimSpace(got))
	})
}

func TestSameText(t *testing.T) {
	if !rules.SameText(" a  b\n", "a b") || rules.SameText("a b", "ab") {
		t.Error("texts are compared wrongly")
	}
}

func TestBriefLevel(t *testing.T) {
	waiting := ledger.Closure{Outcome: ledger.OutcomeWaiting, WaitingReason: ledger.AwaitingOperator}
	expect.Equal(t, "level of a question", record.BriefLevel(waiting, false), record.LevelActionRequired)
	expect.Equal(t, "level of a result", record.BriefLevel(ledger.Closure{}, false), record.LevelTurnResult)
	expect.Equal(t, "level of an acknowledgement", record.BriefLevel(ledger.Closure{}, true), record.LevelProgress)
}
