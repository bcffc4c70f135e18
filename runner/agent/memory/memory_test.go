package memory_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/runner/agent/memory"
	"holon/state/ledger"
	"holon/test/expect"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// turn is the evidence of a turn that came to its end and left nothing else.
func turn(n int64) memory.Evidence {
	return memory.Evidence{Now: noon, Turn: ledger.Turn{Index: n, Kind: ledger.TurnCompleted, WorkspaceID: "agent_home"},
		Message: n, EpisodeID: fmt.Sprintf("ep_%d", n)}
}

func item(id string, more ...func(*ledger.WorkItem)) *ledger.WorkItem {
	w := &ledger.WorkItem{ID: id, Objective: "mend " + id, State: ledger.WorkOpen, PlanStatus: ledger.PlanReady}
	for _, change := range more {
		change(w)
	}
	return w
}

// Each kind of evidence shows in the fields that are derived from it, with its line and its reason.
func TestSnapshot(t *testing.T) {
	base := turn(1)
	base.Work = item("work_1", func(w *ledger.WorkItem) {
		w.Todo = []ledger.Todo{{Text: "read", State: ledger.TodoPending}}
	})
	base.Item, base.Scope = base.Work, []string{"workspace ws_1"}
	before, _ := memory.Remember(ledger.Memory{AgentID: "a"}, base)
	before = memory.Shown(before, before.Revision, before.Current)
	for _, c := range []struct {
		name   string
		change func(*memory.Evidence)
		reason ledger.MemoryReason
		lines  []string
	}{
		{"nothing", func(*memory.Evidence) {}, "", nil},
		{"an answer", func(e *memory.Evidence) { e.Turn.Last = "It is\x1b[2J mended.\nMore." },
			ledger.MemoryTurnCompleted, []string{`recent_decisions: "It is mended."`}},
		{"an answer of a turn that was cut short", func(e *memory.Evidence) {
			e.Turn.Last, e.Turn.Kind = "half", ledger.TurnAborted
		}, "", nil},
		{"another item", func(e *memory.Evidence) { e.Work = item("work_2") }, ledger.MemoryWorkChanged, []string{
			"current_work_item_id: work_2", "objective: mend work_2", "work_summary: runnable", "todo_list: none"}},
		{"no item", func(e *memory.Evidence) { e.Work = nil }, ledger.MemoryWorkChanged, []string{
			"current_work_item_id: none", "objective: none", "work_summary: none", "plan: none", "todo_list: none"}},
		{"a step", func(e *memory.Evidence) {
			e.Work = item("work_1", func(w *ledger.WorkItem) {
				w.Todo = []ledger.Todo{{Text: "read", State: ledger.TodoCompleted}, {Text: "test", State: ledger.TodoPending}}
			})
		}, ledger.MemoryTurnCompleted, []string{"work_summary: runnable, 1 of 2 steps completed",
			`todo_list: added "completed read", "pending test"; gone "pending read"`}},
		{"a plan", func(e *memory.Evidence) {
			w := *e.Work
			w.PlanHash, e.Work = strings.Repeat("ab", 32), &w
		}, ledger.MemoryTurnCompleted, []string{"plan: ready, work-items/work_1/plan.md with SHA-256 abababababab…"}},
		{"another place", func(e *memory.Evidence) { e.Scope = []string{"workspace ws_2"} }, ledger.MemoryScopeChanged,
			[]string{`scope_hints: added "workspace ws_2"; gone "workspace ws_1"`}},
		{"files", func(e *memory.Evidence) { e.Calls.Files = []string{"a.go", "b.go"} }, ledger.MemoryTurnCompleted,
			[]string{`working_set_files: "a.go", "b.go"`}},
		{"what it waits for", func(e *memory.Evidence) {
			e.Resumed = true
			e.Waits = []ledger.Wait{{Owner: ledger.OwnerAgent, Status: ledger.WaitActive, Kind: ledger.WaitTimer,
				WaitingFor: "the build"}}
			e.Tasks = []ledger.Task{{ID: "task_1", Purpose: "serve"}}
		}, ledger.MemoryWakeResumed, []string{`waiting_on: "timer: the build", "task_1: serve"`}},
		{"the result of a child", func(e *memory.Evidence) {
			e.Rejoined = true
			e.Child = &ledger.Task{ID: "task_1", Handle: ledger.TaskHandle{Child: &ledger.ChildHandle{AgentID: "a.b"}},
				Result: ledger.TaskResult{Output: &tasks.Output{OutputPreview: "42\nmore"}}}
		}, ledger.MemoryTaskRejoined, []string{`recent_decisions: "result of the child a.b: 42"`}},
		{"a next step", func(e *memory.Evidence) { e.Followups = []string{"look again"} }, ledger.MemoryTurnCompleted,
			[]string{`pending_followups: "look again"`}},
	} {
		e := base
		e.Turn.Index = 2
		c.change(&e)
		after, _ := memory.Remember(before, e)
		var lines []string
		var reason ledger.MemoryReason
		if after.Pending != nil {
			lines, reason = after.Pending.SummaryLines, after.Pending.Reason
		}
		if diff := cmp.Diff(c.lines, lines); diff != "" || reason != c.reason {
			t.Errorf("%s, by %q, want %q (-want +got):\n%s", c.name, reason, c.reason, diff)
		}
	}
}

