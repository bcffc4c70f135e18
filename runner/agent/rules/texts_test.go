package rules_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holon/runner/agent/rules"
	"holon/state/ledger"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i, s := range want {
		if d, ok := rules.Backoff(i+1, 0); !ok || d != s*time.Second {
			t.Errorf("after failure %d: %v, %v", i+1, d, ok)
		}
		if d, _ := rules.Backoff(i+1, 0.999); d < s*time.Second*4/5 || d >= s*time.Second {
			t.Errorf("after failure %d with jitter: %v", i+1, d)
		}
	}
	if _, ok := rules.Backoff(rules.MaxTries, 0); ok {
		t.Error("it is tried more than MaxTries times")
	}
}

func TestSummary(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		" \n\t\n":                       "",
		"\n\n  one line \nand another":  "one line",
		"a\x1b[31mred":                  "a[31mred",
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
		if utf8.RuneCountInString(got) > 160 || strings.ContainsAny(got, "\n\r\x1b") ||
			got != strings.TrimSpace(got) {
			t.Fatalf("Summary(%q) = %q", s, got)
		}
	})
}

func TestSameText(t *testing.T) {
	if !rules.SameText(" a  b\n", "a b") || rules.SameText("a b", "ab") {
		t.Error("texts are compared wrongly")
	}
}

// The registry has every constant that names an event, once, and says what it is.
func TestEvents(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range rules.Events() {
		if seen[e.Name] || e.Level < rules.LevelActionRequired || e.Level > rules.LevelTrace || e.Category == "" ||
			!strings.HasSuffix(e.Doc, ".") {
			t.Errorf("%+v is there twice or incomplete", e)
		}
		seen[e.Name] = true
		if got, ok := rules.Event(e.Name); !ok || got != e {
			t.Errorf("%s is not found", e.Name)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, _ := strconv.Unquote(lit.Value)
			if named++; !seen[name] {
				t.Errorf("%s is not in the registry", name)
			}
		}
		return true
	})
	if named != len(seen) {
		t.Errorf("the registry has %d types, the constants name %d", len(seen), named)
	}
}

func TestBriefLevel(t *testing.T) {
	waiting := ledger.Closure{Outcome: ledger.OutcomeWaiting, WaitingReason: ledger.AwaitingOperator}
	if rules.BriefLevel(waiting, false) != rules.LevelActionRequired ||
		rules.BriefLevel(ledger.Closure{}, false) != rules.LevelTurnResult ||
		rules.BriefLevel(ledger.Closure{}, true) != rules.LevelProgress {
		t.Error("briefs have other levels")
	}
}
