package rules

import (
	"testing"
	"time"

	"holon/state/ledger"
	"holon/test/expect"
)

// What a child is held up by is what its parent can do about it.
func TestChildPhase(t *testing.T) {
	later, self := time.Now(), ledger.Entry{Sender: ledger.FromSelf}
	paced := Situation{Queued: 1}
	paced.Head(ledger.Progress{Idle: 2, EndedAt: &later}, self)
	for name, tt := range map[string]struct {
		s             Situation
		phase, reason string
	}{
		"a turn":  {Situation{RunID: "turn_1", RetryAt: &later, Queued: 1}, ChildRunning, ""},
		"queued":  {Situation{Queued: 1}, ChildRunning, ""},
		"paced":   {paced, ChildRunning, "delayed"},
		"stopped": {Situation{Stopped: true, Queued: 1, RetryAt: &later}, ChildBlocked, "stopped"},
		"blocked": {Situation{Queued: 1, Blocked: "spent", BlockedBy: CodeBudgetSpent}, ChildBlocked, CodeBudgetSpent},
	} {
		phase, reason := ChildPhase(tt.s, nil)
		expect.Equal(t, name, phase+" "+reason, tt.phase+" "+tt.reason)
	}
}

// The result of a child says of its tree what is true when its end is recorded.
func TestWorktreeResult(t *testing.T) {
	result := func(w ledger.Worktree) string {
		return TaskResult(ledger.Task{ID: "task_1", Handle: ledger.TaskHandle{Child: &ledger.ChildHandle{Worktree: &w}}})
	}
	expect.Contains(t, "not looked at", result(ledger.Worktree{}), "Its tree is being looked at")
	expect.Contains(t, "clean", result(ledger.Worktree{ChangedFiles: []string{}}), "It changed no files of its tree.\n")
	expect.Contains(t, "changed", result(ledger.Worktree{ChangedFiles: []string{"a b"}, Changed: 1}), `"a b"`)
}
