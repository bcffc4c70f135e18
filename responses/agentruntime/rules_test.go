package agentruntime

import (
	"encoding/json"
	"fmt"
	"holon/test/expect"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events makes a log of lines "class [key=id…] [payload]": the envelope and what the class needs are filled in, and a
// cause. The line "begin" is a thread with a turn that runs.
func events(t *testing.T, log string) []Event {
	t.Helper()
	log = strings.ReplaceAll(
		log,
		"begin",
		"thread.started\nturn.submitted\nturn.started\ncontext.resolved turn_id=turn_id-1",
	)
	var out []Event
	for line := range strings.Lines(log) {
		line, text, ok := strings.Cut(strings.TrimSpace(line), " {")
		if line == "" {
			continue
		}
		payload := map[string]any{}
		if ok {
			if err := json.Unmarshal([]byte("{"+text), &payload); err != nil {
				t.Fatal(line, err)
			}
		}
		words, n := strings.Fields(line), len(out)+1
		fields := map[string]any{"type": words[0], "event_id": fmt.Sprintf("evt_%d", n), "sequence": n,
			"timestamp": "2026-11-23T07:00:00.000Z", "schema_version": SchemaVersion, "payload": payload,
			"correlation": map[string]string{"causation_id": "of a client"}}
		class := classByName()[words[0]]
		for _, text := range class.Texts {
			in := payload
			if text.Key == "status" {
				in = fields
			}
			if _, ok := in[text.Key]; !ok && (!text.Optional || text.Key == "status") {
				in[text.Key] = text.Words[0]
			}
		}
		for _, key := range class.Fields {
			if _, ok := payload[key]; !ok {
				payload[key] = map[string]any{"candidate_count": 1, "retryable": true, "failure_category": "timeout",
					"message": "m", "objective": "o", "task_kind": "k"}[key]
			}
		}
		for _, id := range append(class.IDs, Runtime, Session) {
			fields[id.String()] = id.String() + "-1"
		}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			if fields[key] = value; value == "" {
				delete(fields, key)
			} else if key == "sequence" || key == "refs" {
				fields[key] = json.RawMessage(value)
			}
		}
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(line, err)
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(line, err)
		}
		out = append(out, e)
	}
	return out
}

// A log that begins in the middle of a thread is legal as a part only, and has no gap after its beginning.
func TestPartial(t *testing.T) {
	log := events(t, "turn.submitted sequence=7 thread_id=th\nturn.started sequence=8 thread_id=th\n"+
		"task.failed sequence=10 thread_id=th turn_id=turn_id-1")
	var rules []string
	v := NewValidator('A', func(v Violation) { rules = append(rules, v.Rule) })
	v.Partial()
	for i := range log {
		v.Event("log", i, &log[i])
	}
	if !slices.Equal(rules, []string{"V5"}) { // the gap
		t.Errorf("a part breaks %v", rules)
	}
	if whole := broken(log); !slices.Contains(whole, "V5") || !slices.Contains(whole, "V9") {
		t.Errorf("the whole breaks %v", whole)
	}
}

