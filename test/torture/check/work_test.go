package check

import (
	"strings"
	"testing"
	"time"
)

// Every law about work items is broken once, and found.
func TestWorkLawsAreFound(t *testing.T) {
	t.Parallel()
	const item = `INSERT INTO work_items (id, agent_id, step, state, data) VALUES ('work_x', 'a', 1, `
	const report = `; INSERT INTO delivery_summaries (work_item_id, data) VALUES ('work_x', '{}')`
	look := func(l *Ledger) error { return l.Lawful(t.Context()) }
	findPlanted(t, look, []planted{
		{item + `'completed', '{}')`, "a completed work item was not completed once"},
		{item + `'open', '{}')` + report, "a work item that is open has a report"},
		{item + `'completed', '{}')` + report, "the report of a work item was not told once"},
		{item + `'completed', '{"objective":"` + Pair + `"}')` + report,
			"a work item has the report of a round that completed two"},
		{`UPDATE agent_states SET data = json_set(data, '$.current_work_item_id', 'work_x')`,
			"the current work item is not open"},
		{item + `'open', '{"plan_status":"draft"}')`, "a work item that may run has no turn to come"},
		{item + `'open', '{"blocked_by":"x"}')`, ""},
		{item + `'open', '{"plan_status":"needs_input"}')`, ""},
	})
}

func TestPace(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	begin := func(message string, ms int) observation {
		return observation{agent: "a", event: "message_processing_started", message: message, subsystem: "work_queue",
			objective: Idle, of: "work_1", at: start.Add(time.Duration(ms) * time.Millisecond)}
	}
	settle := func(message string, ms int) observation {
		return observation{agent: "a", event: "queue_entry_settled", message: message,
			at: start.Add(time.Duration(ms) * time.Millisecond)}
	}
	prompt := observation{agent: "a", event: "message_processing_started", message: "p"}
	written := observation{agent: "a", event: "work_item_written", of: "work_1"}
	blocked := observation{agent: "a", event: "work_item_written", of: "work_1", waits: true}
	for name, tc := range map[string]struct {
		moments []observation
		pauses  int
		want    string // "": no error
	}{
		"in time": {[]observation{begin("1", 0), settle("1", 10), begin("2", 1010), settle("2", 1020), begin("3", 3020)},
			2, ""},
		"at once": {[]observation{begin("1", 0), settle("1", 10), begin("2", 500)}, 1, "it may after 1s"},
		"the second too early": {[]observation{begin("1", 0), settle("1", 10), begin("2", 1010), settle("2", 1020),
			begin("3", 2500)}, 2, "it may after 2s"},
		"somebody spoke":      {[]observation{begin("1", 0), settle("1", 10), prompt, begin("2", 20)}, 0, ""},
		"an item changed":     {[]observation{begin("1", 0), settle("1", 10), written, begin("2", 20)}, 0, ""},
		"a turn that was cut": {[]observation{begin("1", 0), begin("1", 20), settle("1", 30), begin("2", 40)}, 0, ""},
		"blocked":             {[]observation{blocked, begin("1", 0)}, 0, "which is blocked or completed"},
		"blocked meanwhile":   {[]observation{begin("1", 0), blocked, begin("1", 10)}, 0, ""},
		"no longer blocked":   {[]observation{blocked, written, begin("1", 0)}, 0, ""},
	} {
		p := pace{waiting: make(map[string]bool), begun: make(map[string]bool)}
		got := ""
		for _, m := range tc.moments {
			if err := p.take(m); err != nil {
				got += err.Error()
			}
		}
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		if p.pauses != tc.pauses {
			t.Errorf("%s: %d pauses, want %d", name, p.pauses, tc.pauses)
		}
	}
}
