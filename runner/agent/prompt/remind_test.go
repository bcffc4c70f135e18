package prompt_test

import (
	"strings"
	"testing"

	"holon/responses"
	"holon/runner/agent/prompt"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// A reminder tells the current item without what is done, within its bound.
func TestReminder(t *testing.T) {
	r := prompt.Reminding{Rounds: 10, CooldownRounds: 5, MaxTokens: 512}
	item := &view.WorkRecord{ID: "work_1", Objective: "mend the build", PlanStatus: ledger.PlanReady,
		PlanArtifact: &view.PlanArtifact{RelativePath: "work-items/work_1/plan.md", Preview: "1. read"},
		BlockedBy:    "the key", Todo: []ledger.Todo{{Text: "read", State: ledger.TodoCompleted},
			{Text: "mend", State: ledger.TodoInProgress}, {Text: "test", State: ledger.TodoPending}}}
	got := r.Of(item)
	if got == nil || got.Rounds != 10 || got.CooldownRounds != 5 {
		t.Fatalf("the reminder is %+v, want one after 10 and 5 rounds", got)
	}
	want := "\ncurrent: work_1 \"mend the build\"; plan: ready, in work-items/work_1/plan.md; blocked by: \"the key\"" +
		"\n- in_progress: \"mend\"\n- pending: \"test\""
	if notice, told, _ := strings.Cut(got.Text, "\n"); "\n"+told != want ||
		!strings.Contains(notice, "not of your operator") {
		t.Errorf("it says\n%s, want a notice and\n%s", got.Text, want)
	}
	if none := r.Of(nil); none == nil || none.Text != "" {
		t.Errorf("without an item the reminder is %+v, want one without a text", none)
	}
	item.Objective = strings.Repeat("ä", 4000)
	for _, tokens := range []int{1, 64, 512, 1 << 20} {
		r.MaxTokens = tokens
		if n := len(r.Text(item)); n > min(4*tokens, responses.MaxReminder) {
			t.Errorf("with at most %d tokens it has %d bytes, want at most four a token", tokens, n)
		}
	}
	if never := (prompt.Reminding{}).Of(item); never != nil {
		t.Errorf("without settings the reminder is %+v, want none", never)
	}
}