// Every page of a legal log is legal as a part, and a violation within it is still found.
func TestPages(t *testing.T) {
	legal := maps.Clone(logs)
	for _, log := range alsoLegal {
		legal[log] = struct{ valid, invalid string }{valid: log}
	}
	for id, l := range legal {
		log := events(t, l.valid)
		for from := range log {
			for to := from + 1; to <= len(log); to++ {
				if rules := broken(log[from:to], (*Validator).Partial); len(rules) > 0 {
					t.Errorf("%s: the page of events %d to %d breaks %v", id, from+1, to, rules)
				}
			}
		}
	}
	answer := "begin\naction.resolved turn_id=turn_id-1"
	if rules := broken(events(t, answer), (*Validator).Partial); len(rules) > 0 {
		t.Errorf("a turn that answers an action of a turn before the part breaks %v", rules)
	}
	page := "tool.started turn_id=old {\"policy\":\"allow\"}\nprocess.started turn_id=old tool_call_id=tool_call_id-1"
	if rules := broken(events(t, page), (*Validator).Partial); len(rules) > 0 {
		t.Errorf("a process of a turn that began before the part breaks %v", rules)
	}
	page = "begin\nprocess.failed turn_id=turn_id-1 task_id=t run_id=r\ntask.lost task_id=t run_id=r {\"evidence\":\"e\"}"
	if rules := broken(events(t, page), (*Validator).Partial); len(rules) > 0 {
		t.Errorf("a task of a turn before the part that a later turn finds lost breaks %v", rules)
	}
	for _, tt := range []struct{ log, rule string }{
		{"tool.result\ntool.result", "V11"},
		{"begin\ntool.result status=completed", "V11"},
		{"turn.completed\nmodel.requested {\"attempt\":1}", "V17"},
		{"turn.completed\nturn.failed", "V18"},
		{"begin\naction.resolved turn_id=turn_id-1\naction.resolved turn_id=turn_id-1", "V13"},
		{queued("dequeue") + queued("dequeue"), "V51"},
		{queued("settle") + queued("settle"), "V51"},
		{`queue.changed {"op":"settle"}`, "V51"},
		{"task.started\ntask.started", "V62"},
		{"turn.submitted\nturn.started\nturn.started", "V18"},
		{"turn.started\nturn.submitted\nturn.submitted", "V19"},
	} {
		if rules := broken(events(t, tt.log), (*Validator).Partial); !slices.Contains(rules, tt.rule) {
			t.Errorf("the part %q breaks %v, want %s", tt.log, rules, tt.rule)
		}
	}
}

func queued(op string) string {
	return fmt.Sprintf("queue.changed {\"op\":%q,\"entry\":{\"message_id\":\"m\"}}\n", op)
}

