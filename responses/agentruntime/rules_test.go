package agentruntime_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "holon/responses/agentruntime"
)

// events makes a log of lines "class [key=id…] [payload]": the envelope and the ids that the class needs are filled in.
// The line "begin" is a thread with a turn that runs.
func events(t *testing.T, log string) []Event {
	t.Helper()
	log = strings.ReplaceAll(
		log,
		"begin",
		"thread.started\nturn.submitted\nturn.started\ncontext.resolved turn_id=turn_id-1",
	)
	var out []Event
	for line := range strings.Lines(log) {
		line, payload, ok := strings.Cut(strings.TrimSpace(line), " {")
		if line == "" {
			continue
		}
		words, n := strings.Fields(line), len(out)+1
		fields := map[string]any{"type": words[0], "event_id": fmt.Sprintf("evt_%d", n), "sequence": n,
			"timestamp": "2026-11-23T07:00:00.000Z", "schema_version": SchemaVersion, "payload": json.RawMessage("{}")}
		if ok {
			fields["payload"] = json.RawMessage("{" + payload)
		}
		class, _ := ClassOf(words[0])
		for _, id := range append(class.IDs, Runtime, Session) {
			fields[id.String()] = id.String() + "-1"
		}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			if fields[key] = value; value == "" {
				delete(fields, key)
			} else if key == "sequence" {
				fields[key] = json.Number(value)
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
	v := NewValidator(LevelA, func(v Violation) { rules = append(rules, v.Rule) })
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
	for id, l := range logs {
		log := events(t, l.valid)
		for from := range log {
			for to := from + 1; to <= len(log); to++ {
				if rules := broken(log[from:to], (*Validator).Partial); len(rules) > 0 {
					t.Errorf("%s: the page of events %d to %d breaks %v", id, from+1, to, rules)
				}
			}
		}
	}
	page := "tool.started turn_id=old {\"policy\":\"allow\"}\nprocess.started turn_id=old tool_call_id=tool_call_id-1"
	if rules := broken(events(t, page), (*Validator).Partial); len(rules) > 0 {
		t.Errorf("a process of a turn that began before the part breaks %v", rules)
	}
	for _, tt := range []struct{ log, rule string }{
		{"tool.result\ntool.result", "V11"},
		{"begin\ntool.result status=completed", "V11"},
		{"turn.completed\nmodel.requested {\"attempt\":1}", "V17"},
		{"turn.completed\nturn.failed", "V18"},
		{queued("dequeue") + queued("dequeue"), "V51"},
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

const (
	tool    = "begin\ntool.started {\"safe_args\":{},\"policy\":\"allow\"}\n"
	request = "begin\nrouting.decided\nmodel.requested {\"attempt\":1}\n"
	aTask   = "task.created\ntask.accepted\n"
)

// alsoBroken are further ways to break rules.
var alsoBroken = []struct{ rule, log string }{
	{"V1", "thread.started schema_version=other-9"},
	{"V8", "begin\ntool.started {\"message_id\":\"tool_call_id-1\"}"},
	{
		"V8",
		"thread.started\nturn.submitted\nqueue.changed turn_id=turn_id-1 {\"op\":\"settle\",\"entry\":{\"message_id\":\"turn_id-1\"}}",
	},
	{"V8", "begin\ntool.started tool_call_id=same {\"safe_args\":{}}\ntask.created task_id=same"},
	{"V8", "thread.started\nqueue.changed {\"op\":\"enqueue\",\"entry\":{\"message_id\":\"m\"}}\nturn.submitted turn_id=m"},
	{"V9", "task.created parent_task_id=none"},
	{"V9", aTask + "task.started root_task_id=none"},
	{"V9", "task.lost {\"evidence\":\"e\",\"external_ids\":[\"other\"]}"},
	{"V9", "begin\ncontext.resolved session_id=other turn_id=turn_id-1"},
	{"V11", tool + "tool.result status=completed {\"preview\":\"\"}\ntool.started"},
	{"V13", "begin\naction.required\naction.required"},
	{"V14", "begin\nprocess.started\nprocess.started"},
	{"V15", request + "model.completed\nmodel.requested {\"attempt\":1}"},
	{"V19", "begin\nturn.submitted"},
	{"V19", "begin\nturn.completed\nturn.submitted"},
	{"V26", request + "model.failed {\"outcome\":\"retrying\"}\nmodel.requested model_request_id=b {\"attempt\":1}"},
	{"V26", request + "model.failed {\"outcome\":\"retrying\"}\nmodel.requested model_request_id=b {\"attempt\":3}"},
	{"V26", request + "model.completed\nmodel.requested model_request_id=b {\"attempt\":2}"},
	{"V16", tool + "process.started tool_call_id=tool_call_id-1\ntool.failed\nturn.completed"},
	{"V27", `begin
		turn.failed status=failed {"failure_category":"","retryable":false}`},
	{"V27", `begin
		turn.failed status=failed {"failure_category":"timeout","retryable":"perhaps"}`},
	{"V32", tool + `tool.failed {"failure_category":"timeout","message":"m","retryable":0}`},
	{"V33", `begin
		tool.started {"safe_args":{},"policy":"deny"}
		tool.result status=completed {"preview":""}`},
	{"V36", `begin
		output.truncated {"kept_bytes":3,"size_bytes":2,"truncation":"head"}`},
	{"V36", `begin
		output.spilled {"size_bytes":"many","preview":"","output_ref":"r"}`},
	{"V40", `begin
		permission.evaluated {"decision":"allow","decision_source":"a feeling"}`},
	{"V47", `begin
		action.required
		action.resolved {"decision":"deny","via":"expiry"}`},
	{"V77", `begin
		routing.fallback.applied {"from":"a","to":"","reason":"c"}`},
	{"V32", tool + `tool.result status=completed {"preview":"","canonical":{"status":"error"}}`},
	{"V48", `sandbox.applied {"enforcement":{"filesystem":"enforced","process":"enforced","secret":"enforced"}}`},
	{"V51", queued("explode")},
	{"V51", queued("promote")},
	{"V51", `queue.changed {"op":"enqueue","entry":{"message_id":"m"},"depth":1.5}`},
	{"V9", "task.created {\"parent_task_id\":\"none\"}"},
	{"V62", aTask + "task.started status=completed"},
	{"V62", aTask + "task.started\ntask.waiting status=completed {\"wait_for\":{\"kind\":\"k\",\"ref\":\"r\"}}"},
	{"V62", aTask + "task.started\ntask.waiting"},
	{"V62", aTask + "task.started\ntask.updated status=completed"},
	{"V63", aTask + "task.started\ntask.failed\ntask.retrying\ntask.started"},
	{"V65", "task.created\ntask.created task_id=b parent_task_id=task_id-1\n" +
		"task.accepted\ntask.cancel_requested\ntask.accepted task_id=b\ntask.started task_id=b"},
	{"V65", "task.created\ntask.created task_id=b {\"parent_task_id\":\"task_id-1\"}\n" +
		"task.accepted\ntask.cancel_requested\ntask.cancelled\ntask.created task_id=c parent_task_id=b"},
	{"V66", `task.created {"acceptance":[{"id":"a"},{"id":"b"}]}
		task.accepted
		task.started
		task.completed {"delivery_state":"delivered","acceptance":[{"id":"a","status":"met"}]}`},
	{"V66", aTask + `task.updated {"acceptance":["it builds"]}
		task.started
		task.completed {"delivery_state":"delivered"}`},
	{"V66", aTask + `task.started
		task.completed {"delivery_state":"delivered","acceptance":[{"id":"a","status":"pending"}]}`},
	{"V66", aTask + "task.started\ntask.completed {\"delivery_state\":\"unknown\"}"},
	{"V75", `begin
		routing.candidates.resolved turn_id=turn_id-1 {"candidate_count":2,"candidates":[{}]}`},
	{"V75", `begin
		routing.not_possible {"candidate_count":1}`},
	{"V75", `begin
		routing.decided {"candidate_count":0}`},
	{"V78", request + "model.failed\nturn.completed {\"usage\":{\"input_tokens\":3}}"},
	{"V78", request + "model.failed\nturn.failed status=failed {\"usage\":{\"input_tokens\":3}}"},
	{"V83", "job.item.started\njob.item.failed\njob.item.started {\"attempt\":2}\njob.item.failed\n" +
		"job.item.started {\"attempt\":2}"},
	{"V75", `begin
		routing.single_candidate {"candidate_count":2}`},
	{"V75", `begin
		routing.decided {"candidate_count":1,"fallback_chain":["a","b"]}`},
}

func TestAlsoBroken(t *testing.T) {
	for _, tt := range alsoBroken {
		if rules := broken(events(t, tt.log)); !slices.Contains(rules, tt.rule) {
			t.Errorf("%q breaks %v, want %s", tt.log, rules, tt.rule)
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

// logs holds a valid and an invalid log of each rule that has a check.
var logs = map[string]struct{ valid, invalid string }{
	"V1": {"thread.started", "thread.started timestamp=now"},
	"V2": {"thread.started", "thread.started thread_id="},
	"V3": {"begin\nholon.brief.created", "begin\nturn.canceled"},
	"V4": {"session.created event_id=a sequence=1\nsession.created event_id=a sequence=1",
		"session.created event_id=a\nsession.updated event_id=a"},
	"V5":  {"begin", "session.created\nsession.updated sequence=3"},
	"V6":  {`session.created {"title":"x"}`, `session.created {"title":"` + strings.Repeat("x", MaxPayload) + `"}`},
	"V8":  {"begin\ntool.started", "begin\ntool.started step_id=tool_call_id-1"},
	"V9":  {aTask, "task.accepted"},
	"V11": {tool + `tool.failed {"failure_category":"timeout","message":"m","retryable":true}`, "begin\ntool.progress"},
	"V12": {tool + "tool.started tool_call_id=other", tool + "tool.started"},
	"V13": {"begin\naction.required\naction.resolved", "begin\naction.resolved"},
	"V14": {"begin\nprocess.started\nprocess.output\nprocess.completed",
		"begin\nprocess.started\nprocess.completed\nprocess.failed"},
	"V15": {request + "model.delta\nmodel.completed", request + "model.completed\nmodel.completed"},
	"V16": {"task.created\nbegin\ntask.attempt.started turn_id=turn_id-1\naction.required turn_id=turn_id-1\nturn.completed {\"open_action_ids\":[\"action_id-1\"]}",
		"begin\naction.required turn_id=turn_id-1\nturn.completed"},
	"V17": {"begin\nturn.completed", "begin\nturn.completed\ntool.catalog.resolved turn_id=turn_id-1"},
	"V18": {"begin\nturn.completed", "begin\nturn.completed\nturn.completed"},
	"V19": {"begin", "thread.started\nturn.started"},
	"V21": {"begin\ncontext.compaction.started\ncontext.compaction.failed", "begin\nhook.completed"},
	"V26": {request + "model.failed {\"outcome\":\"retrying\"}\nmodel.requested model_request_id=b {\"attempt\":2}",
		"begin\nmodel.requested {\"attempt\":2}"},
	"V27": {`begin
		turn.failed status=cancelled {"failure_category":"cancelled","retryable":false}`, "begin\nturn.failed status=failed"},
	"V31": {tool + "tool.result status=completed {\"preview\":\"\"}",
		"begin\ntool.started\ntool.result status=completed"},
	"V32": {tool + "tool.result status=completed {\"preview\":\"\"}",
		tool + "tool.result status=completed {\"success\":false}"},
	"V33": {tool + `tool.failed {"failure_category":"permission_denied","message":"m","retryable":false}`,
		tool + "permission.evaluated tool_call_id=tool_call_id-1 {\"decision\":\"deny\",\"decision_source\":\"rule\"}\ntool.result"},
	"V34": {overlap("true"), overlap("false")},
	"V36": {`begin
		output.truncated {"kept_bytes":1,"size_bytes":2,"truncation":"head"}`, "begin\noutput.spilled"},
	"V39": {tool + `permission.evaluated tool_call_id=tool_call_id-1 {"decision":"allow","decision_source":"rule"}
		sandbox.applied tool_call_id=tool_call_id-1 ` + axes("enforced") + `
		process.started tool_call_id=tool_call_id-1`, tool + "process.started tool_call_id=tool_call_id-1"},
	"V40": {`begin
		permission.evaluated {"decision":"allow","decision_source":"rule"}`, "begin\npermission.evaluated"},
	"V47": {`begin
		action.required {"expires_at":"2026-11-24T00:00:00Z"}
		action.resolved {"decision":"expired"}`, "begin\naction.required\naction.resolved {\"decision\":\"expired\"}"},
	"V48": {"begin\nsandbox.applied " + axes("unknown"), "begin\nsandbox.applied " + axes("yes")},
	"V49": {tool + "sandbox.violation tool_call_id=tool_call_id-1\n" +
		`tool.failed {"failure_category":"sandbox_violation","message":"m","retryable":false}`,
		tool + "sandbox.violation tool_call_id=tool_call_id-1\ntool.result"},
	"V50": {`begin
		hook.started
		hook.failed {"fail_mode":"open"}`, "begin\nhook.started\nhook.failed"},
	"V51": {`begin
		queue.changed {"op":"enqueue","entry":{"queued_turn_id":"q"},"depth":1}
		queue.changed {"op":"dequeue","entry":{"queued_turn_id":"q"},"depth":0}`, `begin
		queue.changed {"op":"dequeue","entry":{"queued_turn_id":"q"}}`},
	"V53": {"begin\nturn.completed\nturn.submitted turn_id=b\nturn.started turn_id=b",
		"begin\nturn.submitted turn_id=b\nturn.started turn_id=b"},
	"V62": {aTask + "task.started", aTask + "task.archived"},
	"V63": {aTask + "task.attempt.started\ntask.attempt.failed\ntask.attempt.started run_id=b",
		aTask + "task.attempt.started\ntask.attempt.failed\ntask.attempt.started"},
	"V65": {"task.created\ntask.created task_id=b parent_task_id=task_id-1",
		aTask + "task.cancel_requested\ntask.created task_id=b parent_task_id=task_id-1"},
	"V66": {`task.created {"acceptance":[{"id":"a"},"it builds"]}
		task.accepted
		task.started
		task.completed {"delivery_state":"delivered","acceptance":[{"id":"a","status":"met"},{"status":"failed"}]}`,
		aTask + "task.started\ntask.completed"},
	"V67": {aTask + "task.started\ntask.lost {\"evidence\":[]}", aTask + "task.started\ntask.lost"},
	"V70": {
		aTask + "task.started\ntask.waiting status=waiting_input {\"wait_for\":{\"kind\":\"operator\",\"ref\":\"a\"}}",
		aTask + "task.started\ntask.waiting status=waiting_input",
	},
	"V71": {request, "thread.started\nturn.submitted\nturn.started\nmodel.requested {\"attempt\":1}"},
	"V72": {
		"begin\ncontext.compaction.started\n" + `context.compaction.completed {"preserved":{"actions":[],"incidents":[],"evidence":[]}}`,
		"begin\ncontext.compaction.started\ncontext.compaction.completed",
	},
	"V75": {request + "model.completed\nturn.completed",
		"begin\nmodel.requested {\"attempt\":1}\nmodel.completed\nturn.completed"},
	"V76": {request, "begin\nrouting.not_possible\nmodel.requested {\"attempt\":1}"},
	"V77": {`begin
		routing.fallback.applied {"from":"a","to":"b","reason":"c"}`, "begin\nrouting.fallback.applied"},
	"V78": {request + `model.completed
		cost.recorded turn_id=turn_id-1 {"usage":{"input_tokens":3,"output_tokens":2}}
		turn.completed {"usage":{"input_tokens":3,"output_tokens":2}}`,
		request + "model.completed\nturn.completed {\"usage\":{\"input_tokens\":3}}"},
	"V79": {request + "model.failed {\"http_status\":429}\nrate_limit.hit turn_id=turn_id-1\nturn.completed",
		request + "model.failed {\"http_status\":429}\nturn.completed"},
	"V80": {
		"task.created\nbegin\nsubagent.spawned task_id=task_id-1 {\"child_thread_id\":\"c\",\"cause_tool_call_id\":\"t\"}",
		"begin\nsubagent.spawned",
	},
	"V81": {
		aTask + "task.started\ntask.created task_id=b parent_task_id=task_id-1\ntask.completed {\"delivery_state\":\"queued\",\"detached_children\":true}",
		aTask + "task.started\ntask.created task_id=b parent_task_id=task_id-1\ntask.completed {\"delivery_state\":\"queued\"}",
	},
	"V83": {"job.item.started\njob.item.failed\njob.item.started {\"attempt\":2}",
		"job.item.started\njob.item.failed\njob.item.started"},
}

// axes are what holds a sandbox, with a level of its network.
func axes(level string) string {
	return fmt.Sprintf(`{"enforcement":{"filesystem":"unknown","network":%q,"process":"unknown","secret":"unknown"}}`, level)
}

// overlap is two tools that execute at once.
func overlap(reads string) string {
	return `begin
		tool.catalog.resolved {"tools":[{"tool_name":"t","is_read_only":` + reads + `}]}
		tool.started {"tool_name":"t"}
		tool.started tool_call_id=b step_id=c {"tool_name":"t"}
		tool.progress {"phase":"executing"}
		tool.progress tool_call_id=b step_id=c {"phase":"executing"}`
}

func TestRules(t *testing.T) {
	for i, r := range Rules() {
		if r.Number != i+1 || r.Statement == "" || r.Checked() != (r.Why == "") {
			t.Errorf("rule %d of the table is %+v", i+1, r)
		}
		log, ok := logs[r.ID()]
		if ok != r.Checked() {
			t.Errorf("%s: checked %v, has logs %v", r.ID(), r.Checked(), ok)
		}
		if !ok {
			continue
		}
		if got := broken(events(t, log.valid)); slices.Contains(got, r.ID()) {
			t.Errorf("%s: the valid log breaks %v", r.ID(), got)
		}
		if got := broken(events(t, log.invalid)); !slices.Contains(got, r.ID()) {
			t.Errorf("%s: the invalid log breaks only %v", r.ID(), got)
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
	for _, c := range Classes() {
		count[c.Core]++
	}
	if count[true] != 58 || count[false] != 55 {
		t.Errorf("%d core and %d extended classes", count[true], count[false])
	}
}

var update = flag.Bool("update", false, "rewrite the table of docs/reference/agent-runtime.md")

// The table of the reference page is the table of the rules.
func TestPage(t *testing.T) {
	const page = "../../docs/reference/agent-runtime.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(data), "| rule | level |")
	var b strings.Builder
	b.WriteString(head + "| rule | level | it says | how it is checked |\n|---|---|---|---|\n")
	for _, r := range Rules() {
		how := "not from a log: " + r.Why
		if r.Checked() {
			how = "at every event"
			if len(r.On) > 0 {
				how = "at `" + strings.Join(r.On, "`, `") + "`"
			}
		}
		fmt.Fprintf(&b, "| %s | %c | %s | %s |\n", r.ID(), r.Level, r.Statement, how)
	}
	if b.String() == string(data) {
		return
	}
	if !*update {
		t.Fatal("the table differs from the rules: go test ./responses/agentruntime -run TestPage -update")
	}
	if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
