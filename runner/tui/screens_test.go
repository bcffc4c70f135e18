package tui

import (
	"fmt"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"holon/runner/agent/view"
	"holon/runner/present"
	"holon/state/ledger"
)

var sizes = [][2]int{{80, 24}, {120, 40}, {60, 15}}

func exit(code int) *int { return &code }

// talk fills a conversation with what there is to draw.
func talk(l *lab, t Target) {
	l.event(message1("m1", "Fix the failing test, please.\nIt is the one about dates."),
		rowsEvent{
			{Key: "c1", Level: present.Verbose, Category: present.CategoryTool, Title: "ExecCommand",
				Call: &present.Call{Text: "go test ./...", Output: []string{"--- FAIL: TestDates", "FAIL"}, ExitCode: exit(1),
					DurationMS: 12_400}, Failed: true},
			{Key: "c2", Level: present.Verbose, Category: present.CategoryTool, Title: "ApplyPatch",
				Call: &present.Call{Text: "edit dates.go (+1 −1)", Diff: []string{"-return t.Local()", "+return t.UTC()"}, DurationMS: 8}},
			{Key: "w", Level: present.Info, Category: present.CategoryWork, Title: "work item created",
				Summary: "work item created: dates are in UTC everywhere"},
			{Key: "n", Level: present.Info, Visibility: "action_required", Category: present.CategoryNotification,
				Title: "for the operator", Summary: "for the operator: may I change the golden files?"},
			{Key: "d", Level: present.Debug, Category: present.CategoryState, Title: "state", Summary: "agent state changed: asleep"},
		},
		answerRow("a1", "The test **failed** because `t.Local()` depends on the zone.\n\n1. `dates.go` uses UTC now\n2. all tests pass", false),
		message1("m2", "Thanks. And the documentation?"),
		rowsEvent{{Key: "c3", Level: present.Verbose, Category: present.CategoryTool, Title: "ExecCommand", Open: true,
			Call: &present.Call{Text: "grep -rn Local docs"}}},
		statusEvent{Target: t, Name: "main", State: "awake running", Running: true,
			Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Model: "openai/gpt-5", Workspace: "/home/user/src/app", Queued: 2,
			Tokens: 48_213, Cost: "0.0412", Isolation: "not_enforced: network_confinement", Work: "dates are in UTC everywhere", Begun: 1})
	l.event(doingEvent{Doing: "$ grep -rn Local docs"})
	l.send(tickMsg(time.Date(2026, 1, 2, 3, 5, 17, 0, time.UTC)))
}

// things are pages as a backend makes them.
func things() map[string]page {
	return map[string]page{
		"agents": {Title: "agents and sessions", Heads: []string{"NAME", "STATE", "QUEUE", "MODEL", "WORKSPACE"}, Items: []item{
			{ID: "main", Mark: true, Cells: []string{"main", "awake running", "2", "openai/gpt-5", "app"}},
			{ID: "release", Cells: []string{"release", "asleep", "0", "anthropic/claude-sonnet-4-5", "/home/user/src/release-notes"}},
			{ID: "ses_1", Cells: []string{"session editor", "idle", "", "openai/gpt-5", "/home/user/src/app"}}}},
		"work": workPage([]view.WorkRecord{
			{ID: "work_0b1c5e5e2a8d4d0f8a0c2f9d1e", Objective: "a release", State: "completed"},
			{ID: "work_a73a475a3d455df1aa8a27a010", Current: true, SchedulingState: "waiting_operator",
				Objective: "dates are in UTC everywhere, also in the documents of the project",
				Todo:      []ledger.Todo{{State: "completed"}, {}, {}}}}),
		"work work_a73a475a3d455df1aa8a27a010": {Title: "work item work_01j", Text: "# dates are in UTC everywhere\n\nrunnable\n\n- [x] dates.go\n- [ ] docs\n\n## Plan\n\nFirst the code."},
		"tasks": {Title: "tasks", Heads: []string{"TASK", "STATUS", "STARTED", "COMMAND"}, Items: []item{
			{ID: "task_1", Mark: true, Cells: []string{"task_01j", "running", "01-02 03:04", "make watch"}}}},
		"tasks task_1": {Title: "task task_01j", Text: "running: make watch\n\ncompiled in 1.2s\nwaiting for changes", Raw: true, Live: true},
		"children": {Title: "children", Heads: []string{"CHILD", "PHASE", "TOKENS", "WORK"}, Items: []item{
			{ID: "task_2", Cells: []string{"child_01j", "waiting", "1200", "translate the manual: waits for a task"}}}},
		"workspace": {Title: "workspaces", Heads: []string{"ALIAS", "STATE", "COPIES", "PATH"}, Items: []item{
			{ID: "ws_1", Mark: true, Cells: []string{"app", "active", "2, review or cleanup pending", "/home/user/src/app"}}}},
		"transcript": {Title: "transcript", Text: "── 01-02 03:04  incoming message\n{\n  \"kind\": \"operator_prompt\"\n}", Raw: true},
		"events": {Title: "events", Heads: []string{"EVENT", "TIME", "TYPE", "SUMMARY"}, Items: []item{
			{ID: "12", Cells: []string{"12", "03:04:05", "turn_terminal", "turn completed"}},
			{ID: "11", Cells: []string{"11", "03:04:04", "tool_executed", "ExecCommand: go test ./..."}}}},
		"events 12": {Title: "event 12", Text: "{\n  \"event_seq\": 12\n}", Raw: true},
		"prompt":    {Title: "what the model would be asked", Text: "{\n  \"instructions\": \"You are an agent.\"\n}", Raw: true},
		"model": {Title: "models", Heads: []string{"MODEL", "WINDOW", "STATE"}, Items: []item{
			{ID: "openai/gpt-5", Mark: true, Cells: []string{"openai/gpt-5", "400000", "ready"}},
			{ID: "default", Cells: []string{"default", "", "the one that the daemon has"}}}},
		"rewind": {Title: "turns", Heads: []string{"TURN", "TIME", "ASKED", "ANSWER"}, Items: []item{
			{ID: "resp_1", Cells: []string{"1", "03:04:05", "Fix the failing test, please.", "The test failed because"}},
			{ID: "resp_2", Cells: []string{"left", "03:07:05", "Use another library.", "(files are not kept) It is done."}},
			{ID: "resp_3", Mark: true, Cells: []string{"2", "03:09:05", "Thanks. And the documentation?", ""}}}},
	}
}