// broken returns the rules that a log breaks, each once.
func broken(log []Event, options ...func(*Validator)) []string {
	var rules []string
	v := NewValidator(LevelC, func(v Violation) { rules = append(rules, v.Rule) })
	for _, option := range options {
		option(v)
	}
	for i := range log {
		v.Event("log", i+1, &log[i])
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func TestAlsoBroken(t *testing.T) {
	for _, tt := range alsoBroken {
		if rules := broken(events(t, tt.log)); !slices.Contains(rules, tt.rule) {
			t.Errorf("%q breaks %v, want %s", tt.log, rules, tt.rule)
		}
	}
	for _, log := range alsoLegal {
		if rules := broken(events(t, log)); len(rules) > 0 {
			t.Errorf("%q breaks %v", log, rules)
		}
	}
}

// What an event declares external needs no introduction, and does not end what the log has of it.
func TestExternal(t *testing.T) {
	heard := "task.cancel_requested {\"external_ids\":[\"task_id-1\"]}\ntask.cancelled {\"external_ids\":[\"task_id-1\"]}\n"
	for _, log := range []string{heard, aTask + "task.started\n" + heard + "task.cancel_requested\ntask.cancelled"} {
		if rules := broken(events(t, log)); len(rules) > 0 {
			t.Errorf("%q breaks %v", log, rules)
		}
	}
}

// A cause is an earlier event, or one of which the log does not tell.
func TestCauses(t *testing.T) {
	log := events(t, "begin\nmodel.requested {\"attempt\":1}")
	log[2].Correlation.CausationID, log[3].Correlation.CausationID = "of a client", log[1].EventID
	if rules := broken(log[:4]); len(rules) > 0 {
		t.Errorf("earlier and foreign causes break %v", rules)
	}
	for _, cause := range []string{log[3].EventID, log[2].EventID, "evt_none"} {
		log[2].Correlation.CausationID = cause
		if rules := broken(log[:4]); !slices.Equal(rules, []string{"V9"}) {
			t.Errorf("the cause %s of the third event breaks %v, want V9", cause, rules)
		}
	}
	if rules := broken(log[:4], (*Validator).Partial); len(rules) > 0 {
		t.Errorf("the cause of an event before a part breaks %v", rules)
	}
}

// A client may give a turn the id that another client gave a session.
func TestChosenIDs(t *testing.T) {
	log := events(t, "thread.started\nturn.submitted turn_id=a\nthread.started session_id=a thread_id=other sequence=1")
	if rules := broken(log); len(rules) > 0 {
		t.Errorf("a session with the id of an earlier turn breaks %v", rules)
	}
}

// The sender of a message may name an event of another log as its cause, but for the agent itself.
func TestCauseOfMessage(t *testing.T) {
	for sender, want := range map[string][]string{"outside": nil, "self": {"V9"}} {
		log := events(t, "thread.started\n"+`queue.changed {"op":"enqueue","entry":{"message_id":"m"},"sender":"`+sender+`"}`)
		log[1].Correlation.CausationID = "evt_of_another_agent"
		if rules := broken(log); !slices.Equal(rules, want) {
			t.Errorf("a message of %s breaks %v, want %v", sender, rules, want)
		}
	}
}

func TestRules(t *testing.T) {
	for i, r := range rules() {
		if r.number != i+1 || (r.check == nil) != (r.why != "") {
			t.Errorf("rule %d of the table is %+v", i+1, r)
		}
		log, ok := logs[r.id()]
		expect.Equal(t, r.id()+": has logs", ok, (r.check != nil))
		if !ok {
			continue
		}
		if got := broken(events(t, log.valid)); slices.Contains(got, r.id()) {
			t.Errorf("%s: the valid log breaks %v", r.id(), got)
		}
		if got := broken(events(t, log.invalid)); !slices.Contains(got, r.id()) {
			t.Errorf("%s: the invalid log breaks only %v", r.id(), got)
		}
	}
}

// A portable reader that ignores the events of the vendor reaches the same verdict.
func TestWithoutVendorEvents(t *testing.T) {
	for id, log := range logs {
		all := events(t, strings.ReplaceAll(log.valid, "begin", "begin\nholon.brief.created turn_id=turn_id-1"))
		portable := slices.DeleteFunc(slices.Clone(all), func(e Event) bool { return IsVendor(e.Type) })
		sequence := int64(0)
		for i := range portable {
			if portable[i].EventID != "a" { // V4 repeats one on purpose
				sequence++
				portable[i].Sequence = sequence
			}
		}
		if with, without := broken(all), broken(portable); !slices.Equal(with, without) {
			t.Errorf("%s: breaks %v with and %v without holon.* events", id, with, without)
		}
	}
}

// A prefix of a legal log is legal (V20).
func TestPrefix(t *testing.T) {
	all := events(t, request+"model.completed\nturn.completed")
	for n := range all {
		if got := broken(all[:n]); len(got) > 0 && !slices.Equal(got, broken(all)) {
			t.Errorf("the first %d events break %v", n, got)
		}
	}
}

func TestClasses(t *testing.T) {
	count := map[bool]int{}
	for _, c := range classes() {
		count[c.Core]++
	}
	if count[true] != 58 || count[false] != 55 {
		t.Errorf("%d core and %d extended classes", count[true], count[false])
	}
}

// The reference page states each rule that judges a log under its level, and names the others behind them.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/agent-runtime.md")
	expect.NoError(t, err)
	_, list, _ := strings.Cut(string(data), "## The rules\n")
	got := regexp.MustCompile(`: .{10,}\.\n`).ReplaceAllString(list, "\n")
	var want strings.Builder
	var level Level
	var others []string
	for _, r := range rules() {
		if r.check == nil {
			others = append(others, r.id())
			continue
		}
		if r.level() != level {
			level = r.level()
			fmt.Fprintf(&want, "\nLevel %c:\n\n", level)
		}
		fmt.Fprintf(&want, "* %s\n", r.id())
	}
	want.WriteString("\nNot judged from a log\n")
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("the page differs from the rules:\n%s", diff)
	}
	if unjudged := "\nNot judged from a log: " + strings.Join(others, ", ") + ".\n"; !strings.HasSuffix(list, unjudged) {
		t.Errorf("the page does not end with %s", unjudged)
	}
}