// What the conversation was not shown stays pending, and only what is still so.
func TestPending(t *testing.T) {
	e := turn(1)
	e.Calls.Files = []string{"a.go"}
	m, _ := memory.Remember(ledger.Memory{AgentID: "a"}, e)
	m = memory.Shown(m, m.Revision, m.Current)
	for i, waits := range []string{"rain", "sun", ""} {
		e := turn(int64(i + 2))
		if waits != "" {
			e.Waits = []ledger.Wait{{Kind: ledger.WaitTimer, WaitingFor: waits}}
		}
		m, _ = memory.Remember(m, e)
		want := fmt.Sprintf("1 to %d: waiting_on: \"timer: %s\"", i+2, waits)
		got := "nothing"
		if p := m.Pending; p != nil {
			got = fmt.Sprintf("%d to %d: %s", p.From, p.To, strings.Join(p.SummaryLines, "|"))
		}
		if waits == "" {
			want = "nothing"
		}
		expect.Equal(t, "pending after waiting for "+waits, got, want)
	}
	if stale := memory.Shown(m, m.Revision-1, m.Current); stale.LastPrompted != 1 {
		t.Errorf("an older revision was shown, and %d counts as known", stale.LastPrompted)
	}
	m = memory.Forgotten(m, 4)
	expect.Equal(t, "pending of a conversation that forgot", strings.Join(m.Pending.SummaryLines, "|"),
		strings.Join(memory.Lines(m.Current), "|"))
	expect.Equal(t, "it is", strings.Join(m.Pending.ChangedFields, "|"), "working_set_files")
}

// An episode ends where its work does, where the agent rests, and after so many turns.
func TestBoundaries(t *testing.T) {
	completed := func(w *ledger.WorkItem) { w.State = ledger.WorkCompleted }
	on := func(w *ledger.WorkItem) func(*memory.Evidence) {
		return func(e *memory.Evidence) { e.Item = w }
	}
	rest := func(e *memory.Evidence) { e.Waiting = true }
	plain := func(*memory.Evidence) {}
	for _, c := range []struct {
		name  string
		turns []func(*memory.Evidence)
		want  string // episodes as turns:boundary, and the one that goes on
	}{
		{"one that goes on", []func(*memory.Evidence){plain, plain}, "1-2"},
		{"a switch comes before the turn", []func(*memory.Evidence){plain, on(item("w1")), on(item("w1")), on(item("w2"))},
			"1-1 active_work_switched, 2-3 active_work_switched, 4-4"},
		{"a result comes with the turn", []func(*memory.Evidence){on(item("w1")), on(item("w1", completed)), plain},
			"1-2 result_checkpoint, 3-3"},
		{"turns without an item belong to that before",
			[]func(*memory.Evidence){on(item("w1")), plain, on(item("w1"))}, "1-3"},
		{"a rest", []func(*memory.Evidence){plain, rest, plain}, "1-2 wait_boundary, 3-3"},
		{"a switch and a rest", []func(*memory.Evidence){on(item("w1")), func(e *memory.Evidence) {
			e.Item, e.Waiting = item("w2"), true
		}}, "1-1 active_work_switched, 2-2 wait_boundary"},
		{"too many turns", slices.Repeat([]func(*memory.Evidence){plain}, 25), "1-24 hard_turn_cap, 25-25"},
	} {
		m := ledger.Memory{AgentID: "a"}
		var got []string
		for i, change := range c.turns {
			e := turn(int64(i + 1))
			change(&e)
			var done []ledger.Episode
			m, done = memory.Remember(m, e)
			for _, ep := range done {
				got = append(got, fmt.Sprintf("%d-%d %s", ep.StartTurn, ep.EndTurn, ep.Boundary))
			}
		}
		if b := m.Builder; b != nil {
			got = append(got, fmt.Sprintf("%d-%d", b.StartTurn, b.EndTurn))
		}
		expect.Equal(t, c.name, strings.Join(got, ", "), c.want)
	}
}