// Every screen, at sizes that people have.
func TestScreens(t *testing.T) {
	t.Parallel()
	agent := Target{Agent: "main"}
	changes := []change{{Title: "app", Files: []string{"modified dates.go  +1 −1", "added    .envrc  +1 −0"},
		Executed: []string{".envrc: executed by shells on entering"}, Note: "big.iso: too large",
		Patch: "diff --git a/dates.go b/dates.go\n--- a/dates.go\n+++ b/dates.go\n@@ -1,2 +1,2 @@\n package dates\n-var zone = time.Local\n+var zone = time.UTC\n"}}
	open := func(keys ...string) func(*lab) {
		return func(l *lab) {
			talk(l, agent)
			l.pages, l.changes = things(), changes
			l.keys(keys...)
		}
	}
	for name, do := range map[string]func(*lab){
		"welcome": func(l *lab) {
			l.event(statusEvent{Target: Target{Workspace: "/home/user/src/app"}, Name: "new session", State: "ready",
				Model: "openai/gpt-5", Workspace: "/home/user/src/app"})
		},
		"info":      open(),
		"verbose":   open("/display verbose", "enter"),
		"debug":     open("/display debug", "enter"),
		"composer":  open("a first line", "alt+enter", "and a second one"),
		"commands":  open("/"),
		"interrupt": open("esc"),
		"away":      func(l *lab) { talk(l, agent); l.event(awayEvent{}) },
		"stopped": func(l *lab) {
			talk(l, agent)
			l.event(statusEvent{Target: agent, Name: "main", State: "stopped", Hint: "holon agent start main"})
		},
		"agents":     open("/agents", "enter", "down"),
		"work":       open("/work", "enter"),
		"workitem":   open("/work", "enter", "enter"),
		"tasks":      open("/tasks", "enter"),
		"output":     open("/tasks", "enter", "enter"),
		"children":   open("/children", "enter"),
		"workspace":  open("/workspace", "enter"),
		"transcript": open("/transcript", "enter"),
		"events":     open("/events", "enter"),
		"event":      open("/events", "enter", "enter"),
		"prompt":     open("/prompt", "enter"),
		"model":      open("/model", "enter"),
		"rewind":     open("/rewind", "enter"),
		"goback":     open("/rewind", "enter", "enter"),
		"diff":       open("/diff", "enter", "down", "down", "down", "down", "down", "down", "down", "down", "why not a constant?", "enter"),
		"apply":      open("/apply", "enter"),
		"help":       open("/help", "enter"),
		"none":       open("/children", "enter", "esc", "/work none", "enter"),
		"waits": func(l *lab) {
			talk(l, Target{Session: "ses_1"})
			l.keys("first run the linter", "enter", "then the tests", "enter")
			l.send(attachedMsg{file: attachment{Name: "screenshot.png", Size: 48_213}})
			l.keys("as shown here")
		},
	} {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s %dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				target := agent
				if name == "welcome" || name == "waits" {
					target = Target{Workspace: "/home/user/src/app"}
				}
				l := newLab(t, target, size[0], size[1])
				do(l)
				l.golden(name)
			})
		}
	}
}

// A terminal that changes its size shows what one shows that had it from the beginning.
func TestResize(t *testing.T) {
	t.Parallel()
	sized := func(width, height int) *lab {
		l := newLab(t, Target{Agent: "main"}, width, height)
		talk(l, Target{Agent: "main"})
		return l
	}
	l := sized(120, 40)
	for _, size := range append(sizes, [2]int{20, 5}, [2]int{300, 100}, [2]int{80, 24}) {
		l.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		if got, want := l.screen(), sized(size[0], size[1]).screen(); got != want {
			t.Errorf("at %v after a change:\n%s\nwant\n%s", size, got, want)
		}
	}
}