// An episode says what its turns did.
func TestEpisode(t *testing.T) {
	first := turn(3)
	first.Item = item("work_1")
	first.Calls = memory.Calls{Files: []string{"a.go"}, Commands: []string{"make test"},
		Checks: []string{"exit 1: make test"}}
	first.Turn.Last = "It fails."
	m, _ := memory.Remember(ledger.Memory{AgentID: "a", Archived: 7}, first)
	second := turn(4)
	second.Item = item("work_1", func(w *ledger.WorkItem) { w.State = ledger.WorkCompleted })
	second.Calls = memory.Calls{Files: []string{"b.go", "a.go"}, Checks: []string{"exit 0: make test"}}
	second.Turn.Last, second.Scope = "It works.", []string{"workspace ws_1"}
	_, done := memory.Remember(m, second)
	at := noon
	want := []ledger.Episode{{ID: "ep_3", AgentID: "a", Number: 8, WorkspaceID: "agent_home", CreatedAt: noon,
		FinalizedAt: &at, StartTurn: 3, EndTurn: 4, StartMessage: 3, EndMessage: 4, Boundary: ledger.BoundaryResult,
		WorkItemID: "work_1", Objective: "mend work_1", WorkSummary: "completed", ScopeHints: []string{"workspace ws_1"},
		Summary: `turns 3 to 4; work_1 "mend work_1", completed; results "It fails.", "It works."; checks ` +
			`"exit 1: make test", "exit 0: make test"; files "b.go", "a.go"; commands "make test"`,
		WorkingSetFiles: []string{"b.go", "a.go"}, Commands: []string{"make test"},
		Verification: []string{"exit 1: make test", "exit 0: make test"}, Decisions: []string{"It fails.", "It works."},
		CarryForward: []string{}, WaitingOn: []string{}}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The work item comes before the workspace, and that before everything else; the newest of equals are shown. Those of
// another workspace are not, whatever they have in common.
func TestRelevant(t *testing.T) {
	episode := func(n int64, workItem, workspace string, files ...string) ledger.Episode {
		return ledger.Episode{Number: n, WorkItemID: workItem, WorkspaceID: workspace, WorkingSetFiles: files}
	}
	now := ledger.MemorySnapshot{WorkItemID: "w1", WorkingSetFiles: []string{"a.go"}}
	const home = ledger.HomeWorkspace
	list := []ledger.Episode{episode(1, "w1", home), episode(2, "w2", "ws_1"), episode(3, "", home, "a.go"),
		episode(4, "w2", "ws_1"), episode(5, "w1", "ws_9"), episode(6, "w3", home), episode(7, "w3", "ws_9", "a.go")}
	for _, c := range []struct {
		list []ledger.Episode
		want string
	}{
		{list, "[1 2 4]"}, {list[2:], "[3 4 6]"}, {list[4:5], "[]"}, {list[5:6], "[6]"}, {nil, "[]"},
		{append([]ledger.Episode{episode(0, "w1", "ws_1")}, slices.Repeat(list[4:5], 12)...), "[]"}, // too old
	} {
		numbers := []int64{}
		for _, e := range memory.Relevant(c.list, now, "ws_1") {
			numbers = append(numbers, e.Number)
		}
		expect.Equal(t, fmt.Sprintf("relevant of %d", len(c.list)), fmt.Sprint(numbers), c.want)
	}
}

func TestCalls(t *testing.T) {
	var c memory.Calls
	for _, data := range []string{
		`{"call":"$ make test","exit_code":2}`, `{"call":"$ ls","exit_code":0}`, `{"call":"$ go build ./..."}`,
		`{"call":"edit a.go","files":[{"path":"a.go"},{"path":"x\u001b[2J\n"}]}`, `{"call":7}`, `[`, `null`,
	} {
		c.Apply(ledger.Event{Class: turns.ToolResult, Data: json.RawMessage(data)})
	}
	c.Apply(ledger.Event{Class: turns.ToolStarted, Data: json.RawMessage(`{"call":"$ rm"}`)})
	want := memory.Calls{Files: []string{"a.go", "x"}, Commands: []string{"make test", "ls", "go build ./..."},
		Checks: []string{"exit 2: make test"}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever turns bring: sizes are bounded, revisions and numbers have no gap, each turn is in one episode or in the one
// that goes on, and nothing is pending exactly when the conversation knows all.
func TestScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "x", "好的", "\x1b]0;t\a", "\xff", strings.Repeat("\"\\", 300)})
		texts := rapid.SliceOfN(text, 0, 30)
		m := ledger.Memory{AgentID: "a"}
		var all []ledger.Episode
		turnsTaken := int64(rapid.IntRange(1, 60).Draw(t, "turns"))
		for n := int64(1); n <= turnsTaken; n++ {
			if rapid.Bool().Draw(t, "shown") {
				at := rapid.SampledFrom([]string{m.WorkspaceID, "ws_1"}).Draw(t, "shown in")
				m = memory.Shown(m, m.Revision, memory.Within(m, at).Current)
			}
			e := turn(n)
			e.Turn.WorkspaceID = rapid.SampledFrom([]string{ledger.HomeWorkspace, "ws_1", "ws_2"}).Draw(t, "workspace")
			if id := rapid.SampledFrom([]string{"", "w1", "w2"}).Draw(t, "item"); id != "" {
				e.Item = item(id, func(w *ledger.WorkItem) {
					w.Objective, w.BlockedBy = text.Draw(t, "objective"), text.Draw(t, "blocker")
					w.State = rapid.SampledFrom([]ledger.WorkState{ledger.WorkOpen, ledger.WorkCompleted}).Draw(t, "state")
					for _, s := range texts.Draw(t, "todo") {
						w.Todo = append(w.Todo, ledger.Todo{Text: s, State: ledger.TodoPending})
					}
				})
				e.Work = e.Item
			}
			e.Turn.Last, e.Waiting = text.Draw(t, "last"), rapid.Bool().Draw(t, "waiting")
			e.Followups, e.Scope = texts.Draw(t, "followups"), texts.Draw(t, "scope")
			e.Calls = memory.Calls{Files: texts.Draw(t, "files"), Commands: texts.Draw(t, "commands")}
			before := m.Revision
			var done []ledger.Episode
			m, done = memory.Remember(m, e)
			all = append(all, done...)
			if m.Revision < before || m.Revision > before+1 {
				t.Fatalf("revision %d comes after %d", m.Revision, before)
			}
			if rapid.IntRange(0, 9).Draw(t, "forgets") == 0 {
				m = memory.Forgotten(m, n)
			}
			bound(t, m, all, n)
		}
	})
}

// bound checks sizes, and that the episodes have turns 1 to n.
func bound(t *rapid.T, m ledger.Memory, all []ledger.Episode, n int64) {
	for _, kept := range []struct {
		what string
		v    any
		most int
	}{{"snapshot", m.Current, 16 << 10}, {"delta", m.Pending, ledger.MaxEventData - 1<<10},
		{"episode", m.Builder, 16 << 10}} {
		data, err := json.Marshal(kept.v)
		if err != nil || len(data) > kept.most {
			t.Fatalf("the %s has %d bytes (%v)", kept.what, len(data), err)
		}
	}
	if p := m.Pending; p != nil && (p.To != m.Revision || p.From != m.LastPrompted || len(p.SummaryLines) == 0) {
		t.Fatalf("%d to %d is pending with %d lines, of revision %d, and %d is known", p.From, p.To, len(p.SummaryLines),
			m.Revision, m.LastPrompted)
	} else if p == nil && !cmp.Equal(memory.Lines(m.Known), memory.Lines(m.Current)) {
		t.Fatalf("nothing is pending, and the conversation knows something else")
	}
	last := int64(0)
	for i, e := range all {
		if e.Number != int64(i+1) || e.StartTurn != last+1 || e.EndTurn < e.StartTurn || len(e.Summary) > 1010 {
			t.Fatalf("episode %d has number %d and turns %d to %d, after turn %d", i, e.Number, e.StartTurn, e.EndTurn, last)
		}
		last = e.EndTurn
	}
	if b := m.Builder; b != nil {
		if b.StartTurn != last+1 || b.EndTurn != n {
			t.Fatalf("turns %d to %d go on after %d of %d", b.StartTurn, b.EndTurn, last, n)
		}
		last = b.EndTurn
	}
	if last != n || m.Archived != int64(len(all)) {
		t.Fatalf("episodes have %d of %d turns, and %d of %d are counted", last, n, m.Archived, len(all))
	}
}

// What belongs to one workspace is in no episode of another one, whose searches would find it.
func TestAnEpisodeIsOfOneWorkspace(t *testing.T) {
	t.Parallel()
	var m ledger.Memory
	var done []ledger.Episode
	for n, at := range []string{"ws_1", "ws_1", "ws_2"} {
		e := turn(int64(n + 1))
		e.Turn.WorkspaceID, e.Turn.Last = at, "said in "+at
		var more []ledger.Episode
		m, more = memory.Remember(m, e)
		done = append(done, more...)
	}
	if len(done) != 1 || done[0].WorkspaceID != "ws_1" || done[0].EndTurn != 2 {
		t.Fatalf("episodes %+v, want one of ws_1 with two turns", done)
	}
	expect.Equal(t, "what goes on", m.Builder.WorkspaceID+" "+strings.Join(m.Builder.Decisions, " "), "ws_2 said in ws_2")
}

// What belongs to one workspace is not remembered in another one, nor shown to a conversation that begins there; what
// the agent did at home is its own everywhere.
func TestWorkingMemoryIsOfOneWorkspace(t *testing.T) {
	t.Parallel()
	said := func(n int64, at string) memory.Evidence {
		e := turn(n)
		e.Turn.WorkspaceID, e.Turn.Last, e.Scope = at, "said in "+at, []string{"workspace " + at}
		e.Calls.Files = []string{at + ".go"}
		return e
	}
	for _, c := range []struct{ places, want string }{
		{"ws_1 ws_1", "ws_1"}, {"agent_home ws_1", "agent_home ws_1"}, {"ws_1 ws_2", "ws_2"}, {"ws_1 agent_home", "agent_home"},
		{"agent_home ws_1 agent_home", "agent_home"}, {"ws_1 ws_2 ws_1", "ws_1"},
	} {
		m := ledger.Memory{AgentID: "a"}
		for i, at := range strings.Fields(c.places) {
			begins := memory.Within(m, at).Current // the operator may have changed it, and the conversation begins anew
			if m.WorkspaceID != at && m.WorkspaceID != ledger.HomeWorkspace && len(memory.Lines(begins)) > 0 {
				t.Errorf("%s: a conversation in %s begins with %q", c.places, at, memory.Lines(begins))
			}
			m = memory.Shown(memory.Forgotten(m, int64(i)), m.Revision, begins)
			m, _ = memory.Remember(m, said(int64(i+1), at))
			if m.Pending == nil {
				continue // it began with all that there is
			}
			for _, line := range m.Pending.SummaryLines {
				if _, gone, _ := strings.Cut(line, "gone"); strings.Contains(gone, "said in ws_") {
					t.Errorf("%s: the conversation in %s is shown what it never knew: %s", c.places, at, gone)
				}
			}
		}
		var decisions, files []string
		for _, at := range strings.Fields(c.want) {
			decisions, files = append(decisions, "said in "+at), append(files, at+".go")
		}
		expect.Equal(t, c.places, fmt.Sprint(m.Current.RecentDecisions, m.Current.WorkingSetFiles),
			fmt.Sprint(decisions, files))
	}
}
